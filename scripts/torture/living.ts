// Who lives in a world, by what kind, read from /proc; and the way to kill exactly them.

import { readdirSync, readFileSync, readlinkSync } from "node:fs";

export const KINDS = [
  "bus",
  "scheduler",
  "agent-shim",
  "check-shim",
  "agent",
  "check",
  "helper",
  "busctl",
] as const;
export type Kind = (typeof KINDS)[number];

export interface Living {
  pid: number;
  kind: Kind;
  command: string;
  /** Of agents and checks. */
  task?: string;
  run?: string;
}

/** All that lives and stems from the world in folder W. */
export function livingIn(W: string): Living[] {
  const found: Living[] = [];
  for (const name of readdirSync("/proc")) {
    const pid = Number(name);
    if (!(pid > 1) || pid === process.pid) continue;
    const environ = text(`/proc/${pid}/environ`).split("\0");
    const command = text(`/proc/${pid}/cmdline`).replaceAll("\0", " ").trim();
    const cwd = link(`/proc/${pid}/cwd`);
    if (![command, cwd, ...environ].some((word) => word.includes(W))) continue;
    const state = text(`/proc/${pid}/stat`).split(") ")[1]?.[0];
    if (!state || state === "Z" || state === "X") continue;
    const value = (key: string) => environ.find((word) => word.startsWith(`${key}=`))?.slice(key.length + 1);
    const [task, run] = [value("BUSBAR_TASK_ID"), value("BUSBAR_RUN")];
    found.push({
      pid,
      kind: kindOf(command, cwd, environ),
      command: command.slice(0, 160),
      ...(task === undefined ? {} : { task }),
      ...(run === undefined ? {} : { run }),
    });
  }
  return found;
}

function kindOf(command: string, cwd: string, environ: readonly string[]): Kind {
  const has = (key: string) => environ.some((word) => word.startsWith(`${key}=`));
  if (has("BUSBAR_CONTEXT")) return "agent";
  if (has("BUSBAR_DIR")) return "check";
  if (/bus-shim\.cjs/.test(command)) return cwd.endsWith("/checks") ? "check-shim" : "agent-shim";
  if (/\/bus\/busd\.js /.test(command)) return "bus";
  if (/\/scheduler\/main\.js /.test(command)) return "scheduler";
  if (/\/ctl\/main\.js /.test(command)) return "busctl";
  return "helper";
}

/** SIGKILL; true when it was there. */
export function kill(pid: number): boolean {
  try {
    process.kill(pid, "SIGKILL");
    return true;
  } catch {
    return false; // gone by itself
  }
}

function text(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return "";
  }
}

function link(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return "";
  }
}
