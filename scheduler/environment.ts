// The environment of agents and checks (W4, W7). Pure: what is not named here does not get in.
//
// 1. From the host: PATH (reduced, below), USER, LOGNAME, TZ, and the locale when it is UTF-8 (else C.UTF-8).
// 2. Own directories: HOME, TMPDIR, XDG_*, and the caches of npm, yarn and pip.
// 3. BUSBAR_* facts of the attempt, and PORT: a number that no other attempt or check has at the same time.
// 4. Then `env` of the configuration, of the agent profile and of the task, later ones winning: `pass` by name from
//    where the scheduler runs, then `set`, then `secrets` by their sources (secret-sources.ts).
// 5. Never, not even by `pass` or `set`: the variables that bind git to another repository (case 18 git-env-leak).
//    Everything else that could change what a program does (PYTHONPATH, NODE_OPTIONS, LD_PRELOAD, GIT_*, npm_*, CI
//    tokens ...) is absent because it is not named.
//
// PATH keeps the host's absolute entries in their order, without those inside the repository, the state directory or
// any node_modules/.bin: what an agent wrote there must never run as a gate's tool (case 44 gate-tampering).

import { delimiter, isAbsolute, normalize, sep } from "node:path";
import type { EnvSpec } from "../schemas/task.ts";

export type HostEnv = Readonly<Record<string, string | undefined>>;

/** Own directories of one attempt or check; all exist. */
export interface Homes {
  home: string;
  tmp: string;
  cache: string;
  config: string;
  data: string;
  state: string;
}

export interface EnvironmentInput {
  host: HostEnv;
  homes: Homes;
  /** Directories in front of PATH: the one that holds `busbar-call`. */
  binFirst: readonly string[];
  /** Directories that PATH gets at its end if it lacks them: those of node and git. */
  binLast: readonly string[];
  /** No PATH entry from below these. */
  notBelow: readonly string[];
  /** git never looks for a repository in or above this directory. */
  ceiling: string;
  port: number;
  /** BUSBAR_RUN, BUSBAR_TASK_ID, ... */
  facts: Readonly<Record<string, string>>;
  /** In order; later ones win. */
  specs: readonly EnvSpec[];
  /** The values of all sources in `specs`; a name whose source is missing here is left out. */
  sources: SecretValues;
}

/** By source, e.g. `env:NAME`. */
export type SecretValues = ReadonlyMap<string, string>;

export interface Environment {
  env: Record<string, string>;
  /** Values that the shim redacts, longest first. */
  secrets: Secret[];
}

export interface Secret {
  name: string;
  value: string;
}

/** `git rev-parse --local-env-vars`, and what else points git at other data. */
const BINDS_GIT: ReadonlySet<string> = new Set([
  "GIT_ALTERNATE_OBJECT_DIRECTORIES",
  "GIT_CONFIG",
  "GIT_CONFIG_PARAMETERS",
  "GIT_CONFIG_COUNT",
  "GIT_OBJECT_DIRECTORY",
  "GIT_DIR",
  "GIT_WORK_TREE",
  "GIT_IMPLICIT_WORK_TREE",
  "GIT_GRAFT_FILE",
  "GIT_INDEX_FILE",
  "GIT_NO_REPLACE_OBJECTS",
  "GIT_REPLACE_REF_BASE",
  "GIT_PREFIX",
  "GIT_SHALLOW_FILE",
  "GIT_COMMON_DIR",
  "GIT_INTERNAL_SUPER_PREFIX",
  "GIT_NAMESPACE",
]);
const LOOKS_SECRET = /KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL/i;
/** A guessed secret shorter than this would blot out ordinary words; one that is declared may be shorter. */
const MIN_GUESSED_SECRET_CHARS = 8;
const MIN_DECLARED_SECRET_CHARS = 3;

export function environmentOf(input: EnvironmentInput): Environment {
  const injected = injectedBy(input);
  const env: Record<string, string> = { ...base(input), ...input.facts, ...Object.fromEntries(injected) };
  return { env, secrets: secretsIn(input) };
}

type Injected = Pick<EnvironmentInput, "host" | "specs" | "sources">;

