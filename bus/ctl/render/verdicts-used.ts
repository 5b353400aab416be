// What was saved by verdicts that stand for others, in words. Pure.

import type { Task } from "../../../schemas/task.ts";
import type { Earlier } from "../../../schemas/verdict.ts";
import { duration, plural } from "./time.ts";

/** Whose run of the check it was. */
export function earlierName({ run, task, attempt }: Earlier): string {
  return `${run}/${task}#${attempt}`;
}

export interface VerdictsUsed {
  verdicts: number;
  /** What the checks took then, less what it took to find that out. */
  saved_ms: number;
  /** Runs of a check whose input was green before, to see whether it still holds. */
  samples: number;
  /** Of these, the red ones: check, and whose pass did not hold. */
  contradicted: { check: string; task: string; before: string }[];
}

export function verdictsUsed(tasks: readonly Task[]): VerdictsUsed {
  const all = tasks.flatMap(({ spec, attempts }) =>
    attempts.flatMap(({ verdicts }) => verdicts.map((verdict) => ({ ...verdict, task: spec.id }))),
  );
  const saved = all.map(({ cached, duration_ms }) => (cached ? cached.duration_ms - duration_ms : 0));
  return {
    verdicts: all.filter(({ cached }) => cached).length,
    saved_ms: Math.max(
      0,
      saved.reduce((sum, ms) => sum + ms, 0),
    ),
    samples: all.filter(({ again }) => again).length,
    contradicted: all.flatMap(({ check, task, verdict, again }) =>
      again && verdict === "fail" ? [{ check, task, before: earlierName(again) }] : [],
    ),
  };
}

/** Empty where nothing stood for anything. */
export function usedLines({ verdicts, saved_ms, samples, contradicted }: VerdictsUsed): string[] {
  const held = samples - contradicted.length;
  const looked = samples === 0 ? "" : `; ${samples} run again to see whether they hold: ${held} did`;
  const line = `${plural(verdicts, "check")} did not run, their input was green before: ${duration(saved_ms)} saved${looked}`;
  const broken = contradicted.map(
    ({ check, task, before }) =>
      `${check} of ${task} was red on the input on which it passed in ${before}: what decides it is not all in its \`inputs\`, or it is flaky; that verdict stands for nothing any more`,
  );
  return verdicts + samples === 0 ? [] : [line, ...broken];
}
