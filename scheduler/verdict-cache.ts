// Checks that need not run: the state holds a pass of the same input (verdict-key.ts says what that is; the bus finds it,
// bus/state/proven-inputs.ts, and bears it out when it is recorded). Never for the canary, nor for a look at the base.

import { release } from "node:os";
import { faultPoint } from "../schemas/fault-points.ts";
import { compilePathSet } from "../schemas/globs.ts";
import { sandboxWish } from "../schemas/sandbox.ts";
import type { Earlier, Verdict } from "../schemas/verdict.ts";
import { controlGit } from "./control.ts";
import { jobBase } from "./edges.ts";
import type { PlannedCheck } from "./gate.ts";
import type { GateOrder, Keyed } from "./gate-order.ts";
import { checkEnvSpecs, checkJob, type JobPlace } from "./jobs.ts";
import type { Kit } from "./kit.ts";
import { whileAway } from "./settle.ts";
import { type TreeFile, treeFiles } from "./setup-key.ts";
import { isSample, standing, toRun, treeName, verdictKey } from "./verdict-key.ts";

export interface Known {
  keys: ReadonlyMap<PlannedCheck, Keyed>;
  /** In order; the others have a verdict. */
  left: readonly PlannedCheck[];
}

type Found = ReadonlyMap<string, { uses: number; earlier: Earlier }>;

/** Records a verdict for each check that need not run. Rejects only when the attempt is stopped. */
export async function fromRecord(kit: Kit, order: GateOrder): Promise<Known> {
  const started = performance.now();
  const keyOf = await keysOf(kit, order).catch((error: unknown) => {
    order.signal.throwIfAborted();
    kit.log.warn("what decides the checks could not be read; all of them run", {
      ...order.attempt.ref,
      error: String(error),
    });
    return new Map<PlannedCheck, string>();
  });
  if (keyOf.size === 0) return { keys: new Map(), left: order.checks };
  const { found } = await whileAway(kit, order.attempt, () =>
    kit.bus.call("find_verdicts", { ...order.attempt.ref, keys: [...new Set(keyOf.values())] }),
  );
  const known: Found = new Map(found.map((one) => [one.key, one]));
  const keys = new Map<PlannedCheck, Keyed>();
  for (const [check, key] of keyOf) {
    const one = known.get(key);
    keys.set(check, { key, ...(one && isSample(key, one.uses) && { again: one.earlier }) });
  }
  const earlierOf = (check: PlannedCheck) => {
    const keyed = keys.get(check);
    return keyed && !keyed.again ? known.get(keyed.key)?.earlier : undefined;
  };
  const runs = toRun(
    order.checks.map((check) => ({
      inputs: check.inputs !== undefined,
      known: earlierOf(check) !== undefined,
    })),
  );
  const took = (performance.now() - started) / Math.max(1, runs.filter((one) => !one).length);
  for (const [i, check] of order.checks.entries()) {
    const cached = earlierOf(check);
    const key = keyOf.get(check);
    if (!runs[i] && cached && key !== undefined) await record(kit, order, check, { key, cached, took });
  }
  return { keys, left: order.checks.filter((_, i) => runs[i]) };
}

async function record(
  kit: Kit,
  { attempt, tree }: GateOrder,
  check: PlannedCheck,
  { key, cached, took }: { key: string; cached: Earlier; took: number },
): Promise<void> {
  const verdict: Verdict = {
    check: check.name,
    tier: check.tier,
    tree,
    verdict: "pass",
    exit: 0,
    duration_ms: Math.round(took),
    command: check.run,
    summary: "",
    key,
    at: new Date(kit.clock.now()).toISOString(),
    cached,
  };
  await whileAway(kit, attempt, () => {
    faultPoint("scheduler.verdicts.before-record");
    return kit.bus.call("record_verdict", { ...attempt.ref, verdict });
  });
}

/** The checks whose verdict may stand for others, each with its key. */
async function keysOf(kit: Kit, order: GateOrder): Promise<Map<PlannedCheck, string>> {
  const { run, checks, as } = order;
  const { gate, copy = [], reuse_verdicts } = run.spec;
  const keys = new Map<PlannedCheck, string>();
  if (as !== undefined || reuse_verdicts === false || copy.length > 0) return keys;
  const apt = checks.filter(({ env }) => Object.keys(env?.secrets ?? {}).length === 0);
  if (apt.length === 0) return keys;
  const stands = await treeAsItStands(kit, order, apt);
  const machine = [kit.versions.node, kit.versions.git, process.arch, process.platform, release()];
  for (const check of apt) {
    const key = verdictKey({
      inputs: check.inputs,
      setup: gate === "none" ? [] : gate.setup,
      ...stands,
      job: jobWithoutPlace(kit, order, check),
      sandbox: [sandboxWish(run.spec.sandbox, kit.config.sandbox), kit.sandbox.facts],
      machine,
    });
    if (key !== undefined) keys.set(check, key);
  }
  return keys;
}

async function treeAsItStands(
  kit: Kit,
  { run, tree }: GateOrder,
  checks: readonly PlannedCheck[],
): Promise<{ whole: string; files: () => readonly TreeFile[] }> {
  const { protect, base } = run.spec;
  if (protect.length === 0 && checks.every(({ inputs }) => inputs === undefined))
    return { whole: tree, files: () => [] };
  const own = await filesOf(kit, tree);
  if (protect.length === 0) return { whole: tree, files: () => own };
  const files = standing(own, await filesOf(kit, base), compilePathSet(protect).matches);
  return { whole: treeName(files), files: () => files };
}

async function filesOf({ control }: Kit, tree: string): Promise<TreeFile[]> {
  return treeFiles((await controlGit(control, ["ls-tree", "-r", "-z", "--full-tree", tree])).stdout);
}

const NOWHERE = "/place";
const NO_PLACE: JobPlace = {
  ref: { run: "run", task: "task", attempt: 1 },
  tokens: { shim: "", agent: "" },
  work: `${NOWHERE}/work`,
  dir: NOWHERE,
  homes: { home: NOWHERE, tmp: NOWHERE, cache: NOWHERE, config: NOWHERE, data: NOWHERE, state: NOWHERE },
  port: 0,
  submodules: [],
};

/** All that a job says but for where it runs and whom it reports to: what is added to jobs some day counts by itself. */
function jobWithoutPlace(kit: Kit, { task }: GateOrder, check: PlannedCheck): unknown {
  const specs = checkEnvSpecs(kit, task.spec.env, check.env);
  const order = { ...check, name: "check", n: 0, logDir: NOWHERE };
  const job = checkJob(jobBase(kit), NO_PLACE, order, { specs, sources: new Map() });
  const { ref: _ref, bus: _bus, groups: _groups, fault: _fault, secrets: _secrets, ...decides } = job;
  return decides;
}
