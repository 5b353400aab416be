// Whether a set-up has been done before for the same input (W8). Pure: what decides is in the key.
//
// 1. Every step must name its key files, and each list must find some in the tree: else the set-up runs every time.
// 2. The key: the commands in order, path, mode and content of the key files, versions of node and of the platform, the
//    environment that plan and configuration give (values of the host by hash only).

import { createHash } from "node:crypto";
import { compilePathSet } from "../schemas/globs.ts";
import type { EnvSpec, SetupStep } from "../schemas/task.ts";
import type { Homes, HostEnv } from "./environment.ts";

/** A file of the tree. */
export interface TreeFile {
  path: string;
  mode: string;
  oid: string;
}

export interface SetupInput {
  steps: readonly SetupStep[];
  files: readonly TreeFile[];
  /** In order, as the set-up gets it. */
  specs: readonly EnvSpec[];
  host: HostEnv;
  /** Versions and kinds of what runs here. */
  machine: readonly string[];
}

/** Hex digits; undefined: nothing says when the set-up may be taken for done. */
export function setupKey({ steps, files, specs, host, machine }: SetupInput): string | undefined {
  if (steps.length === 0) return undefined;
  const parts: unknown[] = [];
  for (const step of steps) {
    if (step.key.length === 0) return undefined;
    const { matches } = compilePathSet(step.key);
    const found = files.filter(({ path }) => matches(path));
    if (found.length === 0) return undefined;
    parts.push([step.run, found.map(({ path, mode, oid }) => [path, mode, oid])]);
  }
  const passed = specs.flatMap((spec) => spec.pass.map((name) => [name, host[name] ?? null]));
  const text = JSON.stringify([
    "setup",
    1,
    parts,
    passed,
    specs.map(({ set }) => set),
    host.PATH ?? "",
    machine,
  ]);
  return createHash("sha256").update(text).digest("hex").slice(0, 32);
}

/** Of `git ls-tree -r -z`. */
export function treeFiles(listed: string): TreeFile[] {
  return listed.split("\0").flatMap((entry) => {
    const found = /^(\d+) \w+ ([0-9a-f]+)\t(.+)$/s.exec(entry);
    return found ? [{ mode: found[1] as string, oid: found[2] as string, path: found[3] as string }] : [];
  });
}

/** In a home a set-up may leave the caches of package managers: they only save time. */
const MAY_LEAVE: Partial<Record<keyof Homes, readonly string[]>> = {
  home: [".gitconfig", ".npm"],
  cache: ["npm", "yarn", "pip"],
};

/** What a set-up left outside the tree that later ones would lack; `left`: names in each home. */
export function leftOutside(left: Readonly<Partial<Record<keyof Homes, readonly string[]>>>): string[] {
  return Object.entries(left).flatMap(([home, names]) =>
    names
      .filter((name) => !(MAY_LEAVE[home as keyof Homes] ?? []).includes(name))
      .map((name) => `${home}/${name}`),
  );
}
