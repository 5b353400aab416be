// Commits that an agent made itself, on any branch, detached or stashed, are kept: packed into the user's
// object store and named by refs/busbar/attempts/.../agent/<n>, so that no clean-up and no `git gc` of the
// user loses them (cases 14, 24, 25). Best effort, bounded; what could not be kept is said, and then the
// workspace must stay (archive.ts).

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { type Release, storePack } from "../bus/git/kept-pack.ts";
import { withScratch } from "../bus/git/scratch.ts";
import { BusbarError } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import { type AttemptRef, agentTipRef, isOid } from "../schemas/ids.ts";
import { borrowsAsMade, headOid, readAgentGit, withAgentObjects } from "./agent-git.ts";
import { type Control, controlGit, repoGit } from "./control.ts";
import { leakInText, type ScanRules } from "./secret-scan.ts";

export interface HarvestOrder {
  control: Control;
  work: string;
  ref: AttemptRef;
  base: string;
  /** What no commit may hold. Default: nothing is looked for. */
  scan?: ScanRules;
}

export interface Harvested {
  /** Refs that keep the agent's commits now. */
  tips: number;
  /** What could not be kept, one sentence each. */
  problems: string[];
}

/** Heads looked at; a log may name thousands. */
const MAX_TIPS = 200;
/** An agent's commits beyond this are left in the workspace. */
const MAX_HARVEST_BYTES = 1024 * 1024 * 1024;
/** Packed: what is written out of them may be many times as much. */
const MAX_SCANNED_BYTES = 8 * 1024 * 1024;

export async function harvest(order: HarvestOrder): Promise<Harvested> {
  const problems: string[] = [];
  const agent = readAgentGit(order.work);
  if (agent.state !== "there") return { tips: 0, problems };
  const named = [headOid(agent), ...agent.refs.values(), ...agent.logged].filter(isOid);
  const all = [...new Set(named)].filter((oid) => oid !== order.base);
  if (all.length === 0) return { tips: 0, problems };
  if (!borrowsAsMade(order.control, order.work)) {
    problems.push(
      "the agent changed where its repository borrows objects from; its own commits were not read",
    );
    return { tips: 0, problems };
  }
  if (all.length > MAX_TIPS)
    problems.push(`${all.length} commits are named by refs and logs; ${MAX_TIPS} are kept`);
  try {
    const tips = await ownTips(order, all.slice(0, MAX_TIPS));
    if (tips.length === 0) return { tips: 0, problems };
    const leak = await leakIn(order, tips);
    if (leak !== undefined) {
      problems.push(`the agent's own commits are not kept: ${leak}`);
      return { tips: 0, problems };
    }
    await withScratch(order.control.gitDir, async (dir) => {
      const release = await pack(order, tips, dir);
      try {
        await nameTips(order, tips);
      } finally {
        await release();
      }
    });
    return { tips: tips.length, problems };
  } catch (error) {
    if (!(error instanceof BusbarError)) throw error;
    problems.push(`the agent's own commits could not be kept: ${error.message}`);
    return { tips: 0, problems };
  }
}

/** Of `oids`, the commits that are there, are not in the base's history and are not in another's history. */
async function ownTips({ control, work, base }: HarvestOrder, oids: readonly string[]): Promise<string[]> {
  if (oids.length === 0 || !hasObjects(work)) return [];
  const place = withAgentObjects(control, work);
  const checked = await controlGit(control, ["cat-file", "--batch-check=%(objectname) %(objecttype)"], {
    ...place,
    input: oids.map((oid) => `${oid}^{commit}\n`).join(""),
  });
  const commits = checked.stdout.split("\n").flatMap((line) => {
    const [oid, type] = line.split(" ");
    return type === "commit" && isOid(oid) ? [oid] : [];
  });
  if (commits.length === 0) return [];
  const fresh = await controlGit(
    control,
    ["rev-list", "--no-walk=unsorted", ...new Set(commits), `^${base}`],
    {
      ...place,
    },
  );
  const named = new Set(commits);
  const own = fresh.stdout.split("\n").filter((oid) => named.has(oid));
  if (own.length < 2) return own;
  const independent = await controlGit(control, ["merge-base", "--independent", ...own], place);
  return independent.stdout.split("\n").filter(isOid);
}

/** Messages and changes of the commits. What is too much to be read is kept unread. */
async function leakIn(
  { control, work, base, scan }: HarvestOrder,
  tips: readonly string[],
): Promise<string | undefined> {
  if (!scan) return undefined;
  const place = withAgentObjects(control, work);
  const range = [...tips, `^${base}`];
  const usage = await controlGit(control, ["rev-list", "--objects", "--disk-usage", ...range], place);
  if (Number(usage.stdout) > MAX_SCANNED_BYTES) return undefined;
  const how = ["-p", "-U0", "-m", "--format=%H%n%an %ae%n%B", "--no-ext-diff", "--no-textconv", "--no-color"];
  const { stdout } = await controlGit(control, ["log", ...how, ...range], place);
  // What a commit takes away was in the base or in a commit of its own.
  const leak = await leakInText(stdout.replace(/^-.*$/gm, ""), scan);
  return leak && `they hold ${leak.what}`;
}

function hasObjects(work: string): boolean {
  try {
    return readdirSync(join(work, ".git", "objects")).length > 0;
  } catch {
    return false;
  }
}

/** Kept until it is released. */
async function pack(
  { control, work, base }: HarvestOrder,
  tips: readonly string[],
  dir: string,
): Promise<Release> {
  const place = withAgentObjects(control, work);
  const usage = await controlGit(
    control,
    ["rev-list", "--objects", "--disk-usage", ...tips, `^${base}`],
    place,
  );
  if (Number(usage.stdout) > MAX_HARVEST_BYTES) {
    throw new BusbarError(
      "FILE_TOO_LARGE",
      `they hold ${usage.stdout.trim()} bytes, at most ${MAX_HARVEST_BYTES} are taken`,
      {},
    );
  }
  const input = `${tips.join("\n")}\n^${base}\n`;
  return await storePack(dir, control.objectDir, (name) => {
    faultPoint("scheduler.harvest.before-pack");
    return controlGit(control, ["pack-objects", "-q", "--revs", "--threads=1", name], { ...place, input });
  });
}

/** One transaction. The same harvest again names the same. */
async function nameTips({ control, ref }: HarvestOrder, tips: readonly string[]): Promise<void> {
  const lines = [...tips].sort().map((oid, n) => `update ${agentTipRef(ref, n + 1)} ${oid}\n`);
  faultPoint("scheduler.harvest.before-name-tips");
  await repoGit(control, ["update-ref", "--no-deref", "--stdin"], { input: lines.join("") });
}
