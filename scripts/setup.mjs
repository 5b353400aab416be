// Makes a fresh clone ready: checks Node and git, installs what is missing, builds what is stale.
// Only Node's own modules: it runs before anything is installed.
//
//   node scripts/setup.mjs            install and build as needed
//   node scripts/setup.mjs --deps     install only
//   node scripts/setup.mjs --prepare  npm's `prepare`: build only, where the compiler is there
//
// Two at once do not clash: the first holds `.setup.lock`, the second waits for it.

import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { sourceHash } from "./source-hash.mjs";

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const LOCK = join(ROOT, ".setup.lock");
/** A set-up that takes longer is stuck; npm itself gives up on a dead network before that. */
const LOCK_WAIT_MS = 15 * 60_000;
const NODE_MIN = [20, 19];
const GIT_MIN = [2, 38];
/** npm runs our `prepare` inside `npm ci`; this tells it that the build comes later. */
const INSIDE = "BUSBAR_SETUP";

function fail(...lines) {
  for (const line of lines) console.error(line);
  process.exit(1);
}

/** True when version `a` is at least `b`, both as [major, minor]. */
function atLeast(a, b) {
  return a[0] > b[0] || (a[0] === b[0] && a[1] >= b[1]);
}

function checkTools() {
  const node = process.versions.node.split(".").map(Number);
  if (!atLeast(node, NODE_MIN))
    fail(`busbar needs Node ${NODE_MIN.join(".")} or newer; this is ${process.versions.node}.`);
  const git = spawnSync("git", ["--version"], { encoding: "utf8" });
  if (git.error)
    fail("busbar needs git, and there is none on PATH. Install it (Debian: apt-get install git).");
  const version = /(\d+)\.(\d+)/.exec(git.stdout ?? "");
  if (!version || !atLeast([Number(version[1]), Number(version[2])], GIT_MIN))
    fail(
      `busbar needs git ${GIT_MIN.join(".")} or newer; this is ${(git.stdout ?? "").trim() || "unknown"}.`,
    );
}

/** What npm says it installed, by path: version. Undefined when there is no complete installation. */
function packagesOf(file) {
  try {
    return new Map(Object.entries(JSON.parse(readFileSync(file, "utf8")).packages));
  } catch {
    return undefined;
  }
}

/** True when node_modules holds what package-lock.json asks for. npm writes its own record at the end of an install. */
function installed() {
  const wanted = packagesOf(join(ROOT, "package-lock.json"));
  const have = packagesOf(join(ROOT, "node_modules", ".package-lock.json"));
  if (!wanted || !have) return false;
  for (const [path, entry] of wanted) {
    if (path === "") continue;
    const there = have.get(path);
    if (!there && (entry.optional || entry.devOptional)) continue;
    if (!there || there.version !== entry.version || there.integrity !== entry.integrity) return false;
  }
  return true;
}

function run(what, command, args, env = {}) {
  const result = spawnSync(command, args, {
    cwd: ROOT,
    env: { ...process.env, ...env },
    encoding: "utf8",
    maxBuffer: 64 * 1024 * 1024,
    stdio: ["ignore", "pipe", "pipe"],
  });
  if (result.error) fail(`${what}: cannot start ${command}: ${result.error.code ?? result.error.message}`);
  if (result.status !== 0)
    fail(
      result.stdout.trimEnd(),
      result.stderr.trimEnd(),
      `${what} failed (exit ${result.status ?? result.signal}).`,
    );
  return result;
}

function install() {
  if (installed()) return;
  console.error("Installing dependencies (npm ci) ...");
  run("Installing dependencies", "npm", ["ci", "--no-fund", "--no-audit", "--include=dev"], {
    [INSIDE]: "1",
  });
}

function build() {
  const stamp = join(ROOT, "dist", ".stamp");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === sourceHash(ROOT)) return;
  console.error("Building ...");
  const result = run("Building", process.execPath, [join(ROOT, "scripts", "build.mjs")]);
  process.stderr.write(result.stdout);
}

/** When process `pid` started, so that a reused pid is not taken for the holder; "" where /proc is not there. */
function startTime(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? "";
  } catch {
    return "";
  }
}

/** True when the process that wrote the lock is still there. */
function holderLives(text) {
  const [pid, started] = text.split(" ");
  if (!pid) return true; // just created, not yet written
  try {
    process.kill(Number(pid), 0);
  } catch (error) {
    if (error.code === "ESRCH") return false;
  }
  return startTime(Number(pid)) === started;
}

function lockText() {
  try {
    return readFileSync(LOCK, "utf8");
  } catch {
    return undefined;
  }
}

function takeLock() {
  const pause = new Int32Array(new SharedArrayBuffer(4));
  const end = Date.now() + LOCK_WAIT_MS;
  for (let said = false; ; ) {
    try {
      writeFileSync(LOCK, `${process.pid} ${startTime(process.pid)}`, { flag: "wx" });
      return;
    } catch (error) {
      if (error.code !== "EEXIST") fail(`Taking ${LOCK}: ${error.code}`);
    }
    const text = lockText();
    if (text !== undefined && !holderLives(text)) {
      // Moved away under a name of our own first: of two that see a dead holder only one wins the rename.
      const grave = `${LOCK}.${process.pid}`;
      try {
        renameSync(LOCK, grave);
        rmSync(grave, { force: true });
      } catch {
        // the other was faster
      }
      continue;
    }
    if (!said) console.error(`Another set-up runs here (pid ${text?.split(" ")[0] ?? "?"}); waiting for it.`);
    said = true;
    if (Date.now() > end)
      fail(`Waited ${LOCK_WAIT_MS / 60_000} minutes for ${LOCK}; remove it if nothing runs.`);
    Atomics.wait(pause, 0, 0, 100);
  }
}

function main(mode) {
  if (mode === "--prepare" && (process.env[INSIDE] || !existsSync(join(ROOT, "node_modules", "typescript"))))
    return;
  checkTools();
  takeLock();
  process.on("exit", () => rmSync(LOCK, { force: true }));
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => process.exit(130));
  if (mode !== "--prepare") install();
  if (mode !== "--deps") build();
}

main(process.argv[2]);
