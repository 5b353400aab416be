// `busctl` is also the name of systemd's D-Bus tool. When somebody calls ours with one of its verbs and that
// tool is installed, ours hands over to it: same arguments, same standard streams, same end.
//
// 1. The verb is the first word that is not an option (nor the value of one).
// 2. The other tool is the first executable `busctl` on PATH, then /usr/bin/busctl, that is not busbar's.
// 3. Signals go on to it; our exit code or signal is its exit code or signal.

import { spawn } from "node:child_process";
import { accessSync, constants, realpathSync, statSync } from "node:fs";
import { constants as os } from "node:os";
import { delimiter, join } from "node:path";

/** Verbs of systemd's busctl; none of ours may ever be among them. */
export const SYSTEMD_VERBS: ReadonlySet<string> = new Set([
  "list",
  "status",
  "monitor",
  "capture",
  "tree",
  "introspect",
  "call",
  "emit",
  "get-property",
  "set-property",
  "wait",
]);

/** Our verb that comes closest to what was asked. */
export const NEAREST_OF_OURS: ReadonlyMap<string, string> = new Map([
  ["monitor", "tasks --follow"],
  ["capture", "tasks --audit --follow --json"],
  ["wait", "tasks --follow"],
]);

/** Options, ours and theirs, whose value is a word of its own. */
const WITH_VALUE: ReadonlySet<string> = new Set([
  "--repo",
  "--address",
  "--host",
  "-H",
  "--machine",
  "-M",
  "--capsule",
  "-C",
  "--match",
  "--timeout",
  "--limit-messages",
  "-N",
  "--size",
]);

/** The verb on a command line; undefined when there is none. */
export function verbOf(argv: readonly string[]): string | undefined {
  for (let i = 0; i < argv.length; i++) {
    const word = argv[i] ?? "";
    if (word === "--") return argv[i + 1];
    if (WITH_VALUE.has(word)) i += 1;
    else if (!word.startsWith("-")) return word;
  }
  return undefined;
}

/** The other tool's path, if it is installed. `self` is the real path of our own program. */
export function findSystemTool(path: string | undefined, self: string): string | undefined {
  const places = (path ?? "").split(delimiter).filter((dir) => dir.startsWith("/"));
  for (const candidate of [...places.map((dir) => join(dir, "busctl")), "/usr/bin/busctl"]) {
    const real = executable(candidate);
    if (real && real !== self && !isBusbar(real)) return candidate;
  }
  return undefined;
}

function executable(path: string): string | undefined {
  try {
    accessSync(path, constants.X_OK);
    const real = realpathSync(path);
    return statSync(real).isFile() ? real : undefined;
  } catch {
    return undefined;
  }
}

/** Another installation of busbar: handing over to it would go round in a circle. */
function isBusbar(real: string): boolean {
  return /\/bus\/ctl\/main\.[cm]?[jt]s$/.test(real);
}

const PASSED_ON = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"] as const;

/** Runs the tool in our place; fulfilled with the exit code, 128 + n after a signal. */
export function handOver(tool: string, argv: readonly string[]): Promise<number> {
  return new Promise((resolve) => {
    const child = spawn(tool, argv, { stdio: "inherit" });
    const handlers = PASSED_ON.map((signal) => {
      const pass = () => child.kill(signal);
      process.on(signal, pass);
      return () => process.off(signal, pass);
    });
    child.on("error", (error) => {
      process.stderr.write(`busctl: starting ${tool}: ${error.message}\n`);
      resolve(127);
    });
    child.on("exit", (code, signal) => {
      for (const off of handlers) off();
      if (signal === null) return resolve(code ?? 0);
      // End the way it ended, so that a calling shell sees the signal itself.
      process.kill(process.pid, signal);
      setTimeout(() => resolve(128 + os.signals[signal]), 200);
    });
  });
}
