// Refs are paths: refs/heads/busbar and refs/heads/busbar/<run> cannot both exist, loose or packed (case 11).

import { BusbarError } from "../../schemas/errors.ts";
import { baseRef, integrationRef } from "../../schemas/ids.ts";
import { type GitOptions, git } from "./run.ts";

/** Throws REF_CLASH, naming both refs, where a ref that is there leaves no room for those of `run`. */
export async function refuseClash(repo: GitOptions, run: string): Promise<void> {
  const wanted = [integrationRef(run), baseRef(run), `refs/busbar/attempts/${run}/t/1/v1`];
  const above = [...new Set(wanted.flatMap(parents))];
  const exact = [...above, integrationRef(run), baseRef(run)];
  const [answers, below] = await Promise.all([
    git(["cat-file", "--batch-check=%(objectname)"], {
      ...repo,
      input: exact.map((ref) => `${ref}\n`).join(""),
    }),
    git(["for-each-ref", "--count=1", "--format=%(refname)", `${integrationRef(run)}/`], repo),
  ]);
  const missing = answers.stdout
    .trimEnd()
    .split("\n")
    .map((line) => line.endsWith(" missing"));
  const there = new Set(exact.filter((_, n) => missing[n] === false));
  for (const ref of above) {
    const blocked = there.has(ref) ? wanted.find((other) => other.startsWith(`${ref}/`)) : undefined;
    if (blocked !== undefined) throw clash(ref, blocked);
  }
  const inner = below.stdout.trim();
  if (inner !== "") throw clash(inner, integrationRef(run));
  // The base ref is made first and with the branch: without it the branch is somebody else's.
  if (there.has(integrationRef(run)) && !there.has(baseRef(run)))
    throw clash(integrationRef(run), integrationRef(run));
}

/** refs/a/b/c -> refs/a, refs/a/b; refs/heads itself is git's own. */
function parents(ref: string): string[] {
  const parts = ref.split("/");
  return parts
    .map((_, n) => parts.slice(0, n).join("/"))
    .filter((name) => /^refs\/(heads\/|busbar)/.test(name));
}

function clash(there: string, wanted: string): BusbarError {
  const message =
    there === wanted
      ? `the branch ${there} exists already and was not made by busbar`
      : `the ref ${there} is in the way of ${wanted}`;
  return new BusbarError("REF_CLASH", message, { there, wanted });
}
