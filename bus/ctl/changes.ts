// What an attempt changed, as git tells it: base against snapshot, straight from the object store.

import { BusbarError } from "../../schemas/errors.ts";
import type { AttemptRecord, Run, Task } from "../../schemas/task.ts";
import { git } from "../git/run.ts";
import { parseAddress, resolveTask } from "./address.ts";
import { commonDirOf } from "./connect.ts";
import type { Args, Ctx } from "./context.ts";
import { EXIT } from "./exit-codes.ts";
import { type Outside, outsideOf } from "./outside.ts";

export interface Change {
  attempt: number;
  base: string;
  /** The base itself where nothing of the change was in scope. */
  commit: string;
}

/** What verbs about one change of a task share: find it by the words given, do `deed`, let the bus go. */
export async function onChange(
  ctx: Ctx,
  args: Args,
  deed: (found: {
    commonDir: string;
    run: Run;
    task: Task;
    change: Change;
    outside: Outside;
  }) => Promise<void>,
): Promise<number> {
  const address = parseAddress(args.word(0) ?? "");
  const attempt = args.whole("attempt", 1);
  const commonDir = await commonDirOf(ctx.dir);
  const bus = await ctx.connect();
  try {
    const { run, task } = await resolveTask(bus, address);
    const change = changeOf(task, attempt);
    const record = task.attempts.find((one) => one.attempt === change.attempt);
    await deed({ commonDir, run, task, change, outside: await leftOut(commonDir, change, record) });
    return EXIT.ok;
  } finally {
    bus.close();
  }
}

/** Of what broke the scope, what the commit does not hold. */
async function leftOut(
  commonDir: string,
  change: Change,
  record: AttemptRecord | undefined,
): Promise<Outside> {
  const outside = record ? outsideOf(record) : { paths: [], secret: false, place: undefined };
  if (outside.paths.length === 0) return outside;
  const held = new Set((await filesOf(commonDir, change)).map((file) => file.path));
  return { ...outside, paths: outside.paths.filter((path) => !held.has(path)) };
}

/** The newest attempt that has a snapshot or broke its scope, or the one asked for. Throws NO_SUCH_SNAPSHOT. */
export function changeOf(task: Task, attempt?: number): Change {
  const name = `${task.run}/${task.spec.id}`;
  const record =
    attempt === undefined
      ? task.attempts.findLast((one) => work(one) !== undefined || outsideOf(one).paths.length > 0)
      : task.attempts.find((one) => one.attempt === attempt);
  if (!record) {
    const which = attempt === undefined ? "has no snapshot yet" : `has no attempt ${attempt}`;
    throw new BusbarError("NO_SUCH_SNAPSHOT", `${name} ${which}`, {
      help: `\`busctl tasks --task ${name}\` says where it stands.`,
    });
  }
  const snapshot = work(record);
  if (!snapshot && outsideOf(record).paths.length > 0)
    return { attempt: record.attempt, base: record.base, commit: record.base };
  if (!snapshot)
    throw new BusbarError("NO_SUCH_SNAPSHOT", `attempt ${record.attempt} of ${name} left no snapshot`);
  return { attempt: record.attempt, base: record.base, commit: snapshot.commit };
}

/** The newest snapshot that is more than the base. */
function work(record: AttemptRecord) {
  return record.snapshots.findLast((snapshot) => snapshot.version > 0);
}

/** Output of `git diff` with the given options, as bytes. */
export async function diffOf(commonDir: string, change: Change, options: string[]): Promise<Buffer> {
  const words = ["diff", "--no-ext-diff", "--no-textconv", ...options, change.base, change.commit, "--"];
  return (await git(words, { gitDir: commonDir, encoding: "buffer" })).stdoutBuffer;
}

/** Files of a change with added and deleted lines; null lines for binary files. */
export async function filesOf(
  commonDir: string,
  change: Change,
): Promise<{ path: string; added: number | null; deleted: number | null }[]> {
  const out = (await diffOf(commonDir, change, ["--numstat", "-z"])).toString("utf8");
  return out
    .split("\0")
    .filter((line) => line !== "")
    .map((line) => {
      const [added = "", deleted = "", ...path] = line.split("\t");
      return { path: path.join("\t"), added: count(added), deleted: count(deleted) };
    });
}

function count(text: string): number | null {
  return text === "-" ? null : Number(text);
}
