// Writes a commit from a tree: fixed identity, no signing, no hooks (cases 17, 20).

import { faultPoint } from "../schemas/fault-points.ts";
import { isOid } from "../schemas/ids.ts";
import { type Control, controlGit } from "./control.ts";
import type { Identity } from "./own-repo.ts";

export interface CommitOrder {
  tree: string;
  parents: readonly string[];
  message: string;
  identity: Identity;
  /** Seconds since 1970; default now. */
  when?: number;
}

export async function writeCommit(control: Control, order: CommitOrder): Promise<string> {
  const { name, email } = order.identity;
  const date = order.when === undefined ? {} : { date: `@${order.when} +0000` };
  const env = {
    GIT_AUTHOR_NAME: name,
    GIT_AUTHOR_EMAIL: email,
    GIT_COMMITTER_NAME: name,
    GIT_COMMITTER_EMAIL: email,
    ...(date.date === undefined ? {} : { GIT_AUTHOR_DATE: date.date, GIT_COMMITTER_DATE: date.date }),
  };
  const parents = order.parents.flatMap((parent) => ["-p", parent]);
  faultPoint("scheduler.commit.before-write");
  const { stdout } = await controlGit(control, ["commit-tree", "--no-gpg-sign", ...parents, order.tree], {
    input: order.message,
    env,
  });
  const oid = stdout.trim();
  if (!isOid(oid)) throw new TypeError(`git commit-tree answered ${JSON.stringify(stdout)}`);
  remember(oid, order.tree);
  return oid;
}

/** commit -> tree, the newest ones: a commit's tree never changes, and each landing asks for the same few. */
const known = new Map<string, string>();
const MAX_KNOWN = 500;

function remember(commit: string, tree: string): void {
  known.delete(commit);
  known.set(commit, tree);
  const [oldest] = known.keys();
  if (known.size > MAX_KNOWN && oldest !== undefined) known.delete(oldest);
}

export async function treeOf(control: Control, commit: string): Promise<string> {
  const tree = known.get(commit);
  if (tree !== undefined) return tree;
  const { stdout } = await controlGit(control, [
    "rev-parse",
    "--verify",
    "--end-of-options",
    `${commit}^{tree}`,
  ]);
  if (isOid(commit)) remember(commit, stdout.trim());
  return stdout.trim();
}
