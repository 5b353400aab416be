// `busctl doctor` as a person calls it: what holds is proven by trying, what is needed and missing is exit 1, nothing is left.

import assert from "node:assert/strict";
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import type { Finding } from "../../schemas/finding.ts";
import { testGroups } from "../helpers/groups.ts";
import { makeWorld, type World } from "../helpers/world.ts";

async function findings(world: World): Promise<{ code: number | null; of: Map<string, Finding> }> {
  const { code, out, err } = await world.busctl(["doctor", "--json"], { cwd: world.repo });
  assert.equal(err, "");
  const answer = JSON.parse(out) as { ok: boolean; findings: Finding[] };
  assert.equal(answer.ok, code === 0);
  return { code, of: new Map(answer.findings.map((one) => [one.name, one])) };
}

test("issue 4.9, O4: where no control group may be made, what the configuration needs is missing: exit 1, with the cure", async (t) => {
  const world = makeWorld(t);
  // Below a file: nobody can make it.
  world.env.BUSBAR_CGROUP_BASE = "/cgroup.procs/x";
  world.env.BUSBAR_CONFIG = join(world.W, "config.yaml");
  writeFileSync(
    world.env.BUSBAR_CONFIG,
    "limits: {memory: 1G}\nagents: {gone: {command: no-such-program --go}}\n",
  );
  const { code, of } = await findings(world);
  assert.equal(code, 1);
  assert.deepEqual(
    ["memory", "pids", "kill", "nofile", "fsize", "agent gone"].map((name) => of.get(name)?.state),
    ["bad", "poor", "poor", "good", "good", "bad"],
  );
  assert.match(of.get("memory")?.said ?? "", /no control group for it here/);
  assert.match(of.get("memory")?.cure ?? "", /BUSBAR_CGROUP_BASE/);
  assert.match(of.get("bus")?.said ?? "", /does not run/);
  const told = await world.busctl(["doctor"], { cwd: world.repo });
  assert.equal(told.code, 1);
  assert.match(
    told.out,
    /^not well: 2 things that are needed are missing; \d+ of \d+ things good\n\nIsolation\n/,
  );
  assert.match(told.out, /\n {2}✗ memory +no control group/);
});

test("issue 4.9, O4: where control groups are, each limit is proven by a program that runs into it, and nothing is left", async (t) => {
  const world = makeWorld(t);
  const host = testGroups(t, ["all", "memory", "pids"]);
  if (!host) return;
  world.env.BUSBAR_CGROUP_BASE = host.base;
  await world.run([{ id: "a", command: world.agent("a", "echo 1 > a.txt"), allowed_files: ["a.txt"] }]);
  const { of } = await findings(world);
  for (const name of ["kill", "memory", "pids", "audit log", "workspaces", "git"])
    assert.equal(of.get(name)?.state, "good", `${name}: ${of.get(name)?.said}`);
  assert.match(of.get("memory")?.said ?? "", /a hog of 64 MiB was killed at 16 MiB \(control group v[12]\)/);
  assert.match(of.get("audit log")?.said ?? "", /the chain of \d+ records holds/);
  assert.match(of.get("scheduler")?.said ?? "", /is registered/);
  const name = host.base.slice(1);
  const left = [host.all, host.memory, host.pids].flatMap((at) =>
    at ? readdirSync(join(at.dir, "..")).filter((one) => one.startsWith(`${name}-doctor`)) : [],
  );
  assert.deepEqual(left, []);
});
