// Which paths a sandbox needs so that the programs of PATH work inside, where they lie outside of the system's directories:
// nvm, pyenv, cargo, Homebrew, ~/.local and the like. They are there read-only, and as little as will do: the directory on
// PATH, the parts beside it that programs are made of, and what its links lead to. Never a home or what lies above it, and
// nothing by a name under which credentials are kept.
//
// Pure but for what `Files` answers.

import { basename, dirname } from "node:path";
import { isBelow } from "./sandbox.ts";

export interface Files {
  /** The path without links; undefined where there is nothing. */
  real(path: string): string | undefined;
  exists(path: string): boolean;
  /** Names of the links in a directory. */
  links(dir: string): string[];
}

const BIN_NAMES: ReadonlySet<string> = new Set(["bin", "sbin", "shims", "libexec"]);
/** What programs are made of, beside their `bin`. */
const PARTS = (
  "bin sbin shims lib lib32 lib64 libexec include share jre versions version plugins pyenv.d rbenv.d completions " +
  "installs toolchains Cellar Caskroom opt Frameworks"
).split(" ");
/** Directories that are no tool's own: people keep more there than programs. */
const SHARED_PREFIXES: ReadonlySet<string> = new Set([".local"]);
const SHARED_PARTS = ["bin", "lib"];
const NEVER =
  /(^|\/)(\.ssh|\.gnupg|\.aws|\.azure|\.kube|\.docker|\.config|\.netrc|\.npmrc|\.pypirc|\.git-credentials|\.password-store|\.mozilla|keyrings|credentials(\.\w+)?)(\/|$)/;
/** Every one is a mount in every sandbox. */
export const MAX_TOOL_PATHS = 120;

/** `seen`: tops that are inside anyhow. Parents come before what lies below them, which is left out then. */
export function toolPaths(
  dirs: readonly string[],
  { seen, home, files }: { seen: readonly string[]; home: string; files: Files },
): string[] {
  const found: string[] = [];
  const isThere = (path: string) => [...seen, ...found].some((top) => path === top || isBelow(path, top));
  const add = (path: string) => {
    const isHome = path === home || isBelow(home, path);
    if (isHome || path === "/" || NEVER.test(path) || isThere(path) || !files.exists(path)) return;
    if (found.length < MAX_TOOL_PATHS) found.push(path);
  };
  const addProgramDir = (dir: string) => {
    add(dir);
    if (!BIN_NAMES.has(basename(dir)) || isThere(dirname(dir))) return;
    const prefix = dirname(dir);
    if (prefix === home || isBelow(home, prefix)) return;
    const parts = SHARED_PREFIXES.has(basename(prefix)) ? SHARED_PARTS : PARTS;
    for (const part of parts) add(`${prefix}/${part}`);
  };
  for (const dir of new Set(dirs)) {
    const real = files.real(dir);
    if (real === undefined) continue;
    addProgramDir(real);
    if (real !== dir) add(dir);
    for (const name of files.links(real)) {
      const target = files.real(`${real}/${name}`);
      if (target !== undefined && !isThere(target)) addTarget(target, add, addProgramDir, home);
    }
  }
  return found.filter((path) => !found.some((top) => isBelow(path, top)));
}

/** What a link on PATH leads to, with what belongs to it. */
function addTarget(
  target: string,
  add: (path: string) => void,
  addProgramDir: (dir: string) => void,
  home: string,
): void {
  const modules = /^.*?\/node_modules(?=\/)/.exec(target)?.[0];
  const dir = dirname(target);
  if (modules !== undefined) add(modules);
  else if (BIN_NAMES.has(basename(dir))) addProgramDir(dir);
  else if (dir === home || isBelow(home, dir)) add(target);
  else add(dir);
}