/** Step 4. Names that bind git are left out. */
function injectedBy({ host, specs, sources }: Injected): Map<string, string> {
  const injected = new Map<string, string>();
  const give = (name: string, value: string | undefined) => {
    if (value !== undefined && !BINDS_GIT.has(name)) injected.set(name, value);
  };
  for (const spec of specs) {
    for (const name of spec.pass) give(name, host[name]);
    for (const [name, value] of Object.entries(spec.set)) give(name, value);
    for (const [name, source] of Object.entries(spec.secrets ?? {})) give(name, sources.get(source));
  }
  return injected;
}

/** The secrets that a process is given, longest value first. */
export function secretsIn(given: Injected): Secret[] {
  const declared = new Set(
    given.specs.flatMap((spec) => [...spec.secret, ...Object.keys(spec.secrets ?? {})]),
  );
  const secrets: Secret[] = [];
  for (const [name, value] of injectedBy(given)) {
    const least = declared.has(name)
      ? MIN_DECLARED_SECRET_CHARS
      : LOOKS_SECRET.test(name)
        ? MIN_GUESSED_SECRET_CHARS
        : Number.POSITIVE_INFINITY;
    if (value.length >= least) secrets.push({ name, value });
  }
  return secrets.sort((a, b) => b.value.length - a.value.length);
}

function base(input: EnvironmentInput): Record<string, string> {
  const { host, homes } = input;
  const locale = utf8Locale(host);
  const kept: Record<string, string> = {};
  for (const name of ["USER", "LOGNAME", "TZ"]) {
    const value = host[name];
    if (value !== undefined && value !== "") kept[name] = value;
  }
  return {
    ...kept,
    PATH: programDirs(input).join(delimiter),
    LANG: locale,
    LC_ALL: locale,
    SHELL: "/bin/sh",
    TERM: "dumb",
    HOME: homes.home,
    TMPDIR: homes.tmp,
    XDG_CACHE_HOME: homes.cache,
    XDG_CONFIG_HOME: homes.config,
    XDG_DATA_HOME: homes.data,
    XDG_STATE_HOME: homes.state,
    npm_config_cache: `${homes.cache}/npm`,
    npm_config_update_notifier: "false",
    YARN_CACHE_FOLDER: `${homes.cache}/yarn`,
    PIP_CACHE_DIR: `${homes.cache}/pip`,
    GIT_CEILING_DIRECTORIES: input.ceiling,
    GIT_TERMINAL_PROMPT: "0",
    PORT: String(input.port),
  };
}

/** The user's own locale when it is UTF-8, else C.UTF-8. */
function utf8Locale(host: HostEnv): string {
  const own = host.LC_ALL || host.LC_CTYPE || host.LANG || "";
  return /utf-?8/i.test(own) ? own : "C.UTF-8";
}

const STANDARD_PATH = ["/usr/local/bin", "/usr/bin", "/bin"];

/** The directories of PATH, as agents and checks get it. */
export function programDirs(
  input: Pick<EnvironmentInput, "host" | "binFirst" | "binLast" | "notBelow">,
): string[] {
  const own = (input.host.PATH ?? "").split(delimiter).filter((entry) => keepsEntry(entry, input.notBelow));
  const entries = [...input.binFirst, ...own, ...input.binLast, ...STANDARD_PATH];
  return [...new Set(entries)];
}

function keepsEntry(entry: string, notBelow: readonly string[]): boolean {
  if (!isAbsolute(entry)) return false;
  const dir = normalize(entry).replace(/\/+$/, "") || "/";
  if (dir.endsWith(`${sep}node_modules${sep}.bin`)) return false;
  return !notBelow.some((top) => dir === top || dir.startsWith(top.endsWith(sep) ? top : `${top}${sep}`));
}

/** What a shim itself is started with: enough for node to run, nothing that makes it slow or big. */
export function shimEnvironment(host: HostEnv): Record<string, string> {
  const env: Record<string, string> = { PATH: host.PATH ?? STANDARD_PATH.join(delimiter), LC_ALL: "C.UTF-8" };
  if (host.TZ) env.TZ = host.TZ;
  if (host.HOME) env.HOME = host.HOME;
  return env;
}
