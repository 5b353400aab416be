// From a claim to an agent that can be started. Every step has a name; an error names the step, and nothing of the
// workspace is left (case 02 lfs-filter-missing).
//
// 1. disk: room on the disk (W6).  2. workspace: own repository on the base (W1).  3. manifest: written by the bus (W3).
// 4. context: context.json, prompt.md, run_metadata.json, busbar-call (W5, W10).  5. set-up: the gate's set-up steps in
// the workspace; what they leave is no part of the change.  6. job: the agent's job; an unknown profile ends here.

import { join } from "node:path";
import { BusbarError } from "../schemas/errors.ts";
import type { ShimJob } from "../schemas/job.ts";
import { stricter } from "../schemas/limit-plan.ts";
import { sandboxInForce, sandboxWish } from "../schemas/sandbox.ts";
import type { Run, Task } from "../schemas/task.ts";
import { type Bases, endedItself, lifeOf, redOnBase } from "./bases.ts";
import { confined, programFiles } from "./confine.ts";
import { contextOf, repositoryFacts } from "./context.ts";
import { type Control, controlGit } from "./control.ts";
import { FILES, makeHomes, writeCallProgram } from "./dirs.ts";
import { checkDisk } from "./disk.ts";
import { jobBase, writeJson, writeText } from "./edges.ts";
import { errorEvidence } from "./evidence.ts";
import { runCheck, setupOf } from "./gate-runner.ts";
import { agentEnvSpecs, agentJob, checkEnvSpecs, type JobPlace } from "./jobs.ts";
import type { Attempt, Kit } from "./kit.ts";
import { copyLocal } from "./local-copies.ts";
import { metadataOf } from "./metadata.ts";
import { promptOf } from "./prompt.ts";
import { forbiddenFor } from "./scope-rules.ts";
import { whileAway } from "./settle.ts";
import { noteSetupFiles } from "./setup-files.ts";
import { sparsePaths } from "./sparse.ts";
import { makeWorkspace, type Workspace } from "./workspace.ts";

export interface Prepared {
  workspace: Workspace;
  job: ShimJob;
}

export interface Preparing {
  kit: Kit;
  attempt: Attempt;
  task: Task;
  run: Run;
  bases: Bases;
}

/** Throws StepFailed, or what aborted it. */
export async function prepare(at: Preparing, port: number): Promise<Prepared> {
  const { kit, attempt, task, run } = at;
  const { signal } = attempt.abort;
  const step = async <T>(name: string, deed: () => Promise<T> | T): Promise<T> => {
    signal.throwIfAborted();
    try {
      return await deed();
    } catch (error) {
      signal.throwIfAborted();
      throw new StepFailed(name, error);
    }
  };
  await step("looking at the disk", () =>
    checkDisk(kit.machine, kit.stateDir, kit.config.disk_limit_percent),
  );
  const homes = await step("making the directories", () => makeHomes(attempt.dir));
  const workspace = await step("making the workspace", () =>
    kit.places.inTurn(async () => {
      signal.throwIfAborted();
      return await workspaceOf(kit, attempt, task);
    }),
  );
  await step("writing the manifest", () =>
    whileAway(kit, attempt, () => kit.bus.call("write_manifest", { ...attempt.ref })),
  );
  const bin = await step("writing the context", () => writeFiles(kit, attempt, task, run, port));
  const place: JobPlace = {
    ref: attempt.ref,
    tokens: attempt.tokens,
    work: workspace.work,
    dir: attempt.dir,
    homes,
    port,
    submodules: workspace.submodules.map(({ objectDir }) => objectDir),
  };
  const job = await step("preparing the agent", async () => {
    const sources = await kit.secrets.read(agentEnvSpecs(kit, task.spec), signal);
    const open = agentJob(jobBase(kit), { ...place, bin }, task.spec, sources);
    const told = [FILES.context, FILES.prompt].map((name) => join(attempt.dir, name));
    return confined(kit, run, "agent", open, place, [bin, ...told, ...programFiles(kit.shim)]);
  });
  await step("running the set-up", () => setUp(at, place, workspace));
  return { workspace, job };
}

/** An error on the way, with the name of the step. */
export class StepFailed extends Error {
  constructor(
    readonly step: string,
    override readonly cause: unknown,
  ) {
    super(`${step}: ${cause instanceof Error ? cause.message : String(cause)}`);
  }

