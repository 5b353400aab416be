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
    throw new BusbarError("BUS_AWAY", `not running: no bus works on ${commonDir}`, { repo: commonDir });
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
  const who = pid === undefined ? "a process" : `process ${pid}`;
  return new BusbarError(
    "BUS_NOT_ANSWERING",
    `not answering: ${who} holds the lock of ${commonDir} but gives no answer`,
    pid === undefined
      ? {}
      : {
          pid,
          help: `It may be stopped or busy: look with \`ps -o pid,stat,etime,args -p ${pid}\`, let it go on with \`kill -CONT ${pid}\`.`,
        },
  );
}

/** One `ping` on an open connection. */
export function ping(bus: Bus, timeoutMs = PING_TIMEOUT_MS): Promise<Ping> {
  return bus.call("ping", {}, { timeoutMs });
}
