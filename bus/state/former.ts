// A repository that was run before, with another state than this one: its refs (refs/busbar/anchor, refs/busbar/attempts,
// refs/heads/busbar) name what the state does not know. The state was deleted, or it lies elsewhere, or the repository is a
// copy of another. Nothing is wrong with the new state; but whoever believes that the old one is still there must be told.
//
// 1. Found at every start (`up` and `run` say it in a line) and by `verify`, which is not content with it.
// 2. A state that has no run anchors nothing there meanwhile: whoever brings the old one back finds its anchor as it was left.
//    Where another state did work meanwhile, and the old one is back (its own anchor lies below), that is what is said.
// 3. `busctl repair` goes on without it: a `journal.gap` record names what is given up, and it is not said again as news.

import type { Former } from "../../schemas/answers.ts";
import { type AnchorPoint, claimedAnchor } from "./anchor.ts";
import type { Base } from "./base.ts";

/** Where a repository lies and where its state does, as it was noted in the repository. */
export interface Home {
  common: string;
  state_dir: string;
}

/** `there`: what was noted, and whether these still exist. */
export interface Placed {
  here: Home;
  there?: Home & { repository: boolean; state: boolean };
}

export interface BusbarRefs {
  /** Run -> its branch's commit. */
  branches: ReadonlyMap<string, string>;
  /** Runs of which attempts are kept. */
  attempts: ReadonlySet<string>;
}

/** What the repository tells about itself. */
export interface Repository {
  refs(): Promise<BusbarRefs>;
  /** Whether `commit` is part of the history of `tip`. */
  contains(tip: string, commit: string): Promise<boolean>;
  placed(): Placed;
  /** From now on the state here is the repository's. */
  settle(): void;
}

/** Runs named in a message, and in a record. */
const NAMED = 5;
const RECORDED = 1_000;

/** In a repository of another state, and without a run: it has nothing that an anchor would keep. */
export function isGuest(base: Base, former: Former | undefined): boolean {
  return former !== undefined && base.runTable.size === 0;
}

/** Anchors that this state's key did not seal, the newest first; so many of them came after one of this state. */
export interface Strangers {
  strangers: readonly string[];
  between: number;
}

/** Pure. */
export function findFormer(
  base: Base,
  { strangers, between }: Strangers,
  refs: BusbarRefs,
  placed: Placed,
): Former | undefined {
  const known = base.gaps.flatMap(({ former }) => former ?? []);
  const anchors = new Set(known.map(({ anchor }) => anchor));
  const runs = new Set(known.flatMap((each) => each.runs));
  // What was given up before lies below what was given up.
  const end = strangers.findIndex((text) => anchors.has(text));
  const anchor = (end < 0 ? strangers : strangers.slice(0, end))[0];
  const isNews = (run: string) => !base.run(run) && !runs.has(run);
  const attempts = [...refs.attempts].filter(isNews);
  if (anchor === undefined && attempts.length === 0) return undefined;
  const branches = [...refs.branches.keys()].filter(isNews);
  const all = [...new Set([...attempts, ...branches])].sort();
  const point = anchor === undefined ? undefined : claimedAnchor(anchor);
  const { kind, what, help } = anchor !== undefined && between > 0 ? BETWEEN : caseOf(placed);
  return {
    kind,
    why: `this repository was run before with a state that is not this one (${marks(point, all)}): ${what}`,
    help,
    runs: all.slice(0, RECORDED),
    ...(anchor !== undefined && { anchor }),
    ...(point && { seq: point.seq, at: point.at }),
  };
}

function marks(point: AnchorPoint | undefined, runs: readonly string[]): string {
  const more = runs.length > NAMED ? ` and ${runs.length - NAMED} more` : "";
  const named = runs.length > 0 ? `runs ${runs.slice(0, NAMED).join(", ")}${more}` : undefined;
  return [point && `record ${point.seq} anchored on ${point.at}`, named].filter(Boolean).join("; ");
}

const ON = "to go on without it: `busctl down`, then `busctl repair`, which records the gap";

const BETWEEN = {
  kind: "between",
  what: "it was used here meanwhile, since this state anchored its own log; what those runs did is unknown to this state",
  help: `If it was set aside, keep it for what it knows; ${ON}.`,
} as const;

/** One that is there is set aside: `mv` into it would put the other below it. */
function inPlaceOf(from: string, to: string): string {
  const [a, b, aside] = [from, to, `${to}.aside`].map(quoted);
  return `\`busctl down\`, then \`mv ${b} ${aside}; mv ${a} ${b}\``;
}

function quoted(path: string | undefined = ""): string {
  return /^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}

function caseOf({ here, there }: Placed): Pick<Former, "kind" | "help"> & { what: string } {
  if (!there)
    return {
      kind: "unknown",
      what: "it was deleted, or lies under another BUSBAR_STATE_DIR, XDG_STATE_HOME or HOME, or the repository is a copy",
      help: `Bring the old state back to ${here.state_dir} (after \`busctl down\`); or, ${ON}.`,
    };
  const { common, state_dir } = there;
  if (common !== here.common && there.repository)
    return {
      kind: "copy",
      what: `it is a copy of ${common}, whose state is ${state_dir}; runs of the original are unknown here`,
      help: `Go on with those runs in the original; or, ${ON}.`,
    };
  const lies = there.state
    ? `its state is still in ${state_dir}`
    : `its state ${state_dir} is not there any more`;
  const back = there.state
    ? `To bring it along: ${inPlaceOf(state_dir, here.state_dir)}`
    : `Bring ${state_dir} back from a backup, in the place of ${here.state_dir} (after \`busctl down\`)`;
  if (common !== here.common)
    return {
      kind: "moved",
      what: `it was moved here from ${common}, and ${lies}`,
      help: `${back}; or, ${ON}.`,
    };
  if (state_dir !== here.state_dir)
    return {
      kind: "elsewhere",
      what: `${lies}, this one is ${here.state_dir}: BUSBAR_STATE_DIR, XDG_STATE_HOME or HOME was another`,
      help: `\`busctl down\`, and set that variable as it was; or, ${ON}.`,
    };
  return {
    kind: "gone",
    what: `the state in ${state_dir} was deleted or replaced; what those runs did, landed and may still run is unknown here`,
    help: `Bring ${state_dir} back from a backup (after \`busctl down\`); or, ${ON}.`,
  };
}
