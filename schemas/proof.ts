// What proves a tree, in one place: the scheduler runs these checks, the bus refuses a landing that lacks one.

import type { Gate, RunSpec, TaskSpec } from "./task.ts";
import type { Verdict } from "./verdict.ts";

export interface RequiredCheck {
  tier: Verdict["tier"];
  name: string;
}

/** Name of the n-th criterion (from 0) of a task's acceptance, as it stands in verdicts and logs. */
export function acceptanceName(index: number): string {
  return `acceptance-${index + 1}`;
}

/** Every check that must have passed on the very tree that lands. `gate: none` leaves the acceptance commands. */
export function requiredChecks(spec: Pick<TaskSpec, "acceptance">, gate: RunSpec["gate"]): RequiredCheck[] {
  const acceptance = spec.acceptance.flatMap((criterion, index) =>
    criterion.run === undefined ? [] : [{ tier: "acceptance" as const, name: acceptanceName(index) }],
  );
  return gate === "none" ? acceptance : [...acceptance, ...checksOf(gate)];
}

function checksOf(gate: Gate): RequiredCheck[] {
  return (["shallow", "middle", "deep"] as const).flatMap((tier) =>
    gate[tier].map(({ name }) => ({ tier, name })),
  );
}

/** What a check has said last about a tree: the only verdict of it that counts. */
export function newestVerdict(
  verdicts: readonly Verdict[],
  { tree, tier, check }: Pick<Verdict, "tree" | "tier" | "check">,
): Verdict | undefined {
  return verdicts.findLast((one) => one.tree === tree && one.tier === tier && one.check === check);
}

/** A pass by a run of its own, or one that names the pass of the same input that stands for it. */
function proves(verdict: Verdict | undefined): boolean {
  return verdict?.verdict === "pass" && (verdict.cached === undefined || verdict.key !== undefined);
}

/** Those of `required` whose newest verdict on `tree` is not a pass. */
export function unproven(
  required: readonly RequiredCheck[],
  verdicts: readonly Verdict[],
  tree: string,
): RequiredCheck[] {
  return required.filter(({ tier, name }) => !proves(newestVerdict(verdicts, { tree, tier, check: name })));
}
