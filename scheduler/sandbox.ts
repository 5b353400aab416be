// The sandbox of an agent or check (L4): from what a host has and what a process needs to the words for bubblewrap. Pure; the
// neighbour sandbox-host.ts looks at the host, shim/sandbox.ts stands round the process.
//
// Inside there is nothing but what is put there:
// 1. programs: /usr and the like, and the tools of PATH that lie elsewhere (tool-paths.ts), read-only;
// 2. the process's own: its workspace and its own directories writable, at the paths that they have outside;
//    what it is told (context, prompt) and the object stores that its repository borrows from, read-only; its task socket;
// 3. what plan or configuration name in `read` and `write`.
// Not there are homes, other workspaces, state, sockets (the bus's, those of /run), /sys but for a part, other file
// systems. Where one of these lies below something that is there, an empty directory stands over it.
//
// Own user, PID, IPC, UTS and cgroup namespace, and a network namespace where it is to have none; no capability, also for
// root, and no way to a new user namespace where bubblewrap can forbid that. For root /proc is read-only: the kernel's own
// settings ask who one is, not what one may.

import type { JobSandbox } from "../schemas/job.ts";
import type { Network } from "../schemas/sandbox.ts";

/** What stands at a path of the sandbox. */
export type Mount =
  | { at: string; kind: "read" | "write"; from?: string; maybe?: boolean }
  | { at: string; kind: "link"; to: string }
  /** Nothing: an empty directory, or a file that nobody can open. */
  | { at: string; kind: "void" | "shut" }
  | { at: string; kind: "proc" | "dev" | "shm" };

/** A host that can make sandboxes. */
export interface SandboxTools {
  /** Path of bubblewrap. */
  bwrap: string;
  /** It can forbid further user namespaces. */
  locksUserns: boolean;
  /** We are root. */
  isRoot: boolean;
  /** The same for all: programs and settings of the system, tools of PATH. */
  common: readonly Mount[];
  /** Never seen inside, wherever they lie: home, state, sockets, the repository. */
  hidden: readonly string[];
}

/** What a process has of its own, in paths of the host. */
export interface SandboxPlace {
  cwd: string;
  /** Stands for /tmp and /var/tmp. */
  tmp: string;
  write: readonly string[];
  read: readonly string[];
}

const SHM_BYTES = 256 * 1024 * 1024;
const NAMESPACES = ["user", "pid", "ipc", "uts", "cgroup-try"];

export function planSandbox(tools: SandboxTools, place: SandboxPlace, network: Network): JobSandbox {
  const mounts = byPath([
    ...tools.common,
    { at: "/proc", kind: "proc" },
    { at: "/dev", kind: "dev" },
    { at: "/dev/shm", kind: "shm" },
    { at: "/tmp", kind: "write", from: place.tmp },
    { at: "/var/tmp", kind: "write", from: place.tmp },
    ...place.read.map((at): Mount => ({ at, kind: "read" })),
    ...place.write.map((at): Mount => ({ at, kind: "write" })),
    ...tools.hidden.map((at): Mount => ({ at, kind: "void" })),
  ]);
  const shown = mounts.filter((mount, i) => mount.kind !== "void" || isCovered(mount.at, mounts.slice(0, i)));
  const unshare = [...NAMESPACES, ...(network === "none" ? ["net"] : [])].map((name) => `--unshare-${name}`);
  const voids = shown.filter(({ kind }) => kind === "void").map(({ at }) => at);
  const closed = ["/dev", ...(tools.isRoot ? ["/proc"] : []), ...voids, "/"];
  const argv = [
    tools.bwrap,
    ...unshare,
    ...(tools.locksUserns ? ["--disable-userns"] : []),
    "--die-with-parent",
    "--new-session",
    ...["--cap-drop", "ALL"],
    ...shown.flatMap(wordsOf),
    ...closed.flatMap((at) => ["--remount-ro", at]),
    ...["--chdir", place.cwd],
  ];
  return { argv, said: saidOf(network) };
}

/** In few words, for people. */
export function saidOf(network: Network): string {
  return `bubblewrap, ${network === "none" ? "no network" : "network of the host"}`;
}

function wordsOf(mount: Mount): string[] {
  const { at } = mount;
  switch (mount.kind) {
    case "read":
    case "write":
      return [
        `--${mount.kind === "read" ? "ro-bind" : "bind"}${mount.maybe ? "-try" : ""}`,
        mount.from ?? at,
        at,
      ];
    case "link":
      return ["--symlink", mount.to, at];
    case "void":
      return ["--tmpfs", at];
    case "shut":
      // Bound without the right to use devices: it is there, and cannot be opened.
      return ["--ro-bind-try", "/dev/null", at];
    case "proc":
    case "dev":
      return [`--${mount.kind}`, at];
    case "shm":
      return ["--size", String(SHM_BYTES), "--tmpfs", at];
  }
}

/** Parents before what lies below them. At the same path the later one counts, but nothing opens what is hidden. */
function byPath(mounts: readonly Mount[]): Mount[] {
  const last = new Map<string, Mount>();
  for (const mount of mounts) last.set(mount.at, mount);
  const depth = ({ at }: Mount) => (at === "/" ? 0 : at.split("/").length);
  return [...last.values()].sort((a, b) => depth(a) - depth(b));
}

/** Whether something stands there without more. */
function isCovered(at: string, before: readonly Mount[]): boolean {
  return before.some((mount) => mount.kind !== "link" && isBelow(at, mount.at));
}

export function isBelow(path: string, top: string): boolean {
  return path !== top && path.startsWith(top === "/" ? "/" : `${top}/`);
}
