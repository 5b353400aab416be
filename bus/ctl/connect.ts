// The way from a directory to the bus of its repository. Starts nothing (daemons.ts does).
//
// 1. The repository is that of the directory; its identity is the common git directory, so that every
//    sub-directory and worktree leads to the same bus (cases 04, 10, 63).
// 2. The endpoint in the git directory says where the bus is, whatever the environment (case 64).
// 3. dead or none -> BUS_AWAY; the holder lives but does not answer -> BUS_NOT_ANSWERING with its pid.

import { realpathSync } from "node:fs";
import { BusbarError } from "../../schemas/errors.ts";
import type { Ping } from "../../schemas/methods.ts";
import { connectBus } from "../client/client.ts";
import { type FoundBus, findBus, readToken } from "../client/find.ts";
import { isStopped } from "../client/identity.ts";
import { git } from "../git/run.ts";
import { VERSION } from "../version.ts";
import type { Bus } from "./context.ts";

/** What a first sign of life may take; case 62 wants an answer within 2 s. */
export const PING_TIMEOUT_MS = 1_500;

/**
 * The common git directory of the repository round `dir`: one question to git, so that a verb answers fast.
 * Throws what a full look at the repository throws.
 */
export async function commonDirOf(dir: string): Promise<string> {
  const words = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
  const answer = await git(words, { cwd: dir, userConfig: true, okExits: [0, 128] }).catch(() => undefined);
  if (answer?.exit === 0) return realpathSync(answer.stdout.replace(/\n$/, ""));
  // Why not, is found out at leisure.
  const { probeRepository } = await import("../git/probe.ts");
  return (await probeRepository(dir)).commonDir;
}

/** Throws BUS_AWAY, BUS_NOT_ANSWERING, BAD_TOKEN, PROTOCOL_MISMATCH, IO. */
export async function openBus(commonDir: string): Promise<Bus> {
  const found = await findBus(commonDir, PING_TIMEOUT_MS);
  if (found.state === "unknown") throw notAnswering(found, commonDir);
  if (found.state === "dead" || !found.endpoint) {
    const { notRunning } = await import("./left-behind.ts");
    throw notRunning(commonDir, Date.now());
  }
  return connectBus({
    socket: found.endpoint.socket,
    role: "person",
    token: readToken(found.endpoint, "person"),
    client: `busctl/${VERSION}`,
  });
}

export function notAnswering(found: FoundBus, commonDir: string): BusbarError {
  const { pid } = found;
  if (pid === undefined)
    return new BusbarError(
      "BUS_NOT_ANSWERING",
      `not answering, another process holds the lock of ${commonDir}; it may just be starting`,
    );
  const { state, remedy } = stateAndRemedy(pid);
  const message = `not answering, pid ${pid} holds the lock of ${commonDir}; it ${state}`;
  return new BusbarError("BUS_NOT_ANSWERING", message, { pid, help: remedy });
}

/** What a silent process is, as far as can be seen, and what a person can do about it. */
export function stateAndRemedy(pid: number): { state: string; remedy: string } {
  const on = `\`kill -CONT ${pid}\` lets it go on`;
  return isStopped(pid)
    ? {
        state: "is stopped (SIGSTOP)",
        remedy: `${on}; \`kill -KILL ${pid}\` ends it, nothing is lost by that.`,
      }
    : {
        state: "runs",
        remedy: `It may be busy: look with \`ps -o pid,stat,etime,args -p ${pid}\`, then try again.`,
      };
}

/** For whoever follows something without an end: the connection is gone, and nothing more comes. */
export function busGone(what: string): BusbarError {
  return new BusbarError("BUS_AWAY", `following ${what}: the bus has gone; nothing more comes`, {
    help: "`busctl up` starts it again; then follow again.",
  });
}

/** One `ping` on an open connection. */
export function ping(bus: Bus, timeoutMs = PING_TIMEOUT_MS): Promise<Ping> {
  return bus.call("ping", {}, { timeoutMs });
}
