// What the repository says against a state: an anchor that is gone, replaced or older, a branch that is older than its landing, a
// state that is not there any more. The real programs, and how a person goes on.

import assert from "node:assert/strict";
import { readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { VerifyAnswer } from "../../schemas/answers.ts";
import { until } from "../helpers/wait.ts";
import { makeWorld, ROOT, type World } from "../helpers/world.ts";

const REF = "refs/busbar/anchor";
const newest = (world: World) =>
  Number(/ seq=(\d+) /.exec(world.sh(`git -C repo log -1 --format=%s ${REF} || true`))?.[1] ?? 0);

/** One task landed, and anchored. */
async function landed(world: World): Promise<void> {
  const ran = await world.run([{ id: "a", command: "echo ok > a.txt" }]);
  assert.equal(ran.code, 0, ran.out + ran.err);
  const records = await world.audit({ task: "a", kind: "event" });
  const { seq } = records.find((record) => record.event?.type === "task.landed")!;
  assert.ok(await until("the landing is anchored", () => newest(world) >= seq));
}

async function verify(world: World, code: number): Promise<{ text: string; answer: VerifyAnswer }> {
  const said = await world.busctl(["verify"]);
  assert.equal(said.code, code, said.out + said.err);
  return { text: said.out, answer: JSON.parse((await world.busctl(["verify", "--json"])).out) };
}

/** The bus anchors at rest, too: the deed is done again until verify meets it. */
async function spoilt(world: World, kind: string, ...words: string[]): Promise<string> {
  let text = "";
  assert.ok(
    await until(`verify says ${kind}`, async () => {
      world.git("update-ref", ...words);
      const { out } = await world.busctl(["verify", "--json"]);
      if (JSON.parse(out).anchor_fault?.kind !== kind) return false;
      world.git("update-ref", ...words);
      const said = await world.busctl(["verify"]);
      text = said.out;
      return said.code === 1 && text.includes(`\nanchor ${kind}: `);
    }),
  );
  return text;
}

test("issue 3.5: an anchor that was deleted, replaced, or set back, and a branch set back: verify says which, exit 1", async (t) => {
  const world = makeWorld(t);
  await landed(world);
  await verify(world, 0);
  const right = world.git("rev-parse", REF);

  const gone = await spoilt(world, "missing", "-d", REF);
  assert.match(
    gone,
    /^in doubt: the chain of \d+ records holds, .*\nanchor missing: no anchor was found in refs\/busbar\/anchor, but record \d+ was anchored there/,
  );
  assert.match(gone, /\n {2}-> Find out who deleted it/);

  await world.down(); // which anchors anew
  assert.equal((await world.busctl(["up"])).code, 0);

  const tip = world.git("rev-parse", "busbar/r");
  world.git("update-ref", "refs/heads/busbar/r", "main");
  const back = await verify(world, 1);
  assert.deepEqual(
    back.answer.branches?.map((b) => b.kind),
    ["older"],
  );
  assert.match(
    back.text,
    /\nbranch busbar\/r is older than the last landing: it is at [0-9a-f]{12}, task a landed [0-9a-f]{12}/,
  );
  world.git("update-ref", "refs/heads/busbar/r", tip);
  world.git("update-ref", "refs/heads/busbar/other", tip);
  const unknown = await verify(world, 0);
  assert.deepEqual(
    unknown.answer.branches?.map(({ kind }) => kind),
    ["unknown"],
  );

  // The end of the bus anchors once more; the older one comes back.
  await world.down();
  assert.ok(world.git("rev-parse", REF) !== right);
  assert.equal((await world.busctl(["up"])).code, 0);
  await spoilt(world, "older", REF, right);
  // Once anchored anew it is whole, and what was done stays said.
  await world.down();
  assert.equal((await world.busctl(["up"])).code, 0);
  const anew = await verify(world, 0);
  assert.match(anew.text, /anchors up to record \d+ were deleted or moved by another hand, found on /);
  const claim = `busbar anchor 1 seq=812 mac=${"1".repeat(32)} at=2030-01-01T00:00:00.000Z seal=${"2".repeat(32)}`;
  const foreign = world.git("commit-tree", "-m", claim, "main^{tree}");
  await spoilt(world, "foreign", REF, foreign);
});

test("issue 3.5: a state directory that was deleted: up and run warn, verify is not content, repair goes on and records it", async (t) => {
  const world = makeWorld(t);
  await landed(world);
  const state = world.endpoint().state_dir;
  await world.down();
  const seq = newest(world);
  rmSync(join(state, "bus"), { recursive: true });
  rmSync(join(state, "runs"), { recursive: true });

  const up = await world.busctl(["up"]);
  assert.equal(up.code, 0, up.out + up.err);
  const line = new RegExp(
    `warning: this repository was run before with a state that is not this one \\(record ${seq} anchored on .*; runs r\\): the state in ${state} was deleted or replaced`,
  );
  assert.match(up.out, line);
  assert.match(up.out, /\n {2}-> Bring .* back from a backup .*`busctl repair`/);
  const { text, answer } = await verify(world, 1);
  assert.match(text, /^in doubt: .*\nanother state: this repository was run before/);
  assert.deepEqual([answer.former?.kind, answer.former?.seq, answer.former?.runs], ["gone", seq, ["r"]]);
  const next = await world.busctl([
    "run",
    world.plan([{ id: "b", command: "echo ok > b.txt" }], { run: "s" }),
  ]);
  assert.equal(next.code, 0, next.out + next.err);
  assert.match(next.err, line);
  await world.down();

  const unasked = await world.busctl(["repair"]);
  assert.equal(unasked.code, 2);
  assert.match(unasked.out, /^another state: .*\nthe journal that is here is not damaged/);
  const done = await world.busctl(["repair", "--yes"]);
  assert.equal(done.code, 0, done.out + done.err);
  assert.match(done.out, /noted; the next start records the gap\n {2}then: busctl up\n$/);
  const calm = await world.busctl(["up"]);
  assert.doesNotMatch(calm.out, /warning/);
  const after = await verify(world, 1);
  assert.match(after.text, /^not whole: .*lost for ever:\n {2}records? \d+.*this repository was run before/);
  assert.equal(after.answer.former, undefined);
  assert.equal(after.answer.first_bad, undefined);
  const { tasks } = await world.state("s");
  assert.ok(tasks.get("b")?.state.name === "passed", "the new state went on");
  await world.down();
  assert.match((await world.busctl(["repair"])).out, /nothing to repair/);
});

test("issue 3.5: given up before anything was written; a moved repository; a state under another directory", async (t) => {
  const world = makeWorld(t);
  await landed(world);
  const state = world.endpoint().state_dir;
  await world.down();
  const elsewhere = { ...world.env, BUSBAR_STATE_DIR: join(world.W, "state2") };
  const other = await world.busctl(["up"], { env: elsewhere });
  assert.match(other.out, new RegExp(`its state is still in ${state}, this one is .*state2`));
  await world.busctl(["down"], { env: elsewhere });

  renameSync(state, `${state}-away`);
  const done = await world.busctl(["repair", "--yes"]);
  assert.equal(done.code, 0, done.out + done.err);
  const up = await world.busctl(["up"]);
  assert.equal(up.code, 0, up.out + up.err);
  assert.doesNotMatch(up.out, /warning/);
  const { answer } = await verify(world, 1);
  assert.equal(answer.gaps?.length, 1);
  assert.equal(answer.gaps?.[0]?.from, 1);
  assert.deepEqual(answer.replay, { same: true });
  const again = await world.busctl([
    "run",
    world.plan([{ id: "b", command: "echo ok > b.txt" }], { run: "s" }),
  ]);
  assert.equal(again.code, 0, again.out + again.err);
  await world.down();
  assert.equal((await world.busctl(["up"])).code, 0, "its journal begins with the gap");
  assert.ok(readdirSync(join(state, "bus")).includes("anchored.json"));
});

/** Runs what a line that begins with `->` tells a person to do, word for word, until `stop`. */
function follow(world: World, text: string, stop: string): void {
  const [advice = ""] = text.split(stop);
  for (const [, command = ""] of advice.slice(advice.indexOf("->")).matchAll(/`([^`]+)`/g))
    world.sh(command.replace(/^busctl/, `node ${join(ROOT, "dist/bus/ctl/main.js")} --repo repo2`));
}

test("issue 3.5: a moved repository: the advice of `up`, followed word for word, brings everything along", async (t) => {
  const world = makeWorld(t);
  await landed(world);
  await world.down();
  renameSync(world.repo, `${world.repo}2`);
  const ctl = (...words: string[]) => world.busctl(words, { cwd: `${world.repo}2` });
  const up = await ctl("up");
  assert.match(up.out, /it was moved here from .*repo\/\.git, and its state is still in/);
  follow(world, up.out, "or, to go on");
  const calm = await ctl("up");
  assert.equal(calm.code, 0, calm.out + calm.err);
  assert.doesNotMatch(calm.out, /warning/);
  const whole = await ctl("verify");
  assert.equal(whole.code, 0, whole.out);
  const more = { run: "s", repo: `${world.repo}2` };
  const plan = world.plan(
    [{ id: "b", command: "echo ok > b.txt", acceptance: [{ run: "test -s b.txt" }] }],
    more,
  );
  const ran = await ctl("run", plan);
  assert.equal(ran.code, 0, ran.out + ran.err);
  assert.doesNotMatch(ran.err, /run before/);
  assert.match((await ctl("tasks", "--run", "r")).out, /merged/);
  await ctl("down");
});

test("issue 3.5: the old state is back after another one worked there: it is said so, and repair goes on", async (t) => {
  const world = makeWorld(t);
  await landed(world);
  const state = world.endpoint().state_dir;
  await world.down();
  renameSync(state, `${state}-away`);
  const work = world.plan([{ id: "b", command: "echo ok > b.txt" }], { run: "s" });
  assert.equal((await world.busctl(["run", work])).code, 0);
  await world.down();
  renameSync(state, `${state}-between`);
  renameSync(`${state}-away`, state);
  const { out } = await world.busctl(["up"]);
  assert.match(out, /not this one \(record \d+ anchored on .*; runs s\): it was used here meanwhile/);
  const { answer } = await verify(world, 1);
  assert.equal(answer.former?.kind, "between");
  await world.down();
  assert.equal((await world.busctl(["repair", "--yes"])).code, 0);
  assert.doesNotMatch((await world.busctl(["up"])).out, /warning/);
});
