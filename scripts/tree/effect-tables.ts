// The tables of the check of fault points (effects.ts): what is looked at, what counts as an effect, what does not.

export const CHECKED = ["bus/", "shim/", "scheduler/"] as const;
/**
 * busctl keeps no state: what it does is one call that the bus records, or the start of a program, and killing it there
 * is killing nothing else. fault.ts is the killer itself.
 */
export const NOT_CHECKED = ["bus/ctl/", "bus/client/fault.ts"] as const;

/** What is imported from here has an effect, unless NO_EFFECT names it. */
export const EFFECT_MODULES: ReadonlySet<string> = new Set([
  "node:fs",
  "node:fs/promises",
  "node:child_process",
  "execa",
]);

export const NO_EFFECT: ReadonlySet<string> = new Set([
  "access",
  "accessSync",
  "closeSync",
  "existsSync",
  "fstatSync",
  "lstat",
  "lstatSync",
  "opendir",
  "opendirSync",
  "readFile",
  "readFileSync",
  "readSync",
  "readdir",
  "readdirSync",
  "readlink",
  "readlinkSync",
  "realpathSync",
  "stat",
  "statSync",
  "statfs",
  "statfsSync",
]);

/** Of the state's disk and its files (bus/state/disk.ts). */
export const DISK_METHODS: ReadonlySet<string> = new Set([
  "open",
  "mkdir",
  "rename",
  "unlink",
  "truncate",
  "writeNow",
  "datasync",
  "sync",
  "syncDir",
]);

/** Functions that take git's words; the first argument or the second. */
export const GIT_CALLS: ReadonlySet<string> = new Set([
  "git",
  "gitLine",
  "controlGit",
  "placeGit",
  "repoGit",
]);

/** First words of git that only read, each with further words that make it write. */
export const GIT_READS: ReadonlyMap<string, readonly string[]> = new Map([
  ["cat-file", []],
  ["config", ["--add", "--unset", "--replace-all"]],
  ["diff-files", []],
  ["diff-tree", []],
  ["for-each-ref", []],
  ["hash-object", ["-w", "?"]],
  ["log", []],
  ["check-ignore", []],
  ["ls-files", []],
  ["ls-tree", []],
  ["merge-base", []],
  ["rev-list", []],
  ["rev-parse", []],
  ["show", []],
  ["status", []],
  ["symbolic-ref", ["-d"]],
  ["version", []],
  ["worktree", ["add", "prune", "remove"]],
]);

/** Our own functions whose effects stand at their callers, and where they are. */
export const DOORS: ReadonlyMap<string, readonly string[]> = new Map([
  ["writeDurably", ["bus/paths.ts", "shim/outbox.ts"]],
  ["writeAll", ["bus/state/disk.ts"]],
  ["writeAllNow", ["bus/state/disk.ts"]],
  ["writeWhole", ["bus/state/disk.ts"]],
]);

export interface Exception {
  file: string;
  /** Only in the function or constant of this name at the top of the file. */
  within?: string;
  effects: readonly string[];
  why: string;
}

/** Effects that need no point, each with the reason. */
export const EXCEPTIONS: readonly Exception[] = [
  {
    file: "bus/busd.ts",
    within: "openLog",
    effects: ["renameSync", "appendFileSync"],
    why: "words for people",
  },
  {
    file: "scheduler/log-file.ts",
    effects: ["mkdirSync", "renameSync", "appendFileSync"],
    why: "words for people",
  },
  { file: "bus/cat-file.ts", effects: ["spawn"], why: "git cat-file, which reads" },
  { file: "bus/manifests.ts", effects: ["spawn"], why: "git ls-tree, which reads" },
  { file: "bus/client/find.ts", effects: ["spawn"], why: "asks for the lock and lets go of it" },
  { file: "bus/client/client.ts", effects: ["call of any method"], why: "the caller names the method" },
  { file: "bus/client/session.ts", effects: ["call of any method"], why: "the caller names the method" },
  { file: "bus/dispatch.ts", effects: ["call of any method"], why: "the bus itself, asked from outside" },
  {
    file: "shim/call.ts",
    effects: ["call of any method"],
    why: "an agent's own call; this program holds nothing",
  },
  {
    file: "scheduler/place-git.ts",
    effects: ["git ?"],
    why: "a door to git, as run.ts",
  },
  {
    file: "bus/git/run.ts",
    effects: ["execa", "process.kill", "git ?"],
    why: "the door to git: its words, and so its point, are the caller's",
  },
  { file: "scheduler/control.ts", effects: ["git ?"], why: "two doors to git: the words are the caller's" },
  {
    file: "bus/state/disk.ts",
    within: "systemDisk",
    effects: ["open", "writeSync", "mkdir", "sync", "rename as a value", "unlink as a value"],
    why: "the disk itself: its methods are effects at their callers",
  },
  {
    file: "bus/state/disk.ts",
    within: "writeAllNow",
    effects: ["writeNow"],
    why: "a short write that goes on: one effect of the caller",
  },
  {
    file: "shim/log.ts",
    effects: ["writeSync as a value"],
    why: "a test lets it fail; its one caller has a point",
  },
];
