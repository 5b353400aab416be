// Finds the bus of a repository, whatever the caller's environment (case 64 socket-path-too-long):
//
// 1. <common>/busbar/endpoint.json names the socket, if it is of this repository and not of one that this is a copy of. 2. Who answers a ping there is alive.
// 3. Nobody answers: the lock decides. Free = dead. Held = unknown: stopped, busy, or just starting;
//    such a bus is never replaced (case 63 two-daemons). No pid is ever believed (case 62 stale-socket).

import { spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { BusbarError, ioError, isCode } from "../../schemas/errors.ts";
import type { Ping } from "../../schemas/methods.ts";
import { type Endpoint, endpointOf, inCommonDir, realCommonDir } from "../paths.ts";
import { isSameProcess } from "./identity.ts";
import { openThin } from "./thin.ts";

/** A bus that does not answer within this is "not answering": no turn of its loop takes nearly as long. */
export const PING_MS = 2_000;

export interface FoundBus {
  /** `alive`: answers. `dead`: nobody holds the lock. `unknown`: the lock is held, nobody answers. */
  state: "alive" | "dead" | "unknown";
  /** Null when there is none, or it cannot be understood. */
  endpoint: Endpoint | null;
  ping?: Ping;
  /** The process that the endpoint names, if exactly that one still runs; for messages. */
  pid?: number;
}

/** Looks, and changes nothing. Throws NOT_A_REPOSITORY, LOCK_UNAVAILABLE. Answers within 3 s. */
export async function findBus(commonDir: string, pingMs = PING_MS): Promise<FoundBus> {
  const common = realCommonDir(commonDir);
  const endpoint = endpointOf(common);
  const ping = endpoint && (await pingBus(endpoint.socket, pingMs));
  if (ping) return { state: "alive", endpoint, ping, pid: ping.pid };
  const pid = endpoint && isSameProcess(endpoint) ? { pid: endpoint.pid } : {};
  return { state: (await isLocked(inCommonDir(common).lock)) ? "unknown" : "dead", endpoint, ...pid };
}

/** The answer of whoever listens there, or undefined. */
export async function pingBus(socket: string, timeoutMs = PING_MS): Promise<Ping | undefined> {
  try {
    const client = await openThin(socket, undefined, timeoutMs);
    try {
      const answer = (await client.call("ping", {}, timeoutMs)) as Partial<Ping> | null;
      return answer?.name === "busbar" ? (answer as Ping) : undefined;
    } finally {
      client.close();
    }
  } catch (error) {
    if (isCode(error, "BUS_AWAY", "TIMEOUT")) return undefined;
    if (error instanceof BusbarError) return undefined; // somebody else answers there, in his own words
    throw error;
  }
}

/** Asks by taking the lock for an instant on a descriptor of our own; busd knows that this may happen. */
async function isLocked(path: string): Promise<boolean> {
  let fd: number;
  try {
    fd = openSync(path, "r");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return false;
    throw ioError("opening the lock", path, error);
  }
  try {
    return await new Promise<boolean>((resolve, reject) => {
      const child = spawn("flock", ["-n", "-s", "3"], { stdio: ["ignore", "ignore", "ignore", fd] });
      child.on("error", (error: NodeJS.ErrnoException) =>
        reject(new BusbarError("LOCK_UNAVAILABLE", `asking for ${path}: flock: ${error.code}`)),
      );
      child.on("exit", (code) => resolve(code !== 0));
    });
  } finally {
    closeSync(fd);
  }
}

/** The token of a role of that bus. Throws IO. */
export function readToken(endpoint: Pick<Endpoint, "runtime_dir">, role: "person" | "scheduler"): string {
  const path = join(endpoint.runtime_dir, "tokens", role);
  try {
    return readFileSync(path, "utf8").trim();
  } catch (error) {
    throw ioError("reading the token", path, error);
  }
}