  get evidence() {
    return errorEvidence(this.step, this.cause);
  }
}

async function workspaceOf(kit: Kit, attempt: Attempt, task: Task): Promise<Workspace> {
  const { checkout } = task.spec;
  const { control } = kit;
  const { dir, ref, base } = attempt;
  if (checkout === "full") return await makeWorkspace({ control, dir, ref, base, checkout });
  const paths = sparsePaths(await pathsOf(control, base), task);
  return await makeWorkspace({ control, dir, ref, base, checkout, sparsePaths: paths });
}

async function pathsOf(control: Control, commit: string): Promise<string[]> {
  const { stdout } = await controlGit(control, ["ls-tree", "-r", "-z", "--full-tree", "--name-only", commit]);
  return stdout.split("\0").filter((path) => path !== "");
}

async function writeFiles(kit: Kit, attempt: Attempt, task: Task, run: Run, port: number): Promise<string> {
  const { dir, ref, base } = attempt;
  const [facts, machine] = await Promise.all([
    repositoryFacts(kit.control, task.spec, base),
    kit.machine.facts(kit.stateDir),
  ]);
  const context = contextOf(task, ref.attempt, base, forbiddenFor(task, run), facts);
  writeJson(join(dir, FILES.context), context);
  writeText(join(dir, FILES.prompt), promptOf(context));
  const metadata = metadataOf({
    task,
    attempt: ref.attempt,
    base,
    started: new Date(kit.clock.now()).toISOString(),
    worker: kit.worker,
    machine,
    versions: kit.versions,
    limits: stricter(task.spec.limits, kit.config.limits),
    facts: kit.limitHost.facts,
    sandbox: sandboxInForce(sandboxWish(run.spec.sandbox, kit.config.sandbox), kit.sandbox.facts),
    port,
    usage: kit.usage.newest,
  });
  writeJson(join(dir, FILES.metadata), metadata);
  return writeCallProgram(dir, kit.shim.node, kit.shim.args);
}

async function setUp(at: Preparing, place: JobPlace, workspace: Workspace): Promise<void> {
  const { kit, attempt, task, run } = at;
  const { gate } = run.spec;
  const local = run.spec.copy ?? [];
  await copyLocal(kit, run, place.work);
  if (gate === "none" || gate.setup.length === 0) {
    if (local.length > 0) await noteSetupFiles(kit.control, workspace, attempt.base);
    return;
  }
  const { base } = attempt;
  const { signal } = attempt.abort;
  const tree = (await controlGit(kit.control, ["rev-parse", `${base}^{tree}`])).stdout.trim();
  const steps = async () => {
    for (const check of setupOf(gate.setup, task.spec.timeout_s)) {
      const order = { attempt, task, run, tree, signal };
      const result = await setUpUnlessHeld(at, () => runCheck(kit, order, place, check));
      if (result.kind === "pass") continue;
      const { summary, log } = result.evidence;
      throw new BusbarError("WORKSPACE_FAILED", `${check.run}: ${summary}\n${log}`);
    }
  };
  const key = await kit.setups.keyOf(gate.setup, base, {
    specs: checkEnvSpecs(kit, task.spec.env),
    copied: local,
  });
  if (key === undefined) await steps();
  else await kit.setups.once(key, { workspace, base, homes: place.homes, before: local }, steps, signal);
  await noteSetupFiles(kit.control, workspace, base);
}

/** A set-up that is red on the untouched base holds the attempt, as often as that is found; no agent has been here yet. */
async function setUpUnlessHeld(
  { kit, attempt, run, bases }: Preparing,
  check: () => ReturnType<typeof runCheck>,
): ReturnType<typeof runCheck> {
  const { base } = attempt;
  for (;;) {
    const life = lifeOf(kit, run.run);
    const result = await check();
    const cure = result.kind === "trouble" ? result.cure : undefined;
    if (result.kind === "pass") return result;
    const red = result.kind === "fail" && base === run.spec.base && endedItself(result.evidence);
    if (cure === undefined && !red) return result;
    const why = cure ?? redOnBase(`set-up ${result.check}`, base, result.evidence.summary);
    await bases.hold(kit, attempt, why, life);
  }
}
