// The checkpoint: state at a place of the journal, so that a start need not replay all. lowdb documents through a
// durable adapter: unique temporary file, fsync, rename, fsync of the directory. One document per run, only those that
// changed are written; `_meta.json` (ids never begin with "_") comes last and names the place and the runs.
// The last member of a document is its mac by the bus's key: a byte that was changed makes it unreadable, not another
// state. Documents of older versions have none. The meta document names how new each run's must be at least.
// A document is made into text in slices, each a few milliseconds, from immutable values taken at one moment.

import { createHmac, type Hmac } from "node:crypto";
import { basename, dirname, join } from "node:path";
import { type Adapter, Low } from "lowdb";
import { BusbarError, ioError } from "../../schemas/errors.ts";
import type { ChangedPath } from "../../schemas/events.ts";
import { faultPoint } from "../../schemas/fault-points.ts";
import { taskKey } from "../../schemas/ids.ts";
import { STATE_VERSION } from "../../schemas/limits.ts";
import type { Run, Task } from "../../schemas/task.ts";
import { extendIndex } from "./apply.ts";
import type { Base } from "./base.ts";
import { type Disk, readWhole, writeAll } from "./disk.ts";
import type { Position } from "./journal.ts";
import type { Snapshot } from "./view.ts";

interface MetaDoc {
  v: number;
  position: Position;
  runs: string[];
  /** Run -> `seq` of its document when this one was written. */
  seqs?: Record<string, number>;
}

type ShotDoc = Omit<Snapshot, "changed"> & { task: string; changed: ChangedPath[] };

/** A run as it is written down. */
export interface RunDoc {
  v: number;
  /** Records of this run up to here are in it; may be newer than the meta document. */
  seq: number;
  run: Run;
  tasks: Task[];
  shots: ShotDoc[];
  reads: { task: string; attempt: number; paths: [string, string][] }[];
}

/** How long one slice of stringify may hold the loop. */
const SLICE_MS = 2;
/** Text gathered before it is handed to the disk. */
const WRITE_CHARS = 1024 * 1024;

export interface CheckpointPorts {
  disk: Disk;
  dir: string;
  key: Buffer;
  monotonic(): number;
}

/** lowdb's adapter, made durable and sliced. `lists` names the members that are long arrays. */
class DurableFile<T extends { v?: number }> implements Adapter<T> {
  constructor(
    private readonly ports: CheckpointPorts,
    private readonly path: string,
    private readonly lists: readonly (keyof T & string)[],
  ) {}

  async read(): Promise<T | null> {
    const bytes = await readWhole(this.ports.disk, this.path);
    if (!bytes) return null;
    const doc = JSON.parse(bytes.toString("utf8")) as T;
    checkVersion(doc.v ?? 0, this.ports.dir); // first: a newer version may seal in another way
    this.prove(bytes);
    return doc;
  }

  private prove(bytes: Buffer): void {
    const end = bytes.toString("latin1", Math.max(0, bytes.length - SEAL_LENGTH));
    const claimed = SEAL.exec(end)?.[1];
    if (claimed === undefined) return;
    const text = bytes.subarray(0, bytes.length - SEAL_LENGTH);
    if (macOf(createHmac("sha256", this.ports.key).update(text)) !== claimed)
      throw new Error(`${this.path} was changed: its mac does not match`);
  }

  async write(data: T): Promise<void> {
    const { disk } = this.ports;
    const dir = dirname(this.path);
    const temporary = join(dir, `.${basename(this.path)}.${process.pid}-${tempCount++}.tmp`);
    try {
      faultPoint("bus.checkpoint.before-open");
      const file = await disk.open(temporary, "wx", 0o600);
      try {
        let position = 0;
        const put = async (text: string, hmac?: Hmac) => {
          const bytes = Buffer.from(text, "utf8");
          hmac?.update(bytes);
          faultPoint("bus.checkpoint.before-write");
          await writeAll(file, bytes, position);
          position += bytes.length;
        };
        const hmac = createHmac("sha256", this.ports.key);
        for await (const text of this.slices(data)) await put(text, hmac);
        await put(`,"mac":"${macOf(hmac)}"}\n`);
        faultPoint("bus.checkpoint.before-sync");
        await file.sync();
      } finally {
        await file.close();
      }
      faultPoint("bus.checkpoint.before-rename");
      await disk.rename(temporary, this.path);
      faultPoint("bus.checkpoint.before-sync-directory");
      await disk.syncDir(dir);
    } catch (error) {
      faultPoint("bus.checkpoint.before-clean-up");
      await disk.unlink(temporary).catch(() => {});
      throw ioError("writing the checkpoint", this.path, error, "STORAGE");
    }
  }

  /** The text without its last brace. */
  private async *slices(data: T): AsyncGenerator<string> {
    const small = Object.fromEntries(Object.entries(data).filter(([k]) => !this.isList(k)));
    let text = JSON.stringify(small).slice(0, -1);
    let began = this.ports.monotonic();
    for (const name of this.lists) {
      text += `,${JSON.stringify(name)}:[`;
      const items = data[name] as unknown[];
      for (let i = 0; i < items.length; i++) {
        text += `${i === 0 ? "\n" : ",\n"}${JSON.stringify(items[i])}`;
        if (this.ports.monotonic() - began < SLICE_MS) continue;
        if (text.length > WRITE_CHARS) {
          yield text;
          text = "";
        } else await new Promise((resolve) => setImmediate(resolve));
        began = this.ports.monotonic();
      }
      text += "]";
    }
    yield text;
  }

  private isList(key: string): boolean {
    return (this.lists as readonly string[]).includes(key);
  }
}
let tempCount = 0;

