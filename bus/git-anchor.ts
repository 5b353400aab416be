// Anchors of the journal (bus/state/anchor.ts) in the user's repository: refs/busbar/anchor, a chain of commits with an
// empty tree, one an anchor, so that earlier ones stay checkable. Moved by compare-and-swap; nobody else's ref is touched. Its objects come as a pack
// that no gc of the user's takes before the ref names them; a git that cannot write (mktree does not say so) leaves nothing.

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { isCode } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import { ANCHOR_REF, ATTEMPTS_PREFIX, isOid } from "../schemas/ids.ts";
import { type Release, storePack } from "./git/kept-pack.ts";
import { type GitOptions, git } from "./git/run.ts";
import { withScratch } from "./git/scratch.ts";
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

/** `place`: a directory of ours, for files of a moment. */
export function gitAnchor(commonDir: string, place: string): AnchorPort {
  const options = { gitDir: commonDir, trust: [commonDir], timeoutMs: ANCHOR_TIMEOUT_MS };
  const head = async () => {
    const found = await git(["rev-parse", "-q", "--verify", "--end-of-options", ANCHOR_REF], {
      ...options,
      okExits: [0, 1, 128],
    });
    const oid = found.stdout.trim();
    return found.exit === 0 && isOid(oid) ? oid : undefined;
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
    add(text) {
      return withScratch(place, async (dir) => {
        for (let tries = 1; ; tries++) {
          const { next, release } = await writeAnchor(options, dir, text, known);
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
          } finally {
            await release();
          }
        }
      });
    },
  };
}

/** The commit of an anchor, in the user's store and kept there until it is released. */
async function writeAnchor(
  options: GitOptions & { gitDir: string },
  dir: string,
  text: string,
  parent: string | undefined,
): Promise<{ next: string; release: Release }> {
  const objectDir = join(options.gitDir, "objects");
  const own = join(dir, "objects");
  faultPoint("bus.anchor.before-make-directory");
  await mkdir(join(own, "pack"), { recursive: true, mode: 0o700 });
  const beside = { ...options, objectDir: own, alternates: [objectDir] };
  faultPoint("bus.anchor.before-write-tree");
  const tree = (await git(["mktree"], beside)).stdout.trim();
  const env = Object.fromEntries(
    ["AUTHOR", "COMMITTER"].flatMap((role) =>
      Object.entries(WHO).map(([name, value]) => [`GIT_${role}_${name}`, value]),
    ),
  );
  const order = ["commit-tree", tree, ...(parent ? ["-p", parent] : [])];
  faultPoint("bus.anchor.before-write-commit");
  const next = (await git(order, { ...beside, env, input: `${text}\n` })).stdout.trim();
  const release = await storePack(dir, objectDir, (base) => {
    const args = ["pack-objects", "-q", "--threads=1", "--window=0", base];
    // Whatever the user's settings say of packs, it is one.
    const more = { ...beside, config: ["pack.packSizeLimit=0"], input: `${next}\n${tree}\n` };
    faultPoint("bus.anchor.before-pack");
    return git(args, more);
  });
  return { next, release };
}
