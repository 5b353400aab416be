// The door to git for working trees that somebody else could write, an agent or a check. Something there may hold git up
// (snares.ts). To look for that before every call would cost more than the call in a large tree; so:
//   1. The call begins. When it takes longer than usual, the tree is looked through while it goes on, again and again at
//      growing distances: a live agent may lay something there later.
//   2. Was something moved aside, the call is ended and made anew. So is one that merely began before that: it may wait
//      in what another call's walk has moved.
//   3. Rules too large to be read make git fail at once: then it is looked, too.
// The calls may be ended and repeated at any time: they read, or write what the next one writes again.

import type { GitOptions, GitResult } from "../bus/git/run.ts";
import { isCode } from "../schemas/errors.ts";
import { type Control, controlGit, endingWith } from "./control.ts";
import { movedAside, setAside } from "./snares.ts";

/** Nearly every call of ours is done by then. */
const USUAL_MS = 1_000;
/** Only an agent that lays new snares as fast as they go needs more; then git's own time limit ends it. */
const MAX_REPEATS = 5;

export interface GitPlace {
  work: string;
  /** Our index. */
  index: string;
  /** Object store of a submodule, when it is not the superproject's. */
  objectDir?: string;
  /** The tree that is looked through; default `work`. For submodules the one that they are in. */
  root?: string;
}

/** For git calls that look at the index only: whatever lies in the working tree cannot hold them up. */
export function placeOptions(place: GitPlace): GitOptions {
  return {
    cwd: place.work,
    workTree: place.work,
    indexFile: place.index,
    ...(place.objectDir === undefined ? {} : { objectDir: place.objectDir }),
  };
}

/** git with our configuration over `place.work`, which ends whatever lies there. */
export async function placeGit(
  control: Control,
  args: string[],
  place: GitPlace,
  options: GitOptions = {},
): Promise<GitResult> {
  const root = place.root ?? place.work;
  for (let repeats = 0; ; repeats++) {
    const before = await movedAside(root);
    const isSnared = async () => (await setAside(root)) || (await movedAside(root)) !== before;
    const stop = new AbortController();
    const watch = repeats < MAX_REPEATS ? watchOver(isSnared, stop) : undefined;
    try {
      return await controlGit(endingWith(control, stop.signal), args, {
        ...placeOptions(place),
        ...options,
      });
    } catch (error) {
      if (control.signal?.aborted || repeats >= MAX_REPEATS) throw error;
      const again = stop.signal.aborted || (mayHaveFailedOverRules(args, error) && (await isSnared()));
      if (!again) throw error;
    } finally {
      watch?.();
    }
  }
}

function mayHaveFailedOverRules(args: readonly string[], error: unknown): boolean {
  return args[0] === "ls-files" && isCode(error, "GIT_FAILED");
}

/** Ends `stop` as soon as a look finds something. Returns the end of looking. */
function watchOver(isSnared: () => Promise<boolean>, stop: AbortController): () => void {
  let over = false;
  let wait = USUAL_MS;
  let timer = setTimeout(look, wait);
  function look(): void {
    isSnared().then(
      (snared) => {
        if (over) return;
        if (snared) return stop.abort();
        wait *= 2;
        timer = setTimeout(look, wait);
      },
      // What cannot be moved stays: git's time limit ends the call.
      () => undefined,
    );
  }
  return () => {
    over = true;
    clearTimeout(timer);
  };
}
