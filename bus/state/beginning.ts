// The beginning of a journal whose oldest files were removed (retention.ts): which record was the last of them, its mac,
// which the next one follows, and the state that they led to. So the chain is proven from there, a replay of the whole
// journal still leads to the state, and a start without checkpoint needs nothing of what is gone.
// One document beside the files, sealed: who does not hold the key cannot pass off other missing files as removed.

import { join } from "node:path";
import type { Gap, Removed } from "../../schemas/answers.ts";
import { STATE_VERSION } from "../../schemas/limits.ts";
import type { Run, Task } from "../../schemas/task.ts";
import type { Base } from "./base.ts";
import { fill, type RunDoc, runDoc } from "./checkpoint.ts";
import { type DocumentPorts, DurableFile } from "./durable-document.ts";
import type { Beginning, Position } from "./journal.ts";

type OfRun<T> = T & { run: string };

interface BeginningDoc {
  v: number;
  removed: Removed;
  last_mac: string;
  gaps: Gap[];
  runs: Run[];
  tasks: Task[];
  shots: OfRun<RunDoc["shots"][number]>[];
  reads: OfRun<RunDoc["reads"][number]>[];
}

/** Where no file has been named yet. */
export function placeBefore(seq: number, mac: string): Position {
  return { seq, mac, segment: 0, offset: 0, lines: 0 };
}

const NAME = "beginning.json";

/** Whether a file of this name beside it is one that was not finished. */
export function isDraft(name: string): boolean {
  return name.startsWith(`.${NAME}.`) && name.endsWith(".tmp");
}

function document(ports: DocumentPorts): DurableFile<BeginningDoc> {
  const lists = ["runs", "tasks", "shots", "reads"] as const;
  return new DurableFile<BeginningDoc>(ports, join(ports.dir, NAME), lists, "always");
}

/** Undefined where nothing was removed. Throws STATE_TOO_NEW, and what reading throws: it was changed. */
export async function readBeginning(ports: DocumentPorts): Promise<Beginning | undefined> {
  const doc = await document(ports).read();
  if (!doc) return undefined;
  const { removed, last_mac } = doc;
  return { removed, place: placeBefore(removed.to, last_mac), fill: (base) => fillFrom(doc, base) };
}

/** `base` is the state after the last record that goes. Durable when this is fulfilled. */
export function writeBeginning(
  ports: DocumentPorts,
  base: Base,
  removed: Removed,
  last_mac: string,
): Promise<void> {
  const { gaps } = base;
  const doc: BeginningDoc = {
    v: STATE_VERSION,
    removed,
    last_mac,
    gaps,
    runs: [],
    tasks: [],
    shots: [],
    reads: [],
  };
  for (const id of base.runTable.keys()) {
    const { run, tasks, shots, reads } = runDoc(base, id, removed.to) as RunDoc;
    doc.runs.push(run);
    doc.tasks.push(...tasks);
    for (const shot of shots) doc.shots.push({ ...shot, run: id });
    for (const read of reads) doc.reads.push({ ...read, run: id });
  }
  return document(ports).write(doc);
}

function fillFrom({ removed, gaps, runs, tasks, shots, reads }: BeginningDoc, base: Base): void {
  base.gaps.push(...gaps);
  const empty = (run: Run): RunDoc => ({
    v: STATE_VERSION,
    seq: removed.to,
    run,
    tasks: [],
    shots: [],
    reads: [],
  });
  const docs = new Map(runs.map((run) => [run.run, empty(run)]));
  for (const task of tasks) docs.get(task.run)?.tasks.push(task);
  for (const { run, ...shot } of shots) docs.get(run)?.shots.push(shot);
  for (const { run, ...read } of reads) docs.get(run)?.reads.push(read);
  for (const doc of docs.values()) fill(base, doc);
}