const SEAL = /^,"mac":"([0-9a-f]{32})"\}\n$/;
const SEAL_LENGTH = ',"mac":""}\n'.length + 32;

function macOf(hmac: Hmac): string {
  return hmac.digest("hex").slice(0, 32);
}

function metaFile(ports: CheckpointPorts): Low<MetaDoc> {
  const file = new DurableFile<MetaDoc>(ports, join(ports.dir, "_meta.json"), []);
  return new Low<MetaDoc>(file, {
    v: 0,
    position: { seq: 0, mac: "", segment: 0, offset: 0, lines: 0 },
    runs: [],
  });
}

function runFile(ports: CheckpointPorts, run: string): Low<Partial<RunDoc>> {
  const file = new DurableFile<Partial<RunDoc>>(ports, join(ports.dir, `${run}.json`), [
    "tasks",
    "shots",
    "reads",
  ]);
  return new Low<Partial<RunDoc>>(file, {});
}

/**
 * The documents of `dirty` runs as they are at this moment, and the way to write them. `seqs` holds how new the other
 * documents are; what is written is noted there.
 */
export function takeCheckpoint(
  ports: CheckpointPorts,
  base: Base,
  position: Position,
  dirty: Iterable<string>,
  seqs: Map<string, number>,
): () => Promise<void> {
  const docs: { run: string; doc: RunDoc }[] = [];
  for (const id of dirty) {
    const doc = runDoc(base, id, position.seq);
    if (doc) docs.push({ run: id, doc });
  }
  const runs = [...base.runTable.keys()];
  return async () => {
    faultPoint("bus.checkpoint.before-make-directory");
    await ports.disk.mkdir(ports.dir);
    for (const { run, doc } of docs) {
      const file = runFile(ports, run);
      file.data = doc;
      await file.write();
      seqs.set(run, position.seq);
    }
    const file = metaFile(ports);
    const named = Object.fromEntries(runs.map((run) => [run, seqs.get(run) ?? 0]));
    file.data = { v: STATE_VERSION, position, runs, seqs: named };
    await file.write();
  };
}

export function runDoc(base: Base, id: string, seq: number): RunDoc | undefined {
  const run = base.run(id);
  if (!run) return undefined;
  const doc: RunDoc = { v: STATE_VERSION, seq, run, tasks: [...base.tasks(id)], shots: [], reads: [] };
  for (const task of run.order) {
    for (const shots of base.shots(id, task).values()) {
      for (const shot of shots) {
        // toJSON later, slice by slice: only references are taken now
        doc.shots.push({ ...shot, task, changed: lazy(() => [...shot.changed.values()]) });
      }
    }
    for (const [attempt, paths] of base.reads.get(taskKey(id, task)) ?? []) {
      doc.reads.push({ task, attempt, paths: [...paths] });
    }
  }
  return doc;
}

function lazy(make: () => ChangedPath[]): ChangedPath[] {
  return { toJSON: make } as unknown as ChangedPath[];
}

/**
 * Fills `base` from the checkpoint. Returns its place and up to which record each run is; undefined when there is
 * none. Throws STATE_TOO_NEW; anything unreadable throws what reading threw (then the journal is replayed whole).
 */
export async function loadCheckpoint(
  ports: CheckpointPorts,
  base: Base,
): Promise<{ position: Position; seqOf: Map<string, number> } | undefined> {
  for (const name of await ports.disk.list(ports.dir)) {
    if (!name.endsWith(".tmp")) continue;
    faultPoint("bus.checkpoint.before-remove-torn");
    await ports.disk.unlink(join(ports.dir, name)).catch(() => {}); // left by a kill; it harms nobody
  }
  const meta = metaFile(ports);
  await meta.read();
  if (meta.data.v === 0) return undefined;
  const seqOf = new Map<string, number>();
  for (const run of meta.data.runs) {
    const file = runFile(ports, run);
    await file.read();
    const doc = file.data;
    if (doc.v === undefined) throw new Error(`the document of run ${run} is missing`);
    if ((doc.seq ?? 0) < (meta.data.seqs?.[run] ?? 0))
      throw new Error(`the document of run ${run} is older than the checkpoint`);
    fill(base, doc as RunDoc);
    seqOf.set(run, doc.seq ?? 0);
  }
  return { position: meta.data.position, seqOf };
}

function checkVersion(v: number, dir: string): void {
  if (v > STATE_VERSION) {
    throw new BusbarError("STATE_TOO_NEW", `${dir} was written in version ${v}; this is ${STATE_VERSION}`, {
      version: v,
      known: STATE_VERSION,
    });
  }
}

/** Puts a document's run into `base`. */
export function fill(base: Base, doc: RunDoc): void {
  const id = doc.run.run;
  base.putRun(doc.run);
  for (const task of doc.tasks) base.putTask(task);
  const nodes = doc.tasks.map((t) => ({ id: t.spec.id, wave: t.wave, deps: t.spec.depends_on }));
  base.putIndex(id, extendIndex(undefined, nodes));
  const shots = new Map<string, Map<number, Snapshot[]>>();
  for (const { task, changed, ...rest } of doc.shots) {
    const byAttempt = shots.get(task) ?? new Map<number, Snapshot[]>();
    shots.set(task, byAttempt);
    const list = byAttempt.get(rest.attempt) ?? [];
    byAttempt.set(rest.attempt, list);
    list.push({ ...rest, changed: new Map(changed.map((c) => [c.path, c])) });
  }
  for (const [task, byAttempt] of shots) base.putShots(id, task, byAttempt);
  for (const { task, attempt, paths } of doc.reads) {
    for (const [path, oid] of paths) base.putRead(taskKey(id, task), attempt, path, oid);
  }
}
