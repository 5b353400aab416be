// The test command: static checks, then all tests in one run of node's runner, then a look for what was left.
//
//   node scripts/test.mjs                      everything
//   node scripts/test.mjs --only unit,fuzz     these folders of test/, without the static checks
//   node scripts/test.mjs --only checks        the static checks alone
//   node scripts/test.mjs test/unit/x.test.ts  these files
//
// Everything the tests make lies below one temporary directory (TMPDIR), so that what is left over, and whose
// it is, can be told. A test that cannot run on a machine prints `LEFT OUT: what (needs PROGRAM)`; such lines are
// collected, and one that names something this machine has is a fault.

import { spawn, spawnSync } from "node:child_process";
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
} from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { delimiter, dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const KINDS = ["unit", "contract", "fuzz", "fault", "e2e"];
/** One test, and one file of tests, may take this long: a bound for hangs, ten times what the slowest takes on a quiet machine. */
const TEST_TIMEOUT_MS = 900_000;
/** What the tests started has this long to be gone after the last test. */
const SETTLE_MS = 5_000;
/** Caches that node and tsx put into TMPDIR; not ours. */
const CACHES = /^(tsx-\d+|node-compile-cache|node-jiti|esbuild-.*)$/;

function parse(args) {
  const options = { kinds: KINDS, files: [], checks: true };
  for (let i = 0; i < args.length; i++) {
    if (args[i] === "--only") {
      options.kinds = (args[++i] ?? "").split(",").filter(Boolean);
      options.checks = options.kinds.includes("checks");
      options.kinds = options.kinds.filter((kind) => kind !== "checks");
      const unknown = options.kinds.filter((kind) => !KINDS.includes(kind));
      if (unknown.length > 0) usage(`--only takes ${KINDS.join(", ")} and checks, not ${unknown.join(", ")}`);
      if (options.kinds.length === 0 && !options.checks) usage("--only needs a kind");
    } else if (args[i].startsWith("-")) usage(`unknown option ${args[i]}`);
    else options.files.push(args[i]);
  }
  if (options.files.length > 0) options.checks = false;
  return options;
}

function usage(message) {
  console.error(`${message}\nusage: node scripts/test.mjs [--only KIND,KIND] [FILE ...]`);
  process.exit(2);
}

// --- static checks -------------------------------------------------------------------------------

const bin = (name) => join(ROOT, "node_modules", ".bin", name);
const CHECKS = [
  { name: "tree", command: [bin("tsx"), "scripts/check-tree.ts"] },
  { name: "types", command: [bin("tsc"), "--noEmit", "-p", "."] },
  { name: "style", command: [bin("biome"), "check", "--error-on-warnings", "--colors=off", "."] },
  { name: "unused", command: [bin("knip"), "--no-config-hints"] },
  {
    name: "schemas",
    file: "scripts/generate-schemas.ts",
    command: [bin("tsx"), "scripts/generate-schemas.ts", "--check"],
  },
  {
    name: "documents",
    file: "scripts/generate-docs.ts",
    command: [bin("tsx"), "scripts/generate-docs.ts", "--check"],
  },
];

/** Names of the checks that failed. */
function staticChecks() {
  const red = [];
  for (const check of CHECKS) {
    if (check.file && !existsSync(join(ROOT, check.file))) continue;
    const started = performance.now();
    const [program, ...args] = check.command;
    const result = spawnSync(program, args, { cwd: ROOT, encoding: "utf8", maxBuffer: 64 * 1024 * 1024 });
    const green = result.status === 0;
    console.log(
      `check ${check.name}: ${green ? "ok" : "FAILED"} (${((performance.now() - started) / 1000).toFixed(1)} s)`,
    );
    if (green) continue;
    console.log(`${result.stdout ?? ""}${result.stderr ?? ""}${result.error ?? ""}`.trimEnd());
    red.push(`check ${check.name}`);
  }
  return red;
}

// --- tests ---------------------------------------------------------------------------------------

function testFiles(options) {
  if (options.files.length > 0) return options.files.map((file) => resolve(file));
  return options.kinds.flatMap((kind) => {
    const folder = join(ROOT, "test", kind);
    if (!existsSync(folder)) return [];
    return readdirSync(folder)
      .filter((name) => name.endsWith(".test.ts"))
      .sort()
      .map((name) => join("test", kind, name));
  });
}

/** Runs the files; gives the closing lines of node's runner, what was left out, and the exit code. */
async function runTests(files, temp) {
  const tap = join(temp, "tap");
  const args = [
    "--import",
    "tsx",
    "--test",
    `--test-concurrency=${Math.max(1, Math.min(4, availableParallelism()))}`,
    `--test-timeout=${TEST_TIMEOUT_MS}`,
    "--test-reporter=spec",
    "--test-reporter-destination=stdout",
    "--test-reporter=tap",
    `--test-reporter-destination=${tap}`,
    ...files,
  ];
  const env = { ...process.env, TMPDIR: temp, NODE_ENV: "test" };
  // Inherited settings of a person's own busbar must not reach the tests,
  // and neither must the mark of another test runner around this one: ours would then run nothing.
  for (const name of Object.keys(env))
    if (name.startsWith("BUSBAR_") || name === "NODE_TEST_CONTEXT") delete env[name];
  const child = spawn(process.execPath, args, { cwd: ROOT, env, stdio: ["ignore", "pipe", "inherit"] });
  const leftOut = new Set();
  const lines = createInterface({ input: child.stdout });
  lines.on("line", (line) => {
    const found = /LEFT OUT: (.*)/.exec(line);
    if (found) leftOut.add(found[1].trim());
    console.log(line);
  });
  const code = await new Promise((resolve) => child.on("close", (exit, signal) => resolve(exit ?? signal)));
  const text = existsSync(tap) ? readFileSync(tap, "utf8") : "";
  rmSync(tap, { force: true });
  const closing = text
    .split("\n")
    .filter((line) => /^# (tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) /.test(line));
  // A file without any test stands in the list by its own name, as one that passed.
  const empty = [...text.matchAll(/^ok \d+ - (\S+\.test\.ts)$/gm)].map(([, file]) => file);
  return { closing: closing.slice(-8), leftOut: [...leftOut].sort(), empty, code };
}

/** The number on the closing line `# name N`. */
function count(closing, name) {
  const line = closing.find((l) => l.startsWith(`# ${name} `));
  return line ? Number(line.split(" ")[2]) : 0;
}

// --- what is left --------------------------------------------------------------------------------

function readText(path) {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

function linkOf(path) {
  try {
    return readlinkSync(path);
  } catch {
    return "";
  }
}

/** Processes that stem from this run: they name its temporary directory in their command, environment or cwd. */
function survivors(temp) {
  if (!existsSync("/proc/self/stat")) return [];
  const found = [];
  for (const pid of readdirSync("/proc").filter(
    (name) => /^\d+$/.test(name) && Number(name) !== process.pid,
  )) {
    const state = readText(`/proc/${pid}/stat`).split(") ")[1]?.[0];
    if (!state || state === "Z" || state === "X") continue;
    const command = readText(`/proc/${pid}/cmdline`).replaceAll("\0", " ").trim();
    const cwd = linkOf(`/proc/${pid}/cwd`);
    if (`${command}\n${cwd}`.includes(temp) || readText(`/proc/${pid}/environ`).includes(temp))
      found.push({ pid: Number(pid), command: command.slice(0, 200) });
  }
  return found;
}

/** Faults: processes that go on and files that were not removed. What is found is ended and removed. */
async function leftovers(temp) {
  const end = performance.now() + SETTLE_MS;
  while (survivors(temp).length > 0 && performance.now() < end) await new Promise((r) => setTimeout(r, 50));
  const faults = [];
  for (const { pid, command } of survivors(temp)) {
    faults.push(`a process was left: ${pid} ${command}`);
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // it ended meanwhile
    }
  }
  for (const name of readdirSync(temp))
    if (!CACHES.test(name)) faults.push(`a temporary file was left: ${name}`);
  return faults;
}

function onPath(program) {
  return (process.env.PATH ?? "")
    .split(delimiter)
    .some((folder) => folder && existsSync(join(folder, program)));
}

/** Left-out lines whose reason does not hold here: `(needs jq)` where jq is on PATH. */
function badExcuses(leftOut) {
  return leftOut.flatMap((line) => {
    const need = /\(needs ([\w.+-]+)/.exec(line)?.[1];
    if (!need) return [`left out without naming what it needs: ${line}`];
    const here = need === "root" ? process.getuid?.() === 0 : onPath(need);
    return here ? [`left out although ${need} is here: ${line}`] : [];
  });
}

// --- all of it -----------------------------------------------------------------------------------

async function main() {
  const options = parse(process.argv.slice(2));
  const faults = options.checks ? staticChecks() : [];
  let closing = [];
  if (options.kinds.length > 0 || options.files.length > 0) {
    const files = testFiles(options);
    if (files.length === 0) faults.push("no test files");
    else {
      const temp = realpathSync(mkdtempSync(join(tmpdir(), "bb-")));
      process.on("exit", () => rmSync(temp, { recursive: true, force: true, maxRetries: 3 }));
      const result = await runTests(files, temp);
      closing = result.closing;
      if (result.code !== 0) faults.push(`tests failed (exit ${result.code})`);
      for (const file of result.empty) faults.push(`no test in ${file}`);
      if (count(closing, "tests") === 0) faults.push("not one test ran");
      if (count(closing, "skipped") + count(closing, "todo") > 0 && result.leftOut.length === 0)
        faults.push("tests were skipped without a LEFT OUT line that says why");
      faults.push(...(await leftovers(temp)), ...badExcuses(result.leftOut));
      console.log(
        result.leftOut.length > 0 ? `\nLeft out (${result.leftOut.length}):` : "\nNothing was left out.",
      );
      for (const line of result.leftOut) console.log(`  ${line}`);
    }
  }
  if (closing.length > 0) console.log(`\n${closing.join("\n")}`);
  for (const fault of faults) console.log(`FAULT: ${fault}`);
  console.log(faults.length > 0 ? `\nnpm test: ${faults.length} fault(s)` : "\nnpm test: all green");
  process.exitCode = faults.length > 0 ? 1 : 0;
}

await main();
