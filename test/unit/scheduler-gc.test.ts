// Garbage collection beside work: how often the machine is looked at does not grow with the attempts.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { collect } from "../../scheduler/gc.ts";
import { markedDirs } from "../../scheduler/marks.ts";
import { CAPTURED_FILE } from "../../scheduler/snapshot.ts";
import type { AttemptRecord, Task } from "../../schemas/task.ts";
import { specOf, taskOf } from "../helpers/tasks.ts";
import { tempDir } from "../helpers/temp.ts";
import { until } from "../helpers/wait.ts";

const ATTEMPTS = 300;
const BLOCKED = { kind: "retries_used", cause: "check", evidence: {} } as never;

/** Tasks that are through, each with a captured attempt on the disk. */
function ended(t: TestContext): { stateDir: string; tasks: Task[] } {
  const stateDir = tempDir(t, "gc");
  const tasks = Array.from({ length: ATTEMPTS }, (_, n) => {
    const workspace = join(stateDir, "runs", "r", `a${n}`);
    mkdirSync(workspace, { recursive: true });
    const note = { v: 1, version: 1, changed: 1, problems: [] };
    writeFileSync(join(workspace, CAPTURED_FILE), JSON.stringify(note));
    const attempts = [{ attempt: 1, workspace } as AttemptRecord];
    return taskOf(specOf(`t${n}`), { name: "blocked", since: "", needs: BLOCKED }, { attempts });
  });
  return { stateDir, tasks };
}

function looks() {
  const marked = async () => {
    counted.looks += 1;
    return new Set<string>();
  };
  const counted = { looks: 0, marked };
  return counted;
}

test("W9: processes are not looked at while nothing is idle, and once when much is; the loop is let go between", async (t) => {
  const { stateDir, tasks } = ended(t);
  const order = { control: {} as never, stateDir, tasks, now: Date.now(), dry: true };
  const fresh = looks();
  const kept = await collect({ ...order, idleMs: 3_600_000, marked: fresh.marked });
  assert.deepEqual([kept.kept.length, fresh.looks], [ATTEMPTS, 0]);
  const old = looks();
  let turns = 0;
  const timer = setInterval(() => {
    turns += 1;
  }, 0);
  const gone = await collect({
    ...order,
    now: Date.now() + 7_200_000,
    idleMs: 3_600_000,
    marked: old.marked,
  });
  clearInterval(timer);
  assert.deepEqual([gone.archived.length, old.looks], [ATTEMPTS, 1]);
  assert.ok(turns > 0, "other work had its turns");
});

test("W9: a workspace with a living process stays", async (t) => {
  const { stateDir, tasks } = ended(t);
  const dir = tasks[7]?.attempts[0]?.workspace as string;
  const child = spawn("sleep", ["60"], { env: { BUSBAR_DIR: dir, PATH: process.env.PATH }, stdio: "ignore" });
  t.after(() => child.kill("SIGKILL"));
  await until("its mark is seen", async () => (await markedDirs()).has(dir));
  const later = Date.now() + 7_200_000;
  const order = { control: {} as never, stateDir, tasks, idleMs: 3_600_000, now: later, dry: true };
  const { kept } = await collect(order);
  assert.deepEqual(kept, [
    { workspace: dir, run: tasks[7]?.run, task: tasks[7]?.spec.id, kind: "in_use", why: "in use" },
  ]);
});

test("W9, issue 3.4: a time from the future counts as now, once; a look alone changes nothing; no age is below zero", async (t) => {
  const { stateDir, tasks } = ended(t);
  const [one] = tasks;
  const note = join(one?.attempts[0]?.workspace as string, CAPTURED_FILE);
  const [now, hour] = [Date.UTC(2030, 0, 1), 3_600_000];
  utimesSync(note, Date.UTC(2038, 0, 19) / 1000, Date.UTC(2038, 0, 19) / 1000);
  const marked = async () => new Set<string>();
  const gc = (at: number, dry: boolean) =>
    collect({ control: {} as never, stateDir, tasks: tasks.slice(0, 1), now: at, idleMs: hour, dry, marked });
  const why = async (at: number, dry: boolean) => (await gc(at, dry)).kept.map((k) => k.why);
  assert.deepEqual(await why(now, true), ["idle for 0 s only"]);
  assert.equal(statSync(note).mtimeMs, Date.UTC(2038, 0, 19));
  assert.deepEqual(await why(now, false), ["idle for 0 s only"]);
  assert.equal(statSync(note).mtimeMs, now);
  assert.deepEqual(await why(now + hour / 2, false), ["idle for 1800 s only"]);
  assert.equal((await gc(now + hour, true)).archived.length, 1);
});
