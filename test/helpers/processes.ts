// Who is alive, read from /proc: the only honest answer (zombies are dead, a signal 0 does not tell).

import { readdirSync, readFileSync } from "node:fs";

export interface Living {
  pid: number;
  command: string;
}

/** Living processes, but this one, whose environment or command line holds `mark`. */
export function processesOf(mark: string): Living[] {
  const found: Living[] = [];
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) continue;
    const command = read(`/proc/${name}/cmdline`).replaceAll("\0", " ").trim();
    if (!command.includes(mark) && !read(`/proc/${name}/environ`).includes(mark)) continue;
    if (isAlive(Number(name))) found.push({ pid: Number(name), command: command.slice(0, 200) });
  }
  return found;
}

/** True when the process exists and is neither zombie nor dead. */
export function isAlive(pid: number): boolean {
  const stat = read(`/proc/${pid}/stat`);
  const state = stat.slice(stat.lastIndexOf(")") + 2)[0];
  return state !== undefined && state !== "Z" && state !== "X";
}

function read(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return ""; // gone meanwhile, or not ours
  }
}
