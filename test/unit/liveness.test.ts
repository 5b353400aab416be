// The three answers about a process, from a kernel that says what each row wants.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { test } from "node:test";
import { identityOf, type Kernel, liveness, probe } from "../../scheduler/liveness.ts";
import { until } from "../helpers/wait.ts";

const BOOT = "11111111-2222-3333-4444-555555555555";
const OTHER = BOOT.replaceAll("1", "9");
const stat = (state: string, start: number) => `7 (a b) c) ${state} 1 7 7 ${"0 ".repeat(15)}${start} 0 0 0`;
const errno = (code: string) => Object.assign(new Error(code), { code });

/** Text, or the code of an error. */
function kernel(facts: { stat: string; boot?: string; ns?: string; signal?: string }): Kernel {
  const answer = (text: string) => {
    if (/^E[A-Z]+$/.test(text)) throw errno(text);
    return text;
  };
  return {
    read: (path) => answer(path.endsWith("boot_id") ? `${facts.boot ?? BOOT}` : facts.stat),
    link: () => `pid:[${answer(facts.ns ?? "42")}]`,
    signal0: () => void answer(facts.signal ?? "ESRCH"),
  };
}

const ROWS: [string, Parameters<typeof kernel>[0], string, string][] = [
  ["the same process", { stat: stat("S", 500) }, `${BOOT}:500:42`, "alive"],
  ["an older pid file without namespace", { stat: stat("S", 500) }, `${BOOT}:500`, "alive"],
  ["stopped", { stat: stat("T", 500) }, `${BOOT}:500:42`, "alive, stopped"],
  ["a zombie", { stat: stat("Z", 500) }, `${BOOT}:500:42`, "dead"],
  ["the number is another's", { stat: stat("S", 501) }, `${BOOT}:500:42`, "dead"],
  ["the machine was started anew", { stat: stat("S", 500) }, `${OTHER}:500:42`, "dead"],
  ["nobody there", { stat: "ENOENT" }, `${BOOT}:500:42`, "dead"],
  ["gone while it was read", { stat: "ESRCH" }, `${BOOT}:500:42`, "dead"],
  ["hidden, of another user", { stat: "ENOENT", signal: "EPERM" }, `${BOOT}:500:42`, "dead"],
  ["hidden, and a signal reaches it", { stat: "ENOENT", signal: "ok" }, `${BOOT}:500:42`, "unknown: hides"],
  ["stat may not be read", { stat: "EACCES" }, `${BOOT}:500:42`, "unknown: EACCES"],
  ["stat is no stat", { stat: "7 (x" }, `${BOOT}:500:42`, "unknown: EPROTO"],
  ["no boot id", { stat: stat("S", 500), boot: "EACCES" }, `${BOOT}:500:42`, "unknown: boot id"],
  ["its start was unreadable", { stat: stat("S", 500) }, `${BOOT}:0:42`, "unknown: start time"],
  ["its boot was unreadable", { stat: stat("S", 500) }, "unknown:500:42", "unknown: start time"],
  ["another PID namespace", { stat: stat("S", 500), ns: "43" }, `${BOOT}:500:42`, "unknown: namespace"],
];
for (const [what, facts, start_time, expected] of ROWS)
  test(`case 62 stale-socket-and-pid-reuse: ${what}: ${expected}`, () => {
    const found = probe({ pid: 7, start_time }, kernel(facts));
    const [kind, words = ""] = expected.split(": ");
    if (found.kind === "unknown")
      assert.match(`${found.kind}: ${found.why}`, new RegExp(`^${kind}: .*${words}`));
    else assert.equal(found.kind === "alive" && found.stopped ? "alive, stopped" : found.kind, expected);
  });

test("a real process: alive, then dead; its number with another start time is not it", async (t) => {
  const child = spawn("sleep", ["60"]);
  t.after(() => child.kill("SIGKILL"));
  const self = await until("its identity", () => identityOf(child.pid as number));
  assert.equal(liveness(self), "alive");
  const [boot, ticks] = self.start_time.split(":");
  assert.equal(liveness({ ...self, start_time: `${boot}:${Number(ticks) + 1}` }), "dead");
  child.kill("SIGKILL");
  await until("it is gone", () => liveness(self) === "dead");
});
