// Where everything of a repository's bus lies. Repository identity = real path of its common git directory.
//
//   <common>/busbar/lock            OS lock, held for the life of the bus
//   <common>/busbar/endpoint.json   how clients find the bus, whatever their environment
//   <state>/<key>/lock              OS lock, the same: two paths may lead to one state (containers, a repository put in
//                                   the place of another)
//   <state>/<key>/                  what survives: bus/, runs/, gate/, control.git, archive/, logs/
//   <runtime>/busbar-<uid>/<key>/   sockets and tokens: bus.sock, tokens/, t/
//
// Time and randomness are not needed; environment and user id come in.

import { createHash } from "node:crypto";
import {
  accessSync,
  chmodSync,
  closeSync,
  constants,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, isAbsolute, join } from "node:path";
import { BusbarError, ioError } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import { type AttemptRef, attemptLabel } from "../schemas/ids.ts";
import { MAX_SOCKET_PATH_BYTES } from "../schemas/limits.ts";

export type Env = Readonly<Record<string, string | undefined>>;

export interface BusPaths {
  /** Real path of the common git directory. */
  common: string;
  key: string;
  lock: string;
  endpoint: string;
  state: string;
  stateLock: string;
  runtime: string;
  socket: string;
  tokens: string;
}

/** What a client needs to reach the bus; lies in the user's git directory. */
export interface Endpoint {
  v: 1;
  socket: string;
  state_dir: string;
  runtime_dir: string;
  pid: number;
  /** Start time of the process (clock ticks since boot), so that a reused pid is seen. */
  start_time: string;
  boot_id: string;
}

/** First 12 hex digits of the identity's hash: the same from every worktree, sub-directory and link. */
export function repoKey(commonReal: string): string {
  return createHash("sha256").update(commonReal).digest("hex").slice(0, 12);
}

/** All places of one repository. Throws NOT_A_REPOSITORY, USAGE, SOCKET_PATH_TOO_LONG. Creates nothing. */
export function busPaths(commonDir: string, env: Env, uid: number): BusPaths {
  const common = realCommonDir(commonDir);
  const key = repoKey(common);
  const runtime = join(real(runtimeRoot(env, uid)), `busbar-${uid}`, key);
  const state = join(real(stateRoot(env)), key);
  return {
    common,
    key,
    ...inCommonDir(common),
    state,
    stateLock: join(state, "lock"),
    runtime,
    socket: checkSocketPath(join(runtime, "bus.sock")),
    tokens: join(runtime, "tokens"),
  };
}

/** The two things that lie in the user's git directory: all that a client has to know. */
export function inCommonDir(common: string): { lock: string; endpoint: string } {
  return { lock: join(common, "busbar", "lock"), endpoint: join(common, "busbar", "endpoint.json") };
}

export function realCommonDir(commonDir: string): string {
  try {
    return realpathSync(commonDir);
  } catch (error) {
    throw ioError("finding the git directory", commonDir, error, "NOT_A_REPOSITORY");
  }
}

function stateRoot(env: Env): string {
  const own = absolute(env, "BUSBAR_STATE_DIR");
  if (own) return own;
  // The XDG rule: a relative value counts as unset.
  if (env.XDG_STATE_HOME && isAbsolute(env.XDG_STATE_HOME)) return join(env.XDG_STATE_HOME, "busbar");
  const home = absolute(env, "HOME");
  if (!home)
    throw new BusbarError("USAGE", "finding the state directory: HOME is not set", {
      help: "Set HOME, or BUSBAR_STATE_DIR.",
    });
  return join(home, ".local", "state", "busbar");
}

function runtimeRoot(env: Env, uid: number): string {
  const own = absolute(env, "BUSBAR_RUNTIME_DIR");
  if (own) return own;
  const run = `/run/user/${uid}`;
  const stat = lstatSync(run, { throwIfNoEntry: false });
  return stat?.isDirectory() && stat.uid === uid ? run : "/tmp";
}

