// Claims the socket path of a bus. Only the holder of the lock may do it.
//
// 1. Look at what lies at the path: nothing or a dead socket is fine; a living one belongs to a bus whose lock
//    was taken away by hand; anything else is somebody's and stays (SOCKET_OBSTRUCTED).
// 2. Listen on a temporary name in the same private directory, mode 0600 from the first instant.
// 3. Rename it over the path, and check that it is there: Node 20 cuts long names without a word.
// 4. At the end remove the path only if it still is our file: `server.close()` removes by name, so it gets
//    to know the temporary name only (case 63 two-daemons).

import { randomBytes } from "node:crypto";
import { lstatSync, readdirSync, renameSync, rmSync } from "node:fs";
import { connect, type Server } from "node:net";
import { dirname, join } from "node:path";
import { BusbarError, ioError } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import type { LockHold } from "./lock.ts";
import { checkSocketPath } from "./paths.ts";

/** No living process on this machine takes longer to accept: the kernel answers for it. */
const PROBE_MS = 1_000;
const TEMP_NAME = /^\.[0-9a-f]{6}s$/;

export interface ClaimedSocket {
  readonly path: string;
  /** False when the file at the path is no longer ours. */
  stillOurs(): boolean;
  /** Removes the path if it is ours. */
  remove(): void;
}

/** Makes `server` listen at `path`. Throws SOCKET_OBSTRUCTED, ALREADY_RUNNING, SOCKET_PATH_TOO_LONG, IO. */
export async function claimSocket(server: Server, path: string, _lock: LockHold): Promise<ClaimedSocket> {
  checkSocketPath(path);
  await clearWay(path);
  const dir = dirname(path);
  for (const name of readdirSync(dir)) {
    if (TEMP_NAME.test(name)) {
      // of a bus killed between 2 and 3
      faultPoint("bus.socket.before-remove-dead");
      rmSync(join(dir, name), { force: true });
    }
  }
  const temp = checkSocketPath(join(dir, `.${randomBytes(3).toString("hex")}s`));
  await listen(server, temp);
  try {
    faultPoint("bus.socket.before-rename");
    renameSync(temp, path);
  } catch (error) {
    throw ioError("putting the socket at", path, error);
  }
  const ours = lstatSync(path, { throwIfNoEntry: false });
  if (!ours?.isSocket() || (ours.mode & 0o777) !== 0o600)
    throw new BusbarError(
      "SOCKET_OBSTRUCTED",
      `listening at ${path}: the socket is not there with mode 0600`,
    );
  const stillOurs = () => {
    const there = lstatSync(path, { throwIfNoEntry: false });
    return there !== undefined && there.ino === ours.ino && there.dev === ours.dev;
  };
  const remove = () => {
    if (!stillOurs()) return;
    faultPoint("bus.end.before-remove-socket");
    rmSync(path, { force: true });
  };
  return { path, stillOurs, remove };
}

async function clearWay(path: string): Promise<void> {
  const there = lstatSync(path, { throwIfNoEntry: false });
  if (!there) return;
  const obstructed = (what: string) =>
    new BusbarError("SOCKET_OBSTRUCTED", `${path} is ${what}, not a socket of ours`, { path });
  if (there.isSymbolicLink()) throw obstructed("a symbolic link");
  if (there.isDirectory()) throw obstructed("a directory");
  if (!there.isSocket()) throw obstructed("a file");
  if (await isAlive(path))
    throw new BusbarError("ALREADY_RUNNING", `another process listens at ${path}`, { socket: path });
}

/** Whether somebody accepts there. A listener whose queue is full is alive too. */
export function isAlive(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    const done = (alive: boolean) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(alive);
    };
    const timer = setTimeout(() => done(true), PROBE_MS);
    socket.on("connect", () => done(true));
    socket.on("error", (error: NodeJS.ErrnoException) =>
      done(error.code !== "ECONNREFUSED" && error.code !== "ENOENT"),
    );
  });
}

/** bind() happens inside listen(), so the umask holds for exactly this one call. */
function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const onError = (error: Error) => reject(ioError("listening at", path, error));
    server.once("error", onError);
    const old = process.umask(0o177);
    try {
      faultPoint("bus.socket.before-listen");
      server.listen(path, () => {
        server.off("error", onError);
        resolve();
      });
    } finally {
      process.umask(old);
    }
  });
}
