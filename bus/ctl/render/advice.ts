// What a person can do about a task or a run: commands that can be copied. Pure.

import type { RunSummary } from "../../../schemas/methods.ts";
import { PROTECTED_SUMMARY, REFUSED_SUMMARY, SECRET_SUMMARY, type Task } from "../../../schemas/task.ts";

/** A grant does not help where evidence begins so. */
const NO_GRANT = [PROTECTED_SUMMARY, SECRET_SUMMARY, REFUSED_SUMMARY];

export interface Advice {
  /** What the person has to decide, in one sentence. */
  what: string;
  commands: string[];
}

/** undefined: nothing to be decided here. */
export function adviceFor(task: Task): Advice | undefined {
  const name = `${task.run}/${task.spec.id}`;
  const { state } = task;
  if (state.name === "cancelled") {
    return { what: `It was cancelled by ${state.by}.`, commands: [`busctl retry ${name}`] };
  }
  if (state.name !== "blocked") return undefined;
  const { needs } = state;
  switch (needs.kind) {
    case "retries_used":
      return {
        what: `Its tries are used up (${needs.cause}). Look why, then try again with a word of advice, or cancel it.`,
        commands: [
          `busctl logs ${name}${checkOption(needs.evidence.check)} --tail 50`,
          ...(hasSnapshot(task) ? [`busctl diff ${name}`] : []),
          ...(needs.cause === "scope" && !NO_GRANT.some((words) => needs.evidence.summary.startsWith(words))
            ? [`busctl grant ${name} PATH    # where it should; then retry`]
            : []),
          `busctl retry ${name} --feedback "..."`,
          `busctl cancel ${name}`,
        ],
      };
    case "files":
      return {
        what: `It wants to change files outside its allowed ones: ${needs.paths.join(", ")}${needs.reason ? ` (${needs.reason})` : ""}.`,
        commands: [
          `busctl grant ${name}`,
          `busctl retry ${name} --feedback "do without"`,
          `busctl cancel ${name}`,
        ],
      };
    case "review":
      return {
        what: "It passed its checks and waits for your review.",
        commands: [`busctl diff ${name}`, `busctl approve ${name}`, `busctl reject ${name} --reason "..."`],
      };
    case "upstream":
      return {
        what: `It waits because ${needs.root} is ${needs.state} (${needs.cause}); what is decided there moves it too.`,
        commands: [`busctl tasks --task ${task.run}/${needs.root}`],
      };
  }
}

/** The log of the check that was red says more than the agent's. */
function checkOption(check: string | undefined): string {
  if (check === undefined) return "";
  return ` --check ${/^[A-Za-z0-9_./-]+$/.test(check) ? check : `'${check.replaceAll("'", "'\\''")}'`}`;
}

function hasSnapshot(task: Task): boolean {
  return task.attempts.some((attempt) => attempt.snapshots.some((snapshot) => snapshot.version > 0));
}

/** The one command that takes a run's work over; undefined when nothing has landed. */
export function takeOver(summary: RunSummary): string | undefined {
  return summary.head === summary.base ? undefined : `git merge --ff-only ${summary.branch}`;
}
