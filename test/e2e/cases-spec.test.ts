// Cases from the field, kind spec, at the level of the command line: what is refused, and what follows a failure.

import assert from "node:assert/strict";
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { BAD_IDS } from "../helpers/case-tables.ts";
import { assertInvariants } from "../helpers/invariants.ts";
import { until } from "../helpers/wait.ts";
import { makeWorld } from "../helpers/world.ts";

const TASK = { command: "true", allowed_files: ["**"], acceptance: ["true"] };

test("case 55 cycle-unknown-exponential: refused whole before anything runs, big graphs in no time", async (t) => {
  const world = makeWorld(t);
  const cycle = await world.run([
    { id: "a", depends_on: ["c"], ...TASK },
    { id: "b", depends_on: ["a"], ...TASK },
    { id: "c", depends_on: ["b"], ...TASK },
    { id: "free", ...TASK, command: "echo ok > free.txt" },
  ]);
  assert.equal(cycle.code, 2, cycle.out + cycle.err);
  assert.match(cycle.out + cycle.err, /a -> c -> b -> a|c -> b -> a -> c|b -> a -> c -> b/);
  assert.equal(existsSync(join(world.repo, ".git/busbar/endpoint.json")), false, "nothing was started");
  const self = await world.busctl(["plan", world.plan([{ id: "a", depends_on: ["a"], ...TASK }])]);
  assert.equal(self.code, 2);
  const unknown = await world.busctl(["plan", world.plan([{ id: "a", depends_on: ["A"], ...TASK }])]);
  assert.equal(unknown.code, 2);
  assert.match(unknown.out + unknown.err, /"?A"?.*"?a"?/s);
  const ladder = Array.from({ length: 80 }, (_, i) => {
    const level = Math.floor(i / 2);
    return {
      id: `${"xy"[i % 2]}${level}`,
      ...TASK,
      depends_on: level ? [`x${level - 1}`, `y${level - 1}`] : [],
    };
  });
  const chain = Array.from({ length: 20_000 }, (_, i) => ({
    id: `n${i}`,
    ...TASK,
    depends_on: i ? [`n${i - 1}`] : [],
  }));
  for (const tasks of [ladder, chain]) {
    const ran = await world.busctl(["plan", world.plan(tasks)], { timeoutMs: 60_000 });
    assert.equal(ran.code, 0, ran.out.slice(0, 2000) + ran.err.slice(0, 2000));
  }
});

test("case 56 duplicate-and-misspelt: every fault of a file in one go, with its place; nothing has run", async (t) => {
  const world = makeWorld(t);
  const check = async (name: string, text: string | Buffer, code: number, ...patterns: RegExp[]) => {
    const file = join(world.W, name);
    writeFileSync(file, text);
    const ran = await world.busctl(["run", file]);
    assert.equal(ran.code, code, `${name}: ${ran.out}${ran.err}`);
    for (const pattern of patterns) assert.match(ran.out + ran.err, pattern, name);
    assert.doesNotMatch(ran.err, /at .*\.js:\d+/, `${name}: no stack trace`);
  };
  const t1 = '{id: a, command: "true", allowed_files: ["**"], acceptance: ["true"]}';
  await check(
    "typo.yaml",
    `gate: none\ntasks:\n- {id: a, command: "echo x > anywhere.txt", allowed_file: ["src/**"], acceptance: ["true"]}\n- {id: b, command: "exit 1", allowed_files: ["**"], acceptence: ["false"]}\n- {id: c, command: "true", allowed_files: ["**"], acceptance: ["true"], dependsOn: [a]}\n- {id: d, command: "true", allowed_files: ["**"], acceptance: ["true"], Timeout: 5}\n`,
    2,
    /typo\.yaml:3/,
    /allowed_files/,
    /typo\.yaml:4[\s\S]*acceptance/,
    /typo\.yaml:5[\s\S]*depends_on/,
    /typo\.yaml:6[\s\S]*timeout/,
  );
  await check(
    "dupkey.yaml",
    'gate: none\ntasks:\n- id: a\n  command: "true"\n  forbidden_files: ["x"]\n  acceptance: ["true"]\n  allowed_files: ["**"]\n  forbidden_files: []\n',
    2,
    /dupkey\.yaml:8/,
  );
  await check(
    "dupkey.json",
    '{"gate":"none","tasks":[{"id":"a","command":"true","allowed_files":["**"],"acceptance":["false"],"acceptance":["true"]}]}',
    2,
    /acceptance/,
  );
  await check("dupid.yaml", `gate: none\ntasks:\n- ${t1}\n- ${t1}\n`, 2, /dupid\.yaml:4/, /3/);
  await check("selfref.yaml", "tasks: &x [*x]\n", 2);
  const bomb = [
    "a: &a [x,x,x,x,x,x,x,x,x]",
    ..."bcde".split("").map((c, i) => `${c}: &${c} [${Array(9).fill(`*${"abcd"[i]}`)}]`),
    "tasks: *e",
  ];
  await check("bomb.yaml", `${bomb.join("\n")}\n`, 2);
  await check("empty.yaml", "", 2, /no tasks/i);
  await check("null.yaml", "tasks:\n", 2, /no tasks|task/i);
  await check("tab.yaml", "tasks:\n\t- id: a\n", 2, /tab\.yaml:2/);
  await check("cut.yaml", 'tasks:\n- {id: a, command: "x\n', 2, /cut\.yaml:/);
  await check(
    "noscope.yaml",
    'gate: none\ntasks:\n- {id: a, command: "true", acceptance: ["true"]}\n',
    2,
    /allowed_files/,
  );
  await check("nogate.yaml", `tasks:\n- ${t1}\n`, 2, /gate/);
  assert.equal(existsSync(join(world.repo, ".git/busbar/endpoint.json")), false, "nothing was started");
  await check(
    "bom.yaml",
    `\ufeffrun: bom\ngate: none\ntasks:\n- {id: a, command: "echo ok > a.txt", allowed_files: ["**"], acceptance: ["true"]}\n`,
    0,
  );
});