/** Without links, as far as it is there: git and the kernel name what lies below in this way. */
function real(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    const parent = dirname(path);
    return parent === path ? path : join(real(parent), basename(path));
  }
}

function absolute(env: Env, name: string): string | undefined {
  const value = env[name];
  if (!value) return undefined;
  if (isAbsolute(value)) return value;
  const help = `Set ${name} to a path that begins with /, or unset it.`;
  throw new BusbarError("USAGE", `${name} must be an absolute path, not "${value}"`, { help });
}

/** The socket of one attempt: short, and fit for every id. */
export function taskSocketPath(runtime: string, ref: AttemptRef): string {
  const name = createHash("sha256").update(attemptLabel(ref)).digest("hex").slice(0, 12);
  return checkSocketPath(join(runtime, "t", name));
}

/** The path itself, or SOCKET_PATH_TOO_LONG: Node 20 would cut it silently and listen elsewhere. */
export function checkSocketPath(path: string): string {
  const bytes = Buffer.byteLength(path);
  if (bytes <= MAX_SOCKET_PATH_BYTES) return path;
  throw new BusbarError(
    "SOCKET_PATH_TOO_LONG",
    `socket path is ${bytes} bytes, limit ${MAX_SOCKET_PATH_BYTES}: ${path}`,
    { path, bytes, limit: MAX_SOCKET_PATH_BYTES },
  );
}

/** Makes the directories of the bus, each closed to others. Throws UNSAFE_DIRECTORY, DIRECTORY_UNUSABLE. */
export function makeDirectories(paths: BusPaths, uid: number): void {
  const userDir = dirname(paths.runtime);
  for (const dir of [
    paths.state,
    join(paths.state, "bus"),
    userDir,
    paths.runtime,
    paths.tokens,
    join(paths.runtime, "t"),
  ])
    makePrivateDir(dir, uid);
  const dir = dirname(paths.lock);
  try {
    makeDirs(dir);
    checkUsable(dir);
  } catch (error) {
    throw unusable(
      dir,
      error,
      "The lock of the bus lies in the git directory: you must be able to write there.",
    );
  }
}

/**
 * A directory of ours with mode 0700, made if absent. One that a stranger owns, that is a link, or that others
 * could write to is refused: what lies in it cannot be trusted. One that others could only read is closed.
 * Throws UNSAFE_DIRECTORY; DIRECTORY_UNUSABLE where it cannot be made, looked at or written in.
 */
export function makePrivateDir(dir: string, uid: number): void {
  try {
    makeDirs(dir);
    checkPrivate(dir, uid);
    checkUsable(dir);
  } catch (error) {
    throw error instanceof BusbarError ? error : unusable(dir, error);
  }
}

/** The dot makes a file at this place ENOTDIR, and asks a read-only file system too. */
function checkUsable(dir: string): void {
  accessSync(`${dir}/.`, constants.R_OK | constants.W_OK | constants.X_OK);
}

function checkPrivate(dir: string, uid: number): void {
  const stat = lstatSync(dir);
  const refuse = (why: string) => new BusbarError("UNSAFE_DIRECTORY", `${dir} ${why}`, { path: dir });
  if (stat.isSymbolicLink()) throw refuse("is a symbolic link");
  if (!stat.isDirectory()) throw refuse("is not a directory");
  if (stat.uid !== uid) throw refuse(`belongs to user ${stat.uid}, not to ${uid}`);
  if ((stat.mode & 0o022) !== 0) throw refuse("can be written by others");
  const parent = lstatSync(dirname(dir));
  if ((parent.mode & 0o002) !== 0 && (parent.mode & 0o1000) === 0)
    throw refuse("lies in a directory where others may rename it (world-writable, not sticky)");
  if ((stat.mode & 0o777) !== 0o700) {
    faultPoint("shared.private-directory.before-close");
    chmodSync(dir, 0o700);
  }
}

