// Which control groups the scheduler may make on this host, and where. Asked once, at the start, by trying: a directory of
// ours below our own group in every hierarchy that counts something.
//
// 1. Version 2 knows and kills all; where its controllers may not be used here, version 1 limits, if it is there.
// 2. Nothing is built into another manager's group: below our own group of version 1 we make one only where that is the root
//    of what we see. $BUSBAR_CGROUP_BASE names another place, in all hierarchies.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { faultPoint } from "../schemas/fault-points.ts";
import type { GroupAt } from "../schemas/job.ts";
import type { GroupFeature } from "../schemas/limit-plan.ts";
import type { HostEnv } from "./environment.ts";

/** Names another place for our groups, from the top of every hierarchy, e.g. `/busbar`. */
export const BASE_VARIABLE = "BUSBAR_CGROUP_BASE";

/** Directories of ours below which groups are made; `notes` say what this host lacks, for people. */
export interface GroupHost extends Partial<Record<"all" | GroupFeature, GroupAt>> {
  notes: string[];
}

/** The kernel as `probeGroups` asks it; a test has its own. */
export interface GroupKernel {
  /** Throws as fs does. */
  read(path: string): string;
  write(path: string, text: string): void;
  makeDirectory(path: string): void;
}

const KERNEL: GroupKernel = {
  read: (path) => readFileSync(path, "utf8"),
  write: (path, text) => {
    faultPoint("scheduler.group-host.before-enable");
    writeFileSync(path, text);
  },
  makeDirectory: (path) => {
    faultPoint("scheduler.group-host.before-make-base");
    mkdirSync(path, { recursive: true });
  },
};

/** What may be limited, and the name of its controller in version 1. */
const CONTROLLERS = { memory: "memory", pids: "pids", cpu: "cpu", io: "blkio" } as const;
/** All of them. */
export const FEATURES = Object.keys(CONTROLLERS) as GroupFeature[];
const OWN = "busbar";

/** `suffix`: for places of their own beside those in use. */
export function probeGroups(env: HostEnv, suffix = "", kernel: GroupKernel = KERNEL): GroupHost {
  const host: GroupHost = { notes: [] };
  const named = env[BASE_VARIABLE];
  const place: Place = { base: named && `${named}${suffix}`, own: `${OWN}${suffix}` };
  try {
    const mounts = mountsOf(kernel.read("/proc/self/mountinfo"));
    const own = groupsOfSelf(kernel.read("/proc/self/cgroup"));
    const two = mounts.find(({ type }) => type === "cgroup2");
    if (two) useTwo(host, kernel, placeIn(two, own.get("") ?? "/", place));
    for (const name of FEATURES) if (!host[name]) useOne(host, kernel, name, mounts, own, place);
    host.all ??= host.pids ?? host.memory;
  } catch (error) {
    host.notes.push(`control groups cannot be asked for: ${(error as Error).message}`);
  }
  return host;
}

function useTwo(host: GroupHost, kernel: GroupKernel, dir: string): void {
  try {
    kernel.makeDirectory(dir);
    kernel.read(join(dir, "cgroup.events"));
  } catch (error) {
    host.notes.push(`control groups (version 2): ${(error as Error).message}`);
    return;
  }
  host.all = { v: 2, dir };
  for (const name of FEATURES) {
    if (!words(kernel.read(join(dir, "cgroup.controllers"))).includes(name)) continue;
    try {
      kernel.write(join(dir, "cgroup.subtree_control"), `+${name}`);
      host[name] = { v: 2, dir };
    } catch (error) {
      host.notes.push(`${name}: ${(error as Error).message}`);
    }
  }
}

function useOne(
  host: GroupHost,
  kernel: GroupKernel,
  name: GroupFeature,
  mounts: readonly Mount[],
  own: ReadonlyMap<string, string>,
  place: Place,
): void {
  const controller = CONTROLLERS[name];
  const mount = mounts.find(({ type, options }) => type === "cgroup" && options.includes(controller));
  if (!mount) {
    host.notes.push(`${name}: no control group limits it here`);
    return;
  }
  const at = own.get(controller) ?? "/";
  if (place.base === undefined && relative(mount.root, at) !== "") {
    host.notes.push(
      `${name}: the control group ${name}:${at} is another manager's; ${BASE_VARIABLE} names one of ours`,
    );
    return;
  }
  const dir = placeIn(mount, at, place);
  try {
    kernel.makeDirectory(dir);
    host[name] = { v: 1, dir };
  } catch (error) {
    host.notes.push(`${name}: ${(error as Error).message}`);
  }
}

interface Mount {
  root: string;
  at: string;
  type: string;
  options: string[];
}

/** Lines of /proc/self/mountinfo: `id parent dev ROOT AT options... - TYPE source SUPEROPTIONS`. */
function mountsOf(text: string): Mount[] {
  return text.split("\n").flatMap((line) => {
    const [left = "", right = ""] = line.split(" - ");
    const [, , , root, at] = left.split(" ");
    const [type, , options] = right.split(" ");
    if (root === undefined || at === undefined || (type !== "cgroup" && type !== "cgroup2")) return [];
    return [{ root, at, type, options: (options ?? "").split(",") }];
  });
}

/** Lines of /proc/self/cgroup: `id:controllers:PATH`; version 2 has no controllers there. */
function groupsOfSelf(text: string): Map<string, string> {
  const own = new Map<string, string>();
  for (const line of text.split("\n")) {
    const [, controllers, ...path] = line.split(":");
    for (const name of controllers?.split(",") ?? []) own.set(name, path.join(":"));
  }
  return own;
}

/** Where groups are made: a directory below our own group, or a place that was named. */
interface Place {
  base: string | undefined;
  own: string;
}

function placeIn({ root, at }: Mount, group: string, { base, own }: Place): string {
  return base === undefined ? join(at, relative(root, group), own) : join(at, base);
}

function words(text: string): string[] {
  return text.trim().split(/\s+/);
}
