// Anchors of the journal (bus/state/anchor.ts) in the user's repository: refs/busbar/anchor, a chain of commits with an
// empty tree, one an anchor, so that earlier ones stay checkable. Moved by compare-and-swap; nobody else's ref is touched.

import { isCode } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import { ANCHOR_REF, ATTEMPTS_PREFIX, isOid } from "../schemas/ids.ts";
import { git } from "./git/run.ts";
import type { AnchorPort } from "./state/anchor.ts";

/** The end of a bus waits for the last anchor: not for long. */
const ANCHOR_TIMEOUT_MS = 10_000;
const TRIES = 3;
const WHO = { NAME: "busbar", EMAIL: "busbar@localhost" };

/** The refs that keep the work of attempts, of all runs. */
export async function attemptRefs(commonDir: string): Promise<string[]> {
  const options = { gitDir: commonDir, trust: [commonDir], timeoutMs: ANCHOR_TIMEOUT_MS };
  const found = await git(["for-each-ref", "--format=%(refname)", ATTEMPTS_PREFIX], options);
  return found.stdout.split("\n").filter((line) => line !== "");
}

export function gitAnchor(commonDir: string): AnchorPort {
  const options = { gitDir: commonDir, trust: [commonDir], timeoutMs: ANCHOR_TIMEOUT_MS };
  const head = async () => {
    const found = await git(["rev-parse", "-q", "--verify", "--end-of-options", ANCHOR_REF], {
      ...options,
      okExits: [0, 1, 128],
    });
    const oid = found.stdout.trim();
    return found.exit === 0 && isOid(oid) ? oid : undefined;
  };
  let tree: string | undefined;
  const emptyTree = async () => {
    faultPoint("bus.anchor.before-write-tree");
    tree ??= (await git(["mktree"], options)).stdout.trim();
    return tree;
  };
  const commit = async (text: string, parent: string | undefined) => {
    const env = Object.fromEntries(
      ["AUTHOR", "COMMITTER"].flatMap((role) =>
        Object.entries(WHO).map(([name, value]) => [`GIT_${role}_${name}`, value]),
      ),
    );
    const order = ["commit-tree", await emptyTree(), ...(parent ? ["-p", parent] : [])];
    faultPoint("bus.anchor.before-write-commit");
    return (await git(order, { ...options, env, input: `${text}\n` })).stdout.trim();
  };
  let known: string | undefined;
  /** Where our newest one left the ref, or the first look found it. */
  let left: string | undefined;
  let moved = false;
  return {
    get moved() {
      return moved;
    },
    async read(limit) {
      known = await head();
      left ??= known;
      if (!known) return [];
      const words = ["log", "--first-parent", `--max-count=${limit}`, "--format=%s", known, "--"];
      return (await git(words, options)).stdout.split("\n").filter((line) => line !== "");
    },
    async add(text) {
      for (let tries = 1; ; tries++) {
        const next = await commit(text, known);
        const old = known ?? "0".repeat(next.length);
        try {
          faultPoint("bus.anchor.before-move-ref");
          await git(["update-ref", "--no-deref", ANCHOR_REF, next, old], options);
          moved = left !== undefined && known !== left;
          known = left = next;
          return;
        } catch (error) {
          if (tries === TRIES || !isCode(error, "GIT_FAILED")) throw error;
          known = await head(); // another hand moved it: ours comes after that
        }
      }
    },
  };
}