/** Not `recursive: true` of mkdir: where a directory cannot be made (/proc/x/y), Node tries again for ever. */
function makeDirs(dir: string): void {
  for (let again = false; ; again = true) {
    try {
      faultPoint("shared.private-directory.before-make");
      mkdirSync(dir, { mode: 0o700 });
      return;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === "EEXIST") return;
      if (code !== "ENOENT" || again || dirname(dir) === dir) throw error;
    }
    makeDirs(dirname(dir));
  }
}

/** Says in words what is in the way, and where: the nearest thing above `dir` that can be looked at. */
function unusable(dir: string, cause: unknown, help?: string): BusbarError {
  const errno = (cause as NodeJS.ErrnoException | undefined)?.code ?? String(cause);
  const at = nearestThere(dir);
  const words: Record<string, string> = {
    ENOTDIR: `${at} is not a directory`,
    ELOOP: `the symbolic link ${at} leads in a circle`,
    EACCES: `no permission at ${at}`,
    EPERM: `no permission at ${at}`,
    EROFS: `${at} is read-only`,
    ENOENT: `nothing can be made in ${at}`,
    ENOSPC: `no room left at ${at}`,
    EDQUOT: `no room left at ${at}`,
    ENAMETOOLONG: "the name is too long",
  };
  const why = words[errno] === undefined ? errno : `${words[errno]} (${errno})`;
  const facts = { path: dir, at, errno, ...(help === undefined ? {} : { help }) };
  return new BusbarError("DIRECTORY_UNUSABLE", `the directory ${dir} cannot be used: ${why}`, facts, {
    cause,
  });
}

function nearestThere(dir: string): string {
  for (let at = dir; ; at = dirname(at)) {
    try {
      lstatSync(at);
      return at;
    } catch {
      if (dirname(at) === at) return at;
    }
  }
}

/** Writes the endpoint file: complete and durable, or not at all. */
export function writeEndpoint(path: string, endpoint: Endpoint): void {
  writeDurably(path, `${JSON.stringify(endpoint)}\n`);
}

/** A 0600 file by temporary file, fsync, rename, fsync of the directory. Throws IO. */
export function writeDurably(path: string, text: string): void {
  // Always the same name: what a killed writer left is taken by the next. There is one writer at a time, the holder of
  // the lock or the registered scheduler.
  const temp = `${path}.tmp`;
  try {
    faultPoint("shared.durable-file.before-remove-old");
    rmSync(temp, { force: true });
    faultPoint("shared.durable-file.before-open");
    const fd = openSync(temp, "wx", 0o600);
    try {
      faultPoint("shared.durable-file.before-write");
      writeFileSync(fd, text);
      faultPoint("shared.durable-file.before-sync");
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    faultPoint("shared.durable-file.before-rename");
    renameSync(temp, path);
    syncDir(dirname(path));
  } catch (error) {
    faultPoint("shared.durable-file.before-clean-up");
    rmSync(temp, { force: true });
    throw ioError("writing", path, error);
  }
}

function syncDir(dir: string): void {
  const fd = openSync(dir, "r");
  try {
    faultPoint("shared.durable-file.before-sync-directory");
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/**
 * The endpoint of the bus of exactly this repository, or null. A copy of a repository, or one that was moved, brings along
 * the file of a bus that works elsewhere: its state directory is named after another path.
 */
export function endpointOf(common: string): Endpoint | null {
  const endpoint = readEndpoint(inCommonDir(common).endpoint);
  return endpoint && basename(endpoint.state_dir) === repoKey(common) ? endpoint : null;
}

/** The endpoint, or null when there is none or it cannot be understood: then nobody is taken to be there. */
export function readEndpoint(path: string): Endpoint | null {
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(path, "utf8"));
  } catch {
    return null;
  }
  if (typeof value !== "object" || value === null) return null;
  const e = value as Partial<Record<keyof Endpoint, unknown>>;
  const texts = [e.socket, e.state_dir, e.runtime_dir, e.start_time, e.boot_id];
  if (e.v !== 1 || texts.some((text) => typeof text !== "string")) return null;
  // 1 and negative numbers must never reach kill().
  if (!Number.isSafeInteger(e.pid) || (e.pid as number) <= 1) return null;
  return value as Endpoint;
}
