// The checkpoint: state at a place of the journal, so that a start need not replay all. lowdb documents through a
// durable adapter: unique temporary file, fsync, rename, fsync of the directory. One document per run, only those that
// changed are written; `_meta.json` (ids never begin with "_") comes last and names the place and the runs.
// The meta document names how new each run's must be at least. Documents are made from immutable values taken at one moment.

import { join } from "node:path";
import { Low } from "lowdb";
import type { Gap } from "../../schemas/answers.ts";
import type { ChangedPath } from "../../schemas/events.ts";
import { faultPoint } from "../../schemas/fault-points.ts";
import { taskKey } from "../../schemas/ids.ts";
import { STATE_VERSION } from "../../schemas/limits.ts";
import type { Run, Task } from "../../schemas/task.ts";
import { extendIndex } from "./apply.ts";
import type { Base } from "./base.ts";
import { type DocumentPorts, DurableFile } from "./durable-document.ts";
import type { Position } from "./journal.ts";
import type { Snapshot } from "./view.ts";

interface MetaDoc {
  v: number;
  position: Position;
  runs: string[];
  /** Run -> `seq` of its document when this one was written. */
  seqs?: Record<string, number>;
  /** Parts of the journal before the place that are lost. */
  gaps?: Gap[];
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

function metaFile(ports: DocumentPorts): Low<MetaDoc> {
  const file = new DurableFile<MetaDoc>(ports, join(ports.dir, "_meta.json"), []);
  return new Low<MetaDoc>(file, {
    v: 0,
    position: { seq: 0, mac: "", segment: 0, offset: 0, lines: 0 },
    runs: [],
  });
}

function runFile(ports: DocumentPorts, run: string): Low<Partial<RunDoc>> {
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
  ports: DocumentPorts,
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
  const gaps = [...base.gaps];
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
    file.data = { v: STATE_VERSION, position, runs, seqs: named, ...(gaps.length > 0 && { gaps }) };
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
  ports: DocumentPorts,
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
  base.gaps.push(...(meta.data.gaps ?? []));
  return { position: meta.data.position, seqOf };
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