test("case 58 unsafe-ids: one grammar for files, command line and RPC; nothing is made outside", async (t) => {
  const world = makeWorld(t);
  const all = await world.run(BAD_IDS.map((id) => ({ id, ...TASK })));
  assert.equal(all.code, 2, all.out + all.err);
  const faults = all.err
    .split("\n")
    .filter((line) => /error: .*(reserved|may hold|empty|characters|must not)/.test(line));
  assert.equal(faults.length, BAD_IDS.length, all.err);
  assert.doesNotMatch(all.out + all.err, /\u202e/, "shown escaped");
  const proto = await world.run([
    { id: "child", ...TASK, depends_on: ["__proto__"] },
    { id: "c2", ...TASK, depends_on: ["constructor"] },
  ]);
  assert.equal(proto.code, 2);
  const up = await world.busctl(["up"]);
  assert.equal(up.code, 0, up.err);
  const bus = await world.bus();
  t.after(() => bus.close());
  for (const id of BAD_IDS.slice(0, 12)) {
    await assert.rejects(bus.call("cancel", { run: "r", task: id }), { code: "INVALID_PARAMS" });
    const ran = await world.busctl(["logs", "--", id]);
    assert.notEqual(ran.code, 0);
  }
  assert.deepEqual(
    readdirSync(world.repo).filter((name) => name.includes("pwned")),
    [],
  );
  assert.equal(existsSync(join(world.W, "etc")), false);
});

test("case 58 unsafe-ids: ids that look alike get places of their own, ids equal but for case are refused", async (t) => {
  const world = makeWorld(t);
  const long = "x".repeat(60);
  const ids = ["a_b", "a-b", "a.b", `${long}1`, `${long}2`, "main"];
  const ran = await world.run(
    ids.map((id) => ({ id, command: `echo ok > ${id}.txt`, allowed_files: [`${id}.txt`] })),
  );
  assert.equal(ran.code, 0, ran.out + ran.err);
  const { tasks } = await world.state("r");
  assert.equal(new Set([...tasks.values()].map((task) => task.attempts[0]?.workspace)).size, ids.length);
  await assertInvariants(world, "r");
  const alike = await world.run(["a-b", "A-B"].map((id) => ({ id, ...TASK })));
  assert.equal(alike.code, 2, alike.out + alike.err);
});

test("case 59 failed-dependency: the root is named, nothing downstream runs, a retry brings it all back in order", async (t) => {
  const world = makeWorld(t);
  const bad = world.agent("bad", '[ -e "$W/fixed" ] && echo ok > bad.txt && exit 0; exit 1');
  const task = (id: string, command: string, ...depends_on: string[]) => ({
    id,
    command,
    depends_on,
    allowed_files: [`${id}.txt`],
  });
  const file = world.plan([
    task("bad", bad),
    task("kid", "test -f bad.txt && echo ok > kid.txt", "bad"),
    task("grandkid", "test -f kid.txt && echo ok > grandkid.txt", "kid"),
    task("both", "echo ok > both.txt", "bad", "good"),
    task("good", "echo ok > good.txt"),
    task("slow", 'touch "$W/slow.started"; sleep 60'),
    task("afterslow", "echo ok > afterslow.txt", "slow"),
  ]);
  const started = world.start(["run", file]);
  await until("slow works", () => existsSync(join(world.W, "slow.started")));
  assert.equal((await world.busctl(["cancel", "r/slow"])).code, 0);
  const ran = await started.ended;
  assert.equal(ran.code, 1, ran.out + ran.err);
  const needs = async (id: string) => {
    const state = (await world.state("r")).tasks.get(id)?.state;
    assert.ok(
      state?.name === "blocked" && state.needs.kind === "upstream",
      `${id}: ${JSON.stringify(state)}`,
    );
    return state.needs.root;
  };
  for (const id of ["kid", "grandkid", "both"]) assert.equal(await needs(id), "bad");
  assert.equal(await needs("afterslow"), "slow");
  const late = join(world.W, "late.json");
  writeFileSync(
    late,
    JSON.stringify({
      gate: "none",
      tasks: [
        {
          ...task("late", "test -f good.txt && echo ok > late.txt", "good"),
          acceptance: ["true"],
          retries: 0,
        },
      ],
    }),
  );
  const added = await world.busctl(["run", late, "--add-to", "r"]);
  assert.equal((await world.state("r")).tasks.get("late")?.state.name, "passed", added.out + added.err);
  world.sh("touch fixed");
  assert.equal((await world.busctl(["retry", "r/bad"])).code, 0);
  await until("the rest has landed", async () => (await world.state("r")).run.landed.length === 6);
  const order = (await world.state("r")).run.landed.map((one) => one.task);
  assert.ok(order.indexOf("bad") < order.indexOf("kid") && order.indexOf("kid") < order.indexOf("grandkid"));
  const readies = (await world.audit({ run: "r", task: "kid" })).filter(
    (one) => one.event?.type === "task.ready",
  );
  assert.equal(readies.length, 1, "one line per change of state");
  await assertInvariants(world, "r");
});
