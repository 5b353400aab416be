// A workspace as it is now, as a snapshot: the agent's own commits kept, the content captured by scope.

import { join } from "node:path";
import { compilePathSet } from "../schemas/globs.ts";
import type { Run, Task } from "../schemas/task.ts";
import type { Bases } from "./bases.ts";
import type { Canaries } from "./canary.ts";
import { commitMessage } from "./candidate.ts";
import { type Captured, capture } from "./capture.ts";
import type { CheckoutWatch } from "./checkout-watch.ts";
import { writeJson } from "./edges.ts";
import { type Secret, secretsIn } from "./environment.ts";
import { harvest } from "./harvest.ts";
import { agentEnvSpecs } from "./jobs.ts";
import type { Attempt, Kit } from "./kit.ts";
import { clearWay } from "./open-tree.ts";
import { inScope } from "./scope.ts";
import { scopeOf } from "./scope-rules.ts";
import type { ScanRules } from "./secret-scan.ts";
import { untouchedSetupFiles } from "./setup-files.ts";
import type { Workspace } from "./workspace.ts";

/** In the attempt's directory: its work was kept, and what of the agent's own commits could not be. */
export const CAPTURED_FILE = "captured.json";
export interface CapturedNote {
  v: 1;
  version: number;
  changed: number;
  problems: string[];
}

/** An attempt with a workspace, on its way to its settlement. */
export interface Concluding {
  kit: Kit;
  attempt: Attempt;
  task: Task;
  run: Run;
  workspace: Workspace;
  canaries: Canaries;
  bases: Bases;
  checkouts: CheckoutWatch;
  /** Secrets that the agent was given; absent where another scheduler started it. */
  given?: readonly Secret[];
}

/** Harvest and capture, without a word to the bus: what a cancelled attempt gets, too. */
export async function keep(at: Concluding): Promise<Captured> {
  const { kit, attempt, task, workspace } = at;
  const { control } = kit;
  const { ref, base } = attempt;
  const scan = await scanRules(at);
  const kept = await harvest({ control, work: workspace.work, ref, base, scan });
  for (const problem of kept.problems) kit.log.warn("harvest", { ...ref, problem });
  const captured = await captureNow(at, nextVersion(task, ref.attempt));
  const { version } = captured;
  if (captured.anomalies.length > 0)
    kit.log.info("the agent's git", { ...ref, anomalies: captured.anomalies });
  if (captured.ignored.length > 0)
    kit.log.info("ignored files stay in the workspace", { ...ref, count: captured.ignored.length });
  const note: CapturedNote = { v: 1, version, changed: captured.changed.length, problems: kept.problems };
  const file = join(attempt.dir, CAPTURED_FILE);
  await clearWay(file, "file");
  writeJson(file, note);
  return captured;
}

/**
 * What may be in no object: the secrets that the attempt was given. An earlier scheduler has told nobody what they were: they
 * are read again, and rejects (SECRET_UNAVAILABLE) where that is not possible.
 */
async function scanRules({ kit, task, run, given }: Concluding): Promise<ScanRules> {
  const { may_hold_secrets } = run.spec;
  const again = async () => {
    const specs = agentEnvSpecs(kit, task.spec);
    return secretsIn({ host: kit.env, specs, sources: await kit.secrets.read(specs) });
  };
  return {
    secrets: given ?? (await again()),
    ...(may_hold_secrets ? { mayLook: compilePathSet(may_hold_secrets).matches } : {}),
  };
}

/** The working tree as it is now, as version `version` or the next that is free. */
export async function captureNow(at: Concluding, version: number): Promise<Captured> {
  const { kit, attempt, task, run, workspace } = at;
  return await capture({
    scan: await scanRules(at),
    control: kit.control,
    workspace,
    ref: attempt.ref,
    base: attempt.base,
    version,
    message: commitMessage({
      ref: attempt.ref,
      goal: task.spec.goal,
      proof: "none yet: captured working tree",
    }),
    identity: kit.config.identity,
    inScope: inScope(scopeOf(task, run)),
    allowLarge: (path) => task.spec.allowed_files.includes(path) || task.granted.includes(path),
    exclude: untouchedSetupFiles(workspace),
  });
}

/** One more than the newest snapshot of the attempt; 0 is the base. */
export function nextVersion(task: Task, attempt: number): number {
  const record = task.attempts.find((r) => r.attempt === attempt);
  return 1 + Math.max(0, ...(record?.snapshots ?? []).map((s) => s.version));
}
