// What busctl says of a bus that does not run, from the disk alone (issue 2.6).

import assert from "node:assert/strict";
import { mkdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { startFailure } from "../../bus/client/last-words.ts";
import { notRunning } from "../../bus/ctl/left-behind.ts";
import { unmergedNote } from "../../bus/ctl/unmerged.ts";
import { busPaths, writeEndpoint } from "../../bus/paths.ts";
import { BusbarError } from "../../schemas/errors.ts";
import { makeTask, merged, running, T0, usedUp } from "../helpers/ctl-fakes.ts";
import { tempDir } from "../helpers/temp.ts";

test("issue 2.6: a bus that died is told from one that was ended, since when, and what is open", (t) => {
  const dir = tempDir(t);
  const common = join(dir, "repo/.git");
  mkdirSync(join(common, "busbar"), { recursive: true });
  const host = {
    env: { BUSBAR_STATE_DIR: join(dir, "state"), BUSBAR_RUNTIME_DIR: "/tmp", HOME: dir },
    uid: 0,
  };
  const { message, data } = notRunning(common, T0, host);
  assert.match(message, /^not running: no bus works on .*repo\/\.git$/);
  assert.equal(data.help, "Start it with `busctl up`.");

  const { state, endpoint, runtime, socket } = busPaths(common, host.env, host.uid);
  for (const part of ["journal", "checkpoint"]) mkdirSync(join(state, "bus", part), { recursive: true });
  const tasks = [makeTask("a", merged()), makeTask("b", running()), makeTask("c", usedUp())];
  const write = (name: string, text: string, ms: number) => {
    writeFileSync(join(state, "bus", name), text);
    utimesSync(join(state, "bus", name), new Date(ms), new Date(ms));
  };
  write("checkpoint/r.json", JSON.stringify({ v: 1, run: {}, tasks }), T0 - 60_000);
  write("checkpoint/half.json", '{"tasks": [{"sta', T0 - 70_000);
  write("journal/000000000001.jsonl", "{}\n", T0 - 30_000);
  const ended = notRunning(common, T0, host);
  assert.match(ended.message, /ended in order, and last wrote at \d\d:\d\d:\d\d, 30s ago$/);
  assert.match(String(ended.data.help), /^`busctl up` goes on .*; 2 tasks were open at the checkpoint of /);

  writeEndpoint(endpoint, {
    v: 1,
    socket,
    state_dir: state,
    runtime_dir: runtime,
    pid: 2 ** 30,
    start_time: "1",
    boot_id: "x",
  });
  assert.match(notRunning(common, T0, host).message, /^not running: the bus of .* died .* 30s ago$/);
  rmSync(join(state, "bus"), { recursive: true });
  assert.match(notRunning(common, T0, host).message, /^not running: no bus works on/);
});

test("issue 2.6: a bus that could not start is not said to have ended in order: its code, its words, what to do", (t) => {
  const dir = tempDir(t);
  const common = join(dir, "repo/.git");
  mkdirSync(common, { recursive: true });
  const host = { env: { BUSBAR_STATE_DIR: join(dir, "state"), HOME: dir }, uid: 0 };
  const { state } = busPaths(common, host.env, host.uid);
  for (const part of ["bus/journal", "logs"]) mkdirSync(join(state, part), { recursive: true });
  const journal = join(state, "bus/journal/000000000001.jsonl");
  const log = join(state, "logs/busd.log");
  const life = '{"time":"2026-01-01T00:00:00Z","level":"info","message":"ended"}\n';
  const write = (file: string, text: string, ms: number) => {
    writeFileSync(file, text);
    utimesSync(file, new Date(ms), new Date(ms));
  };
  const failure = startFailure("busd", new BusbarError("JOURNAL_DAMAGED", "line 4 does not follow"));
  write(journal, "{}\n", T0 - 60_000);
  write(log, `${life}${failure}`, T0 - 30_000);
  const away = notRunning(common, T0, host);
  assert.equal(away.code, "BUS_AWAY");
  assert.match(
    away.message,
    /^not running: the bus of .*\.git does not start \(tried at .*, 30s ago\): JOURNAL_DAMAGED: line 4 does not follow$/,
  );
  assert.match(String(away.data.help), /`busctl repair`/);
  assert.equal(away.data.log, log);

  write(log, `${failure}${life}`, T0 - 30_000); // a later bus came up, and ended
  assert.match(notRunning(common, T0, host).message, /ended in order/);
  write(log, failure, T0 - 30_000);
  write(journal, "{}\n", T0 - 20_000); // repaired since
  assert.match(notRunning(common, T0, host).message, /ended in order/);
});

test("issue 2.6: a branch of an earlier run that is not in the base is told in one line, with the way on", () => {
  assert.equal(unmergedNote([], "main"), undefined);
  assert.equal(
    unmergedNote(["busbar/a"], "main"),
    "busbar/a is not in main; this plan starts without it. To start from it: run --base busbar/a",
  );
  assert.match(
    unmergedNote(["busbar/b", "busbar/a"], "main") ?? "",
    /^busbar\/b and 1 older branch of busbar\/ are not in main; .* without them\./,
  );
});
