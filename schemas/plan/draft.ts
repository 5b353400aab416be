// A plan that was read: normalised where it can be, with the places of everything, before the repository is asked.

import { BusbarError } from "../errors.ts";
import type { SandboxSaid } from "../sandbox.ts";
import type { Gate, RunSpec, TaskSpec } from "../task.ts";
import type { Place } from "./nodes.ts";

export interface DraftTask {
  spec: TaskSpec;
  /** Where the task begins. */
  at: Place;
  /** Where a value stands, e.g. where("depends_on", 2); the nearest place that exists. */
  where(...path: (string | number)[]): Place;
  /** Where a text of a list stands, e.g. item("depends_on", "a"). */
  item(key: string, text: string): Place;
  /** False when the agent comes from the plan or its defaults. */
  ownAgent: boolean;
  /** For the plan check only. */
  expectedLines?: number;
}

/** A task with faults, as far as it could be read: nothing is said about what hangs on a key in `lost`. */
export interface DraftPart extends DraftTask {
  lost: ReadonlySet<string>;
}

export interface PlanDraft {
  run: string;
  /** As written: seen from the plan file. */
  repo?: string;
  base?: string;
  into?: string;
  workers?: number;
  schedule: RunSpec["schedule"];
  reads: RunSpec["reads"];
  gate?: Gate | "none";
  protect: string[];
  may_hold_secrets?: string[];
  reuse_verdicts?: boolean;
  copy?: string[];
  serial: string[];
  contracts: string[];
  sandbox?: SandboxSaid;
  /** Where the agent of tasks without one of their own is chosen. */
  agentAt: Place;
  /** The tasks that could be read. */
  tasks: DraftTask[];
  /** Those with faults, so that one round names all there is to say. */
  parts: DraftPart[];
  /** Keys of the plan with faults; a plan with one, or with parts, is not submitted. */
  lost: ReadonlySet<string>;
  /** False: files or tasks could not be read at all, so that an unknown id may be theirs. */
  allIds: boolean;
  /** Every id that was seen, also of tasks with faults, and its first place. */
  ids: ReadonlyMap<string, Place>;
  /** Where the plan itself begins, and its keys. */
  at: Place;
  where(...path: (string | number)[]): Place;
}

/** What only the repository and the machine can say. */
export interface Resolved {
  /** Common git directory, absolute and real. */
  repo: string;
  /** Full id of the base commit. */
  base: string;
  base_name: string;
  /** Used where the plan does not say. */
  workers: number;
}

/** The spec for submit_run. Call it for drafts whose check found no error only. */
export function toRunSpec(draft: PlanDraft, resolved: Resolved): RunSpec {
  if (draft.gate === undefined) throw new BusbarError("BAD_PLAN", `plan ${draft.at.file} names no gate`);
  return {
    run: draft.run,
    repo: resolved.repo,
    base: resolved.base,
    base_name: resolved.base_name,
    ...(draft.into === undefined ? {} : { into: draft.into }),
    workers: draft.workers ?? resolved.workers,
    schedule: draft.schedule,
    reads: draft.reads,
    gate: draft.gate,
    protect: draft.protect,
    ...(draft.copy ? { copy: draft.copy } : {}),
    ...(draft.reuse_verdicts === undefined ? {} : { reuse_verdicts: draft.reuse_verdicts }),
    ...(draft.may_hold_secrets ? { may_hold_secrets: draft.may_hold_secrets } : {}),
    serial: draft.serial,
    contracts: draft.contracts,
    ...(draft.sandbox === undefined ? {} : { sandbox: draft.sandbox }),
    tasks: draft.tasks.map((task) => task.spec),
  };
}
