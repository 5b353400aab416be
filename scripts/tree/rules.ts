// The tables of check-tree: which folder may import which, where each outside package has its one home, sizes.

/** A folder, or a file, and what of our own it may import beside itself. The longest match counts. */
export const ARROWS: ReadonlyMap<string, readonly string[]> = new Map([
  ["schemas/", []],
  ["bus/paths.ts", ["schemas/"]],
  ["bus/version.ts", []],
  ["bus/config.ts", ["schemas/"]],
  ["bus/git/", ["schemas/"]],
  ["bus/wire/", ["schemas/"]],
  ["bus/client/", ["schemas/", "bus/wire/", "bus/paths.ts"]],
  ["bus/ctl/", ["schemas/", "bus/client/", "bus/git/", "bus/paths.ts", "bus/config.ts", "bus/version.ts"]],
  ["bus/state/", ["schemas/", "bus/paths.ts"]],
  [
    "bus/",
    [
      "schemas/",
      "bus/paths.ts",
      "bus/version.ts",
      "bus/config.ts",
      "bus/git/",
      "bus/wire/",
      "bus/state/",
      "bus/client/",
    ],
  ],
  ["shim/", ["schemas/", "bus/client/", "shim/group.ts", "shim/launch.ts"]],
  // The doctor tries what a shim does with what a shim does it with.
  ["shim/group.ts", ["schemas/", "bus/client/"]],
  ["shim/launch.ts", ["schemas/"]],
  ["scheduler/", ["schemas/", "bus/client/", "bus/git/", "shim/group.ts", "shim/launch.ts"]],
]);

/** Where nothing of the product may point. */
export const OUTSIDE_PRODUCT = ["scripts/", "test/"] as const;
export const PRODUCT = ["schemas/", "bus/", "shim/", "scheduler/"] as const;

/** Each outside package and its home: one file or one folder (benches may measure it as a peer). */
export const PACKAGES: ReadonlyMap<string, readonly string[]> = new Map([
  ["json-rpc-2.0", ["bus/wire/rpc.ts"]],
  ["lowdb", ["bus/state/checkpoint.ts", "bus/state/durable-document.ts", "scripts/bench/"]],
  ["isomorphic-git", ["bus/blob-hash.ts"]],
  [
    "execa",
    [
      "bus/git/",
      "scheduler/launch.ts",
      "scheduler/secret-sources.ts",
      "scheduler/copy-program.ts",
      "scheduler/setup-cache.ts",
    ],
  ],
  ["pidusage", ["scheduler/usage.ts"]],
  ["systeminformation", ["scheduler/machine.ts"]],
  ["yargs", ["bus/ctl/"]],
  ["@secretlint/core", ["scheduler/secret-scan.ts"]],
  ["@secretlint/secretlint-rule-preset-recommend", ["scheduler/secret-scan.ts"]],
  ["zod", ["schemas/"]],
  ["yaml", ["schemas/plan/"]],
  ["fast-check", ["test/"]],
  ["typescript", ["scripts/tree/"]],
  ["esbuild", ["scripts/build.mjs"]],
]);

export const MAX_FILE_LINES = 400;
export const MAX_FUNCTION_LINES = 80;
/** 90 % of all functions are at most this long. */
export const P90_FUNCTION_LINES = 40;
export const TEST_KINDS = ["unit", "contract", "fuzz", "fault", "e2e"] as const;

/** Words that stand for unfinished work or for a test that proves nothing. Written so as not to match themselves. */
export const FORBIDDEN: readonly { pattern: RegExp; why: string }[] = [
  { pattern: /\bTO[D]O\b|\bFIX[M]E\b/, why: "unfinished work belongs into an issue" },
  { pattern: /\b(?:test|it|describe|suite)\.on[l]y\(/, why: "leaves out all other tests" },
  { pattern: /\bassert(?:\.ok)?\((?:tru[e]|1)\)/, why: "an assertion that cannot fail" },
];
