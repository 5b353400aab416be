// The proof that a gate can fail: once per run, a tree broken on purpose must be found red before any green counts.
//
// 1. The tree is the run's base with the text of `gate.canary` added to its file.
// 2. All tiers run on it. Red is right. Green means that the gate proves nothing: no attempt of the run passes then;
//    each ends as infra with that reason, until the plan is mended.
// 3. Trouble of the machine is no answer: the next attempt that needs it tries again.

import { join } from "node:path";
import { faultPoint } from "../schemas/fault-points.ts";
import type { Run, Task } from "../schemas/task.ts";
import { writeCommit } from "./commit.ts";
import { controlGit } from "./control.ts";
import { makePrivateDir } from "./dirs.ts";
import { randomHex, removeTree } from "./edges.ts";
import { checksFor } from "./gate.ts";
import { runGate } from "./gate-runner.ts";
import type { Attempt, Kit } from "./kit.ts";
import { withNewObjects } from "./new-objects.ts";

export type CanaryAnswer =
  | { kind: "trusted" }
  | { kind: "blind"; why: string }
  | { kind: "unknown"; why: string };

export class Canaries {
  readonly #answers = new Map<string, Promise<CanaryAnswer>>();

  /** Starts the canary of the run if nobody has; never rejects. The attempt lends its name and token. */
  ask(kit: Kit, attempt: Attempt, task: Task, run: Run): Promise<CanaryAnswer> {
    const known = this.#answers.get(run.run);
    if (known) return known;
    const answer = sing(kit, attempt, task, run).catch(
      (error): CanaryAnswer => ({
        kind: "unknown",
        why: error instanceof Error ? error.message : String(error),
      }),
    );
    this.#answers.set(run.run, answer);
    void answer.then(({ kind }) => {
      if (kind === "unknown") this.#answers.delete(run.run);
    });
    return answer;
  }
}

async function sing(kit: Kit, attempt: Attempt, task: Task, run: Run): Promise<CanaryAnswer> {
  const { gate } = run.spec;
  if (gate === "none" || gate.canary === undefined || wasTrusted(kit, run.run)) return { kind: "trusted" };
  const { file, append } = gate.canary;
  // No ref ever names it: kept from a gc of the user's while its checks run.
  const result = await withNewObjects(kit.control, async ({ control, store }) => {
    const { commit, tree } = await brokenCommit({ ...kit, control }, run, file, append);
    await store(commit, [run.spec.base]);
    return await runGate(kit, {
      attempt,
      task,
      run,
      commit,
      tree,
      checks: checksFor(task.spec, gate, { kind: "canary" }),
      as: "canary",
      signal: attempt.abort.signal,
    });
  });
  if (result.kind === "fail" && !result.lost) return { kind: "trusted" };
  if (result.kind !== "pass") return { kind: "unknown", why: result.evidence.summary };
  return {
    kind: "blind",
    why: `the gate stayed green on the canary (${file} with "${append.slice(0, 80)}" added)`,
  };
}

/** After a restart: a verdict of the canary is on record. */
function wasTrusted(kit: Kit, run: string): boolean {
  for (const task of kit.mirror.runs.get(run)?.tasks.values() ?? [])
    for (const attempt of task.attempts)
      if (attempt.verdicts.some((v) => v.tier === "canary" && v.verdict === "fail")) return true;
  return false;
}

/** Written like any commit of ours: a private index, no work tree. */
async function brokenCommit(
  kit: Kit,
  run: Run,
  file: string,
  append: string,
): Promise<{ commit: string; tree: string }> {
  const { control } = kit;
  const { base } = run.spec;
  makePrivateDir(join(kit.stateDir, "gate"));
  const indexFile = join(kit.stateDir, "gate", `canary-${randomHex(kit.random, 6)}.index`);
  const entry = (await controlGit(control, ["ls-tree", "-z", "--full-tree", base, "--", file])).stdout;
  const [mode = "100644", type, oid] = entry.split("\t")[0]?.split(" ") ?? [];
  const old =
    type === "blob" && oid !== undefined
      ? (await controlGit(control, ["cat-file", "blob", oid], { encoding: "buffer" })).stdoutBuffer
      : Buffer.alloc(0);
  const content = Buffer.concat([old, Buffer.from(`\n${append}\n`)]);
  faultPoint("scheduler.canary.before-write-blob");
  const blob = (
    await controlGit(control, ["hash-object", "-w", "--stdin", "--no-filters"], { input: content })
  ).stdout.trim();
  try {
    faultPoint("scheduler.canary.before-read-tree");
    await controlGit(control, ["read-tree", base], { indexFile });
    faultPoint("scheduler.canary.before-set-file");
    await controlGit(
      control,
      ["update-index", "--add", "--cacheinfo", `${type === "blob" ? mode : "100644"},${blob},${file}`],
      {
        indexFile,
      },
    );
    faultPoint("scheduler.canary.before-write-tree");
    const tree = (await controlGit(control, ["write-tree"], { indexFile })).stdout.trim();
    const message = `canary of ${run.run}: must be found red\n`;
    const commit = await writeCommit(control, {
      tree,
      parents: [base],
      message,
      identity: kit.config.identity,
    });
    return { commit, tree };
  } finally {
    await removeTree(indexFile);
  }
}
