// The doctor's look at the host: programs, locale, room, limits of this login. Nothing is changed.

import { accessSync, constants, readFileSync, statfsSync } from "node:fs";
import { availableParallelism } from "node:os";
import { delimiter, isAbsolute, join } from "node:path";
import type { Config } from "../../schemas/config.ts";
import type { Finding } from "../../schemas/finding.ts";
import { sizeWords } from "../../schemas/limit-words.ts";
import { NOFILE_HOST, NPROC_HOST, WORKERS_PER_CORE } from "../../schemas/limits.ts";
import type { Ctx } from "./context.ts";

/** `dir`: where the workspaces lie, or will. */
export function examineHost({ env }: Pick<Ctx, "env">, config: Config, dir: string): Finding[] {
  return [
    node(process.versions.node),
    program(env, "flock", "the lock of a repository cannot be held", "apt install util-linux"),
    locale(env),
    disk(dir, config),
    inodes(dir),
    loginLimit("nofile", "Max open files", NOFILE_HOST),
    loginLimit("nproc", "Max processes", NPROC_HOST),
    memory(config),
    ...agents(env, config),
  ];
}

const OLDEST_NODE = [20, 19] as const;

function node(version: string): Finding {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const old = major < OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor < OLDEST_NODE[1]);
  const found = { part: "host", name: "node", said: `Node ${version}` } as const;
  return old ? { ...found, state: "bad", cure: "install Node 20.19 or newer" } : { ...found, state: "good" };
}

function program(env: Ctx["env"], name: string, without: string, cure: string): Finding {
  const at = onPath(env, name);
  if (at !== undefined) return { part: "host", name, state: "good", said: at };
  return { part: "host", name, state: "bad", said: `not on PATH: ${without}`, cure };
}

function onPath(env: Ctx["env"], name: string): string | undefined {
  if (name.includes("/")) return isProgram(name) ? name : undefined;
  const dirs = (env.PATH ?? "").split(delimiter).filter((dir) => isAbsolute(dir));
  return dirs.map((dir) => join(dir, name)).find(isProgram);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function locale(env: Ctx["env"]): Finding {
  const own = env.LC_ALL || env.LC_CTYPE || env.LANG || "none";
  const utf8 = /utf-?8/i.test(own);
  return {
    part: "host",
    name: "locale",
    state: utf8 ? "good" : "poor",
    said: utf8 ? own : `${own} is not UTF-8; agents and checks get C.UTF-8, this terminal plain signs`,
    cure: "export LANG=C.UTF-8",
  };
}

function disk(dir: string, { disk_limit_percent: limit }: Config): Finding {
  const { blocks, bfree, bavail, bsize } = statfsSync(dir);
  const used = ((blocks - bfree) / Math.max(1, blocks - bfree + bavail)) * 100;
  return {
    part: "host",
    name: "disk",
    state: used > limit ? "bad" : "good",
    said: `${used.toFixed(0)} % used (limit ${limit} %), ${sizeWords(bavail * bsize)} free at ${dir}`,
    cure: "make room (`busctl gc` archives workspaces that nobody needs), or raise `disk_limit_percent`",
  };
}

const FEW_INODES = 200_000;

function inodes(dir: string): Finding {
  const { files, ffree } = statfsSync(dir);
  // Some file systems make them as they are needed, and say 0 of 0.
  const few = files > 0 && ffree < FEW_INODES;
  return {
    part: "host",
    name: "inodes",
    state: few ? "poor" : "good",
    said: files === 0 ? "no bound here" : `${ffree} free`,
    cure: "each workspace needs one a file: remove what is not needed, or use a disk with more of them",
  };
}

/** Of this login; bus and scheduler that are started from here have the same. */
function loginLimit(name: string, line: string, wanted: number): Finding {
  const text = readFileSync("/proc/self/limits", "latin1");
  const word = new RegExp(`^${line}\\s+\\S+\\s+(\\S+)`, "m").exec(text)?.[1] ?? "unlimited";
  const enough = word === "unlimited" || Number(word) >= wanted || process.getuid?.() === 0;
  return {
    part: "host",
    name,
    state: enough ? "good" : "poor",
    said: enough
      ? `hard limit ${word}${process.getuid?.() === 0 ? " (root may raise it)" : ""}`
      : `hard limit ${word}, ${wanted} is wanted for many agents at once`,
    cure: `raise it in /etc/security/limits.conf (\`* hard ${name} ${wanted}\`), then log in anew`,
  };
}

/** What one attempt is taken to need where its limits say nothing. */
const ATTEMPT_BYTES = 512 * 1024 * 1024;

function memory({ workers, limits }: Config): Finding {
  const text = readFileSync("/proc/meminfo", "latin1");
  const free = Number(/^MemAvailable:\s+(\d+)/m.exec(text)?.[1] ?? 0) * 1024;
  const atOnce = workers ?? availableParallelism() * WORKERS_PER_CORE;
  const each = limits.memory ?? ATTEMPT_BYTES;
  const enough = free >= atOnce * each;
  const all = `${atOnce} attempts at once may use ${sizeWords(atOnce * each)}`;
  return {
    part: "host",
    name: "free memory",
    state: enough ? "good" : "poor",
    said: enough ? `${sizeWords(free)} free` : `${sizeWords(free)} free, and ${all}`,
    cure: "fewer `workers`, or a smaller `limits: {memory: ...}` in the configuration",
  };
}

/** Profiles whose program is not there fail every attempt. */
function agents(env: Ctx["env"], { agents: profiles }: Config): Finding[] {
  return Object.entries(profiles).map(([name, { command }]) => {
    const first = /^[A-Za-z0-9_./+-]+(?=\s|$)/.exec(command.trim())?.[0];
    const at = first === undefined ? undefined : onPath(env, first);
    const found = { part: "host", name: `agent ${name}` } as const;
    if (first === undefined) return { ...found, state: "good", said: "a command line of the shell" };
    if (at !== undefined) return { ...found, state: "good", said: at };
    return {
      ...found,
      state: "bad",
      said: `${first} is not on PATH`,
      cure: `install it, or mend agents.${name}`,
    };
  });
}
