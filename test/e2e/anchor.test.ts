// The head of the journal in the user's repository: at every landing and at the end.

import assert from "node:assert/strict";
import { test } from "node:test";
import { assertInvariants, lookAtCheckout } from "../helpers/invariants.ts";
import { until } from "../helpers/wait.ts";
import { makeWorld } from "../helpers/world.ts";

test("the head of the journal is anchored at a landing and at the end, and verify compares it", async (t) => {
  const world = makeWorld(t);
  const before = lookAtCheckout(world);
  const ran = await world.run([{ id: "a", command: "echo ok > a.txt" }]);
  assert.equal(ran.code, 0, ran.out + ran.err);
  const [landed] = (await world.audit({ task: "a", kind: "event" })).filter(
    (record) => record.event?.type === "task.landed",
  );
  const newest = () =>
    Number(
      / seq=(\d+) /.exec(world.sh("git -C repo log -1 --format=%s refs/busbar/anchor || true"))?.[1] ?? 0,
    );
  assert.ok(await until("the landing is anchored", () => newest() >= landed!.seq));
  await assertInvariants(world, "r", before);

  const verified = await world.busctl(["verify", "--json"]);
  assert.equal(verified.code, 0, verified.out + verified.err);
  const answer = JSON.parse(verified.out);
  assert.ok(answer.anchors.held >= 1 && answer.anchors.newest.seq >= landed!.seq);
  assert.deepEqual(answer.replay, { same: true });
  const said = await world.busctl(["verify"]);
  assert.match(
    said.out,
    /^whole: the chain of \d+ records holds\n {2}\d+ anchors? in the repository found in it/,
  );
  await world.down();
  assert.ok(newest() > answer.anchors.newest.seq || newest() === answer.anchors.newest.seq);
  const commits = Number(world.sh("git -C repo rev-list --count refs/busbar/anchor"));
  assert.ok(commits >= 1 && commits < 10, `${commits} anchors of one small run`);
});
