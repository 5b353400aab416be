// `busctl repair` on the real programs: a journal with which the bus does not start, what is said, kept and lost; and
// packed files, without programs.

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { LockHold } from "../../bus/lock.ts";
import { systemDisk } from "../../bus/state/disk.ts";
import { lookAtDamage, takeOut } from "../../bus/state/repair.ts";
import { quickDisk } from "../helpers/quick-disk.ts";
import { dump, openStore } from "../helpers/state.ts";
import { tempDir } from "../helpers/temp.ts";
import { until } from "../helpers/wait.ts";
import { makeWorld } from "../helpers/world.ts";

test("case 69: damage in the middle stops the start; repair says what goes, asks, keeps a copy, and the run is still there", async (t) => {
  const world = makeWorld(t);
  const ran = await world.run([{ id: "a", command: "echo ok > a.txt" }]);
  assert.equal(ran.code, 0, ran.out + ran.err);
  const landed = world.git("rev-parse", "busbar/r");
  const dir = join(world.endpoint().state_dir, "bus");
  await world.down();
  const file = join(dir, "journal/000000000001.jsonl");
  const whole = readFileSync(file, "utf8");
  const lines = whole.trimEnd().split("\n");
  const spoilt = `${lines.with(4, lines[4]!.replace('"v":1', '"v":2')).join("\n")}\n`;
  writeFileSync(file, spoilt);

  const refused = await world.busctl(["up"]);
  assert.equal(refused.code, 3, refused.out + refused.err);
  assert.match(refused.err, /000000000001\.jsonl line 5 \(record 5\): changed: .*busctl repair/s);
  const unasked = await world.busctl(["repair"]);
  assert.equal(unasked.code, 2);
  assert.match(unasked.out, /record 5: changed/);
  assert.match(
    unasked.out,
    new RegExp(
      `${lines.length - 4} lines from there on would go \\(records up to ${lines.length}\\); records 1 to 4 stay`,
    ),
  );
  assert.match(unasked.err, /needs --yes/);
  assert.equal(readFileSync(file, "utf8"), spoilt, "nothing was changed");

  const hold = await LockHold.take(join(dir, "../lock"));
  const inUse = await world.busctl(["repair", "--yes"]);
  hold?.release();
  assert.match(inUse.err, /a bus still holds .*\/lock/);
  assert.notEqual(inUse.code, 0);
  assert.equal(
    readFileSync(file, "utf8"),
    spoilt,
    "a bus that lives on without its repository is not cut off from below",
  );

  const done = await world.busctl(["repair", "--yes"]);
  assert.equal(done.code, 0, done.out + done.err);
  const copies = readdirSync(dir).find((name) => name.startsWith("before-repair-"))!;
  assert.equal(readFileSync(join(dir, copies, "journal/000000000001.jsonl"), "utf8"), spoilt);
  const up = await world.busctl(["up"]);
  assert.equal(up.code, 0, up.out + up.err);
  const { tasks } = await world.state("r");
  const state = tasks.get("a")?.state;
  assert.ok(state?.name === "passed" && state.merged?.commit === landed, "the checkpoint had it");
  const verified = await world.busctl(["verify"]);
  assert.equal(verified.code, 1);
  assert.match(
    verified.out,
    /not whole: .*lost for ever:\n {2}records 5 to \d+, found missing on .*: record 5 was found changed/,
  );
  const shown = await world.busctl(["tasks", "--run", "r"]);
  assert.match(shown.out, /^records 5 to \d+ of the audit log are lost/);
  const running = await world.busctl(["repair", "--yes"]);
  assert.equal(running.code, 2);
  assert.match(running.err, /a bus runs/);
  assert.ok(!existsSync(join(dir, "repaired.json")));
});

test("repair of packed and later files: what stands before the damage stays, and a second repair finds nothing", async (t) => {
  const dir = join(tempDir(t), "bus");
  const open = () => openStore(dir, { disk: quickDisk, segmentBytes: 2_000 });
  const store = await open();
  for (let n = 0; n < 60; n++)
    await store.change({ actor: "p" }, (d) => d.emit({}, { type: "worker.gone", worker: `w${n}` }));
  await store.checkpoint();
  const names = () => readdirSync(join(dir, "journal")).sort();
  await until("packed", () => names().filter((name) => name.endsWith(".jsonl")).length === 1);
  await store.close();
  rmSync(join(dir, "checkpoint"), { recursive: true });
  const gz = names().filter((name) => name.endsWith(".gz"))[2]!;
  const first = Number(gz.slice(0, 12));
  writeFileSync(join(dir, "journal", gz), readFileSync(join(dir, "journal", gz)).fill(9, 40, 60));
  const ports = { disk: systemDisk, dir, monotonic: () => performance.now() };
  const finding = await lookAtDamage(ports);
  assert.deepEqual(
    [finding?.damage.kind, finding?.end.seq, finding?.to, finding?.state],
    ["changed", first - 1, 60, "replay"],
  );
  const copies = await takeOut(ports, finding!, "x");
  assert.ok(readdirSync(join(copies, "journal")).includes(gz));
  assert.equal(await lookAtDamage(ports), undefined);
  const again = await open();
  assert.equal(again.seq, 61);
  const proof = await again.verify();
  assert.deepEqual(
    proof.gaps?.map(({ from, to }) => [from, to]),
    [[first, 60]],
  );
  assert.deepEqual([proof.first_bad, proof.replay?.same], [undefined, true]);
  const { records } = await again.query({ limit: 100 });
  assert.equal(records.length, first);
  const now = dump(again);
  await again.close();
  const once = await open();
  assert.deepEqual(dump(once), now);
  await once.close();
});
