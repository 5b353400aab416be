// Where a run stands, in words that are true of all of its tasks. Pure.

import type { RunSummary } from "../../../schemas/methods.ts";

type Standing = Pick<RunSummary, "status" | "counts" | "total" | "merged">;

/** `done`, `done, 1 cancelled`, `incomplete, 2 blocked, 1 cancelled`, `cancelled`; `active` and `paused` while it can move. */
export function outcomeWords(summary: Standing): string {
  const word = standingWord(summary);
  if (summary.status !== "incomplete") return word;
  const { blocked = 0, cancelled = 0 } = summary.counts;
  const parts = [blocked > 0 ? `${blocked} blocked` : "", cancelled > 0 ? `${cancelled} cancelled` : ""];
  return [word, ...parts.filter((part) => part !== "")].join(", ");
}

/** The same without the counts, for where they stand already. Done: what is left was cancelled by people. */
export function standingWord({ status, counts, total, merged }: Standing): string {
  if (status === "merged") return "done";
  if (status === "incomplete" && merged + (counts.cancelled ?? 0) === total) return "done";
  return status;
}
