// The proof that a gate can fail: once per run, a tree broken on purpose must be found red before any green counts.
//
// 1. The tree is the run's base with the text of `gate.canary` added to its file.
// 2. All tiers run on it. Red is right, but for a program that is missing: that check is looked at on the base, where it
//    must be green (bases.ts).
// 3. Green, or red on the base too: the gate proves nothing. The run is paused at once, whatever works meanwhile, and
//    attempts are held. A run that was let go on since is asked anew.
// 4. Trouble of the machine is no answer: the next attempt that needs it tries again.

import { join } from "node:path";
import { faultPoint } from "../schemas/fault-points.ts";
import type { Run } from "../schemas/task.ts";
import type { Verdict } from "../schemas/verdict.ts";
import { type Bases, lifeOf, pauseRun } from "./bases.ts";
import { writeCommit } from "./commit.ts";
import { controlGit } from "./control.ts";
import { makePrivateDir } from "./dirs.ts";
import { randomHex, removeTree } from "./edges.ts";
import { checksFor, lacksProgram } from "./gate.ts";
import type { GateOrder } from "./gate-order.ts";
import { runGate } from "./gate-runner.ts";
import type { Kit } from "./kit.ts";
import { withNewObjects } from "./new-objects.ts";

export type CanaryAnswer =
  | { kind: "trusted" }
  | { kind: "blind"; why: string }
  | { kind: "unknown"; why: string };

/** What asks: it lends its name and token. */
type Asker = Pick<GateOrder, "attempt" | "task" | "run">;

interface Song {
  /** Of the run, when it began. */
  life: number | undefined;
  /** Of the attempt that lent its name. */
  lent: AbortSignal;
  answer: Promise<CanaryAnswer>;
  blind?: true;
}

export class Canaries {
  readonly #bases: Bases;
  readonly #songs = new Map<string, Song>();

  constructor(bases: Bases) {
    this.#bases = bases;
  }

  /** Starts the canary of the run if nobody has; never rejects. */
  async ask(kit: Kit, asker: Asker): Promise<CanaryAnswer> {
    const { signal } = asker.attempt.abort;
    for (;;) {
      const known = this.#known(kit, asker.run.run);
      const song = known ?? this.#begin(kit, asker);
      const answer = await song.answer;
      // Whoever lent its name was stopped; ours is as good.
      const isStopped = answer.kind === "unknown" && known?.lent.aborted;
      if (!isStopped || signal.aborted) return answer;
    }
  }

  #known(kit: Kit, run: string): Song | undefined {
    const song = this.#songs.get(run);
    return song?.blind && song.life !== lifeOf(kit, run) ? undefined : song;
  }

  #begin(kit: Kit, asker: Asker): Song {
    const { run } = asker.run;
    const answer = sing(kit, this.#bases, asker).catch(
      (error): CanaryAnswer => ({
        kind: "unknown",
        why: error instanceof Error ? error.message : String(error),
      }),
    );
    const song: Song = { life: lifeOf(kit, run), lent: asker.attempt.abort.signal, answer };
    this.#songs.set(run, song);
    void answer.then(async (found) => {
      if (found.kind === "unknown") this.#songs.delete(run);
      if (found.kind !== "blind") return;
      song.blind = true;
      // Whoever is held by it says it again.
      if (song.life === lifeOf(kit, run)) await pauseRun(kit, run, found.why).catch(() => {});
    });
    return song;
  }
}

async function sing(kit: Kit, bases: Bases, asker: Asker): Promise<CanaryAnswer> {
  const { attempt, task, run } = asker;
  const { gate } = run.spec;
  if (gate === "none" || gate.canary === undefined || wasTrusted(kit, run.run)) return { kind: "trusted" };
  const { file, append } = gate.canary;
  // No ref ever names it: kept from a gc of the user's while its checks run.
  const checks = checksFor(task.spec, gate, { kind: "canary" });
  const { signal } = attempt.abort;
  return await withNewObjects(kit.control, async ({ control, store }): Promise<CanaryAnswer> => {
    const { commit, tree } = await brokenCommit({ ...kit, control }, run, file, append);
    await store(commit, [run.spec.base]);
    const order: GateOrder = { attempt, task, run, commit, tree, checks, as: "canary", signal };
    const result = await runGate(kit, order);
    if (result.kind === "pass")
      return {
        kind: "blind",
        why: `the gate stayed green on the canary (${file} with "${append.slice(0, 80)}" added), so it proves nothing and no task is blamed; mend gate or canary and run the plan anew, or mend what a check needs and go on`,
      };
    if (result.kind === "infra" && result.cure !== undefined) return { kind: "blind", why: result.cure };
    if (result.kind !== "fail" || result.lost) return { kind: "unknown", why: result.evidence.summary };
    const { of, evidence } = result;
    const red = of && lacksProgram(evidence) ? await bases.look(kit, order, of) : undefined;
    return red === undefined ? { kind: "trusted" } : { kind: "blind", why: red };
  });
}

/** After a restart: a verdict of the canary is on record that needs no second look. */
function wasTrusted(kit: Kit, run: string): boolean {
  const isProof = (v: Verdict) => v.tier === "canary" && v.verdict === "fail" && !lacksProgram(v);
  for (const task of kit.mirror.runs.get(run)?.tasks.values() ?? [])
    for (const attempt of task.attempts) if (attempt.verdicts.some(isProof)) return true;
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
