// The commit that would be the new head (design section 3.5): the attempt's change merged onto the head
// without a work tree, by git's machine format. No merge driver, no `union`, no edit that follows a rename:
// what both sides changed apart is a conflict, and the task goes back (cases 25, 46, 49).

import { showName, splitNul } from "../bus/git/tree.ts";
import { BusbarError } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import { type AttemptRef, attemptLabel } from "../schemas/ids.ts";
import { treeOf, writeCommit } from "./commit.ts";
import { type Control, controlGit } from "./control.ts";
import type { Identity } from "./own-repo.ts";
import { isAncestor } from "./refs.ts";

export interface CandidateOrder {
  control: Control;
  /** Where the candidate goes on top. */
  head: string;
  /** The attempt's base: the only parent of `commit`. */
  base: string;
  /** The captured snapshot. */
  commit: string;
  message: string;
  identity: Identity;
  when?: number;
}

export type CandidateOutcome =
  | { kind: "candidate"; commit: string; tree: string }
  | { kind: "conflict"; paths: string[] }
  /** The head holds the change already. */
  | { kind: "empty" };

export async function buildCandidate(order: CandidateOrder): Promise<CandidateOutcome> {
  const { control, head } = order;
  const [tree, headTree] = await Promise.all([treeOf(control, order.commit), treeOf(control, head)]);
  const merged = order.base === head ? { tree } : await mergeTrees(order, tree, headTree);
  if ("paths" in merged) return { kind: "conflict", paths: merged.paths };
  if (merged.tree === headTree) return { kind: "empty" };
  const commit = await writeCommit(control, {
    tree: merged.tree,
    parents: [head],
    message: order.message,
    identity: order.identity,
    ...(order.when === undefined ? {} : { when: order.when }),
  });
  return { kind: "candidate", commit, tree: merged.tree };
}

async function mergeTrees(
  order: CandidateOrder,
  tree: string,
  headTree: string,
): Promise<{ tree: string } | { paths: string[] }> {
  const sides = await mergeSides(order, tree, headTree);
  faultPoint("scheduler.candidate.before-merge");
  const result = await controlGit(
    order.control,
    ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ...sides],
    { okExits: [0, 1], encoding: "buffer" },
  );
  const [oid, ...paths] = splitNul(result.stdoutBuffer);
  if (oid === undefined || oid === "")
    throw new BusbarError(
      "GIT_FAILED",
      `git merge-tree of ${order.commit} onto ${order.head} gave no tree`,
      {},
    );
  if (result.exit !== 0) return { paths: paths.filter((path) => path !== "").map(showName) };
  const strayed = await strayedPaths(order, oid);
  return strayed.length > 0 ? { paths: strayed } : { tree: oid };
}

/**
 * Paths that the merge changed on the head although the attempt did not: git (some versions whatever is
 * configured) carries an edit over to the new name of a file that was renamed since. Nobody allowed the task to
 * change that path, so it is a conflict.
 */
async function strayedPaths(
  { control, base, commit, head }: CandidateOrder,
  tree: string,
): Promise<string[]> {
  const names = async (from: string, to: string) => {
    const args = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", from, to];
    return splitNul((await controlGit(control, args, { encoding: "buffer" })).stdoutBuffer);
  };
  const [own, done] = await Promise.all([names(base, commit), names(head, tree)]);
  const allowed = new Set(own);
  return done.filter((name) => !allowed.has(name)).map(showName);
}

/**
 * The merge base must be the attempt's base. git takes it from ancestry (naming it needs 2.40). After a roll-back
 * the base may be no ancestor of the head any more: then three commits made for this merge say it.
 */
async function mergeSides(order: CandidateOrder, tree: string, headTree: string): Promise<[string, string]> {
  const { control, base, head } = order;
  if (await isAncestor(control, base, head)) return [head, order.commit];
  const identity = order.identity;
  const root = { tree: await treeOf(control, base), parents: [], message: "base\n", identity, when: 0 };
  const from = await writeCommit(control, root);
  const side = (oid: string) =>
    writeCommit(control, { ...root, tree: oid, parents: [from], message: "side\n" });
  return [await side(headTree), await side(tree)];
}

export interface MessageFacts {
  ref: AttemptRef;
  goal: string;
  /** Names what proved it: verdicts or a check's name and tree. */
  proof: string;
  body?: string;
}

const SUBJECT_CHARS = 72;

/** Subject, goal and the trailers that say where the commit comes from (`git interpret-trailers --parse`). */
export function commitMessage({ ref, goal, proof, body }: MessageFacts): string {
  const clean = (text: string) => text.replace(/[^\P{C}\n\t]/gu, "").replace(/\r/g, "");
  const first = clean(goal).trim().split("\n")[0]?.replace(/\s+/g, " ").trim() ?? "";
  const subject = `${ref.task}: ${first === "" ? attemptLabel(ref) : first}`;
  const short =
    subject.length > SUBJECT_CHARS ? `${subject.slice(0, SUBJECT_CHARS - 1).trimEnd()}…` : subject;
  const text = clean(body ?? "").trim();
  const trailers = [
    `Busbar-Run: ${ref.run}`,
    `Busbar-Task: ${ref.task}`,
    `Busbar-Attempt: ${ref.attempt}`,
    `Busbar-Proof: ${clean(proof).replace(/\s+/g, " ").trim()}`,
  ];
  return [short, ...(text === "" ? [] : [text]), trailers.join("\n")].join("\n\n").concat("\n");
}
