// Whether this host can make sandboxes, found once, at the start, by making some; and what all of them have in common.
//
// 1. bubblewrap is looked for where a system keeps it, and on PATH; $BUSBAR_BWRAP names another.
// 2. What of the system programs need is listed: /usr and the like, the tools of PATH (tool-paths.ts), what links in /etc
//    lead to. As root, what others may not read below /etc is shut: inside one is root still, as far as reading goes.
// 3. A sandbox without network is made, as it would be for a check; if that fails, one that may make user namespaces.

import { execFile } from "node:child_process";
import {
  accessSync,
  constants,
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
} from "node:fs";
import { join } from "node:path";
import { faultPoint } from "../schemas/fault-points.ts";
import type { SandboxFacts } from "../schemas/sandbox.ts";
import type { HostEnv } from "./environment.ts";
import { isBelow, type Mount, planSandbox, type SandboxTools } from "./sandbox.ts";
import { toolPaths } from "./tool-paths.ts";

export interface SandboxHost {
  facts: SandboxFacts;
  /** There when it works. */
  tools?: SandboxTools;
}

export interface SandboxProbe {
  env: HostEnv;
  uid: number;
  /** The person's home. */
  home: string;
  /** Directories of the programs that every process may call. */
  programDirs: readonly string[];
  /** Never seen inside. */
  hidden: readonly string[];
}

/** Names another bubblewrap than the system's. */
const PROGRAM_VARIABLE = "BUSBAR_BWRAP";
const PROGRAM = "bwrap";
const SYSTEM_DIRS = ["/usr/bin", "/usr/local/bin", "/bin", "/run/current-system/sw/bin"];
/** Programs of the system, and what they read. */
const ROOTS = "/usr /bin /sbin /lib /lib32 /lib64 /libx32 /etc /opt /nix /gnu".split(" ");
/** Where they are: number of cores, fonts, certificates of some systems. */
const PARTS = ["/sys/devices/system", "/var/cache/fontconfig", "/var/lib/ca-certificates"];
/** Files of /etc that may be links to places that are not inside. */
const LINKED = ["resolv.conf", "hosts", "localtime", "nsswitch.conf", "ssl/cert.pem"];
const ETC_DEPTH = 4;
const MAX_SHUT = 100;
const TRY_MS = 10_000;

export async function probeSandbox(probe: SandboxProbe): Promise<SandboxHost> {
  const bwrap = findProgram(probe.env);
  if (bwrap === undefined) return lacking("bubblewrap is not installed", CURES.install);
  const version = await run([bwrap, "--version"]);
  const common = commonMounts(probe);
  const tools = (locksUserns: boolean): SandboxTools => ({
    bwrap,
    locksUserns,
    isRoot: probe.uid === 0,
    common,
    hidden: [...new Set(probe.hidden.flatMap((path) => [path, realOf(path) ?? path]))].filter((path) =>
      existsSync(path),
    ),
  });
  let why = "";
  for (const found of [tools(true), tools(false)]) {
    const { argv } = planSandbox(found, { cwd: "/", tmp: "/tmp", write: [], read: [] }, "none");
    const tried = await run([...argv, "--", "true"]);
    if (tried.ok) return { facts: { works: true, said: version.words || "bubblewrap" }, tools: found };
    why = tried.words;
  }
  return lacking(`bubblewrap does not work here (${why || "no word of it"})`, cure());
}

function lacking(said: string, cure: string): SandboxHost {
  return { facts: { works: false, said, cure } };
}

const CURES = {
  install:
    "Install bubblewrap (Debian, Ubuntu: apt-get install bubblewrap), then `busctl down` and `busctl up`.",
  apparmor:
    "AppArmor forbids it to make user namespaces: give bwrap a profile with `userns`, or set kernel.apparmor_restrict_unprivileged_userns=0 (sysctl).",
  switched: "This kernel is set to refuse user namespaces: set kernel.unprivileged_userns_clone=1 (sysctl).",
  none: "This kernel is set to allow no user namespace: set user.max_user_namespaces to more than 0 (sysctl).",
  container:
    "In a container: allow user namespaces and mounts in them (docker run --security-opt seccomp=unconfined --security-opt systempaths=unconfined --security-opt apparmor=unconfined).",
};

