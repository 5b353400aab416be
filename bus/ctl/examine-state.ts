// The doctor's look at a repository and its state: git, bus and scheduler, sockets, the audit log, stale workspaces.
// Nothing is started or changed; outside of a repository there is nothing to say.

import { existsSync, readdirSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import type { Config } from "../../schemas/config.ts";
import { BusbarError, isCode } from "../../schemas/errors.ts";
import type { Finding } from "../../schemas/finding.ts";
import { sizeWords } from "../../schemas/limit-words.ts";
import { type FoundBus, findBus } from "../client/find.ts";
import { probeRepository } from "../git/probe.ts";
import { gitLine } from "../git/run.ts";
import { type BusPaths, busPaths } from "../paths.ts";
import { openBus } from "./connect.ts";
import type { Ctx } from "./context.ts";
import { thisHost } from "./launch.ts";
import { oneShot } from "./one-shot.ts";
import type { GcAnswer } from "./render/gc.ts";
import { plural } from "./render/time.ts";

export interface StateExamined {
  findings: Finding[];
  /** The state directory, or the nearest above it that is there. */
  dir: string;
}

export async function examineState(ctx: Ctx, config: Config): Promise<StateExamined> {
  const host = thisHost();
  try {
    const facts = await probeRepository(ctx.dir);
    const paths = busPaths(facts.commonDir, host.env, host.uid);
    const found = await findBus(facts.commonDir);
    const findings = [
      repository("git", "good", `git ${facts.gitVersion}`),
      await packs(facts.commonDir),
      socket(paths, found),
      ...(found.ping ? [scheduler(found.ping)] : []),
      ...(await auditLog(paths, found)),
      ...(await workspaces(ctx, config, paths, found)),
    ];
    return { findings, dir: nearest(paths.state) };
  } catch (error) {
    if (!(error instanceof BusbarError)) throw error;
    const { message, help } = error;
    const dir = nearest(host.env.BUSBAR_STATE_DIR ?? homedir());
    const none = isCode(error, "NOT_A_REPOSITORY");
    const said = none ? "no repository here; the rest needs one" : message;
    return { findings: [repository("git", none ? "poor" : "bad", said, help)], dir };
  }
}

function repository(name: string, state: Finding["state"], said: string, cure?: string): Finding {
  return { part: "repository", name, state, said, ...(cure === undefined ? {} : { cure }) };
}

/** What an interrupted git or a damaged disk left; a look at every object takes too long for this. */
async function packs(commonDir: string): Promise<Finding> {
  const text = await gitLine(["count-objects", "-v"], { gitDir: commonDir }).catch(
    (error: Error) => error.message,
  );
  const garbage = Number(/^garbage: (\d+)/m.exec(text)?.[1] ?? 0);
  if (garbage === 0) return repository("objects", "good", "no garbage among the packs");
  const said = `${plural(garbage, "file")} among the objects that git knows nothing of`;
  return repository(
    "objects",
    "poor",
    said,
    "`git fsck` says whether a pack is damaged; `git gc` removes leftovers",
  );
}

function socket({ socket: path }: BusPaths, { state, ping, pid }: FoundBus): Finding {
  if (ping) return repository("bus", "good", `answers at ${path}, pid ${ping.pid}, version ${ping.version}`);
  if (state === "dead") return repository("bus", "good", `does not run; \`busctl up\` would open ${path}`);
  const who = pid === undefined ? "" : ` (pid ${pid})`;
  return repository(
    "bus",
    "bad",
    `its lock is held and nobody answers${who}`,
    "`busctl up` says who holds it and what to do",
  );
}

function scheduler({ worker, degraded, former }: NonNullable<FoundBus["ping"]>): Finding {
  if (degraded !== undefined)
    return repository("scheduler", "bad", degraded, "make room or mend the file system; what runs goes on");
  if (former) return repository("scheduler", "poor", former.why, former.help);
  if (worker === null)
    return repository("scheduler", "poor", "the bus runs without one, so nothing is claimed", "`busctl up`");
  return repository("scheduler", "good", `${worker} is registered`);
}

/** Proving takes about ten seconds for a million records. */
const PROVE_BYTES = 32 * 1024 * 1024;

async function auditLog({ state, common }: BusPaths, { ping }: FoundBus): Promise<Finding[]> {
  const dir = join(state, "bus", "journal");
  if (!existsSync(dir)) return [];
  const bytes = readdirSync(dir).reduce((sum, name) => sum + (statSync(join(dir, name)).size ?? 0), 0);
  const one = (state: Finding["state"], said: string, cure?: string): Finding[] => [
    { part: "state", name: "audit log", state, said, ...(cure === undefined ? {} : { cure }) },
  ];
  const size = sizeWords(bytes);
  if (!ping || bytes > PROVE_BYTES) return one("good", `${size}, not proven now; \`busctl verify\` does it`);
  const bus = await openBus(common);
  try {
    const { ok, records } = await bus.call("verify", {});
    if (ok) return one("good", `${size}, the chain of ${plural(records, "record")} holds`);
    return one("bad", `${size}, it is not whole`, "`busctl verify` names the place and what to do");
  } finally {
    bus.close();
  }
}

/** Those that `gc` would archive. Only the bus knows what is in use. */
async function workspaces(
  ctx: Ctx,
  config: Config,
  { state, common }: BusPaths,
  { ping }: FoundBus,
): Promise<Finding[]> {
  if (!ping || !existsSync(join(state, "runs"))) return [];
  const words = ["--repo", common, "--gc", "--json", "--dry-run", "--idle-s", String(config.gc_idle_s)];
  const { archived } = await oneShot<GcAnswer>(ctx, "scheduler", words, "looking for stale workspaces");
  const said =
    archived.length === 0 ? "none is stale" : `${plural(archived.length, "workspace")} that nobody needs`;
  return [
    {
      part: "state",
      name: "workspaces",
      state: archived.length === 0 ? "good" : "poor",
      said,
      cure: "`busctl gc`",
    },
  ];
}

function nearest(dir: string): string {
  let at = dir;
  while (!existsSync(at)) at = dirname(at);
  return at;
}
