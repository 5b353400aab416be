import assert from "node:assert/strict";
import { test } from "node:test";
import { DiskGate } from "../../scheduler/disk.ts";

test("W6: nothing is claimed on a full disk; looked at once a second at most, said once", async () => {
  let used = 50;
  let looks = 0;
  const look = () => {
    looks += 1;
    return used;
  };
  let now = 10_000;
  const said: string[] = [];
  const say = (text: string) => said.push(text);
  const kit = {
    machine: { disk: async () => ({ total: 100, free: 100 - used, usedPercent: look() }) },
    stateDir: "/s",
    config: { disk_limit_percent: 90 },
    log: { info: say, error: say },
  };
  const gate = new DiskGate(kit as never, () => now);
  assert.equal(await gate.hasRoom(), true);
  used = 95;
  assert.equal(await gate.hasRoom(), true);
  assert.equal(looks, 1);
  for (let i = 0; i < 3; i++) {
    now += 1_000;
    assert.equal(await gate.hasRoom(), false);
  }
  assert.equal(said.length, 1);
  used = 80;
  now += 1_000;
  assert.equal(await gate.hasRoom(), true);
  assert.deepEqual(said, ["nothing is claimed until there is room", "the disk has room again"]);
});