/** By what the kernel is set to, never by bubblewrap's words. */
function cure(): string {
  const setting = (path: string) => readText(`/proc/sys/${path}`).trim();
  if (setting("kernel/apparmor_restrict_unprivileged_userns") === "1") return CURES.apparmor;
  if (setting("kernel/unprivileged_userns_clone") === "0") return CURES.switched;
  if (setting("user/max_user_namespaces") === "0") return CURES.none;
  return CURES.container;
}

function findProgram(env: HostEnv): string | undefined {
  const own = env[PROGRAM_VARIABLE];
  const onPath = (env.PATH ?? "").split(":").filter((dir) => dir.startsWith("/"));
  const all = own === undefined ? [...SYSTEM_DIRS, ...onPath].map((dir) => join(dir, PROGRAM)) : [own];
  return all.find(isProgram);
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

interface Tried {
  ok: boolean;
  /** The last line. */
  words: string;
}

function run([file, ...args]: readonly string[]): Promise<Tried> {
  return new Promise((resolve) => {
    faultPoint("scheduler.sandbox.before-try");
    execFile(file as string, args, { timeout: TRY_MS, env: {}, encoding: "utf8" }, (error, out, err) => {
      const words = `${out}${err}`.trim().split("\n").at(-1) ?? "";
      resolve({ ok: error === null, words });
    });
  });
}

function commonMounts({ uid, home, programDirs }: SandboxProbe): Mount[] {
  const roots = ROOTS.flatMap(rootMount);
  const seen = roots.flatMap((mount) => (mount.kind === "read" ? [mount.at] : []));
  const read = (at: string): Mount => ({ at, kind: "read", maybe: true });
  const outside = LINKED.map((name) => realOf(`/etc/${name}`)).filter(
    (path): path is string => path !== undefined && !seen.some((top) => isBelow(path, top)),
  );
  const tools = toolPaths(programDirs, { seen, home, files: { real: realOf, exists: existsSync, links } });
  const shut = uid === 0 ? unreadable("/etc", ETC_DEPTH).slice(0, MAX_SHUT) : [];
  return [...roots, ...[...PARTS, ...outside, ...tools].map(read), ...shut];
}

/** `/bin` is a link on most systems, and stays one. */
function rootMount(at: string): Mount[] {
  try {
    const stat = lstatSync(at);
    if (stat.isSymbolicLink()) return [{ at, kind: "link", to: readlinkSync(at) }];
    return stat.isDirectory() ? [{ at, kind: "read" }] : [];
  } catch {
    return [];
  }
}

/** What only root and groups may read. */
function unreadable(dir: string, depth: number): Mount[] {
  return entriesOf(dir).flatMap((name): Mount[] => {
    const at = join(dir, name);
    try {
      const stat = lstatSync(at);
      const needed = stat.isDirectory() ? 0o5 : 0o4;
      if (stat.isSymbolicLink()) return [];
      if ((stat.mode & needed) !== needed) return [{ at, kind: stat.isDirectory() ? "void" : "shut" }];
      return stat.isDirectory() && depth > 1 ? unreadable(at, depth - 1) : [];
    } catch {
      return [];
    }
  });
}

function entriesOf(dir: string): string[] {
  try {
    return readdirSync(dir);
  } catch {
    return [];
  }
}

function links(dir: string): string[] {
  return entriesOf(dir).filter((name) => {
    try {
      return lstatSync(join(dir, name)).isSymbolicLink();
    } catch {
      return false;
    }
  });
}

function realOf(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    return undefined;
  }
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
