// Case 69 journal-cut-anywhere by name, with the real programs: the journal of a finished run is cut and damaged as the
// case's cuts.sh does it, the programs start on it, one more task is submitted and lands, and they start once more.
// Of the cuts a share; with BUSBAR_EVERY_CUT=1 all of them. The same in one process, with every answer compared to the
// state after the record that was left: test/fuzz/journal-cut.test.ts.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import { runSpec, taskSpec } from "../helpers/state.ts";
import { until } from "../helpers/wait.ts";
import { makeWorld, type Ran, type World } from "../helpers/world.ts";

const BUSD = fileURLToPath(new URL("../../dist/bus/busd.js", import.meta.url));

const TITLE = 'naïve 日本 😀 \u2028 "quote" \\\\';
/** The case says 2 s, and a bench measures it; this only tells a start from one that hangs. */
const START_MS = 60_000;

/** What cuts.sh makes, by its names; `step` is how many bytes lie between two cuts (the case: 37, and 1 near the end). */
function cutsOf(whole: Buffer, step: number, stepAtEnd: number): Map<string, Buffer> {
  const cuts = new Map<string, Buffer>();
  const nearEnd = startOfLine(whole, 4);
  const nul = Buffer.alloc(4096);
  const last = whole.subarray(startOfLine(whole, 1));
  const but = (n: number) => whole.subarray(0, whole.length - n);
  for (let at = 0; at < nearEnd; at += step) cuts.set(`cut-${at}`, whole.subarray(0, at));
  for (let at = nearEnd; at < whole.length; at += stepAtEnd) cuts.set(`cut-${at}`, whole.subarray(0, at));
  cuts.set(`cut-${whole.length}`, whole);
  cuts.set("nul-tail", Buffer.concat([whole, nul]));
  cuts.set("nul-middle", Buffer.concat([but(5), nul, last]));
  cuts.set("run-together", Buffer.concat([but(9), last]));
  cuts.set("torn-utf8", Buffer.concat([whole, Buffer.from('{"partial":"'), Buffer.from([0xe2, 0x80])]));
  cuts.set("last-twice", Buffer.concat([whole, last]));
  cuts.set("empty", Buffer.alloc(0));
  const lines = whole.toString("utf8").trimEnd().split("\n");
  cuts.set("bad-middle", Buffer.from(`${lines.with(1, lines[1]!.replace(/^\{/, "[")).join("\n")}\n`));
  cuts.set("reversed", Buffer.from(`${[...lines].reverse().join("\n")}\n`));
  return cuts;
}

/** Where the n-th line from the end begins. */
function startOfLine(bytes: Buffer, n: number): number {
  let at = bytes.length - 1;
  for (let left = n; left > 0; left -= 1) at = bytes.lastIndexOf(10, at - 1);
  return at + 1;
}

interface Finished {
  world: World;
  journal: string;
  whole: Buffer;
  /** State, branches and files as they were when the run had ended. */
  back(): void;
}

/** The run of the case, to its end, and its programs ended. */
async function finished(t: TestContext): Promise<Finished> {
  const world = makeWorld(t);
  const ok = (id: string) => `echo ${id} >> ${world.W}/trace; echo ok > ${id}.txt`;
  const ran = await world.run([
    { id: "a", goal: TITLE, command: ok("a"), allowed_files: ["a.txt"] },
    { id: "b", command: ok("b"), depends_on: ["a"], allowed_files: ["b.txt"] },
    { id: "c", command: "exit 1", depends_on: ["b"], allowed_files: ["c.txt"] },
  ]);
  assert.equal(ran.code, 1, ran.out + ran.err);
  const journal = join(world.endpoint().state_dir, "bus/journal/000000000001.jsonl");
  await world.down();
  world.sh("mkdir saved; cp -a repo state saved/");
  const back = () =>
    void world.sh("rm -rf repo state; cp -a saved/repo saved/state .; printf 'a\\nb\\n' > trace");
  return { world, journal, whole: readFileSync(journal), back };
}

async function ok(ran: Promise<Ran>, what: string): Promise<Ran> {
  const done = await ran;
  assert.equal(done.code, 0, `${what}: ${done.out}${done.err}`);
  return done;
}

const everything = async (world: World) =>
  JSON.parse((await ok(world.busctl(["tasks", "--json"]), "tasks")).out);

/** One more task in a run of its own, to its landing. */
async function landZ(world: World): Promise<void> {
  const z = { id: "z", command: "echo ok > z.txt", allowed_files: ["z.txt"] };
  await ok(world.busctl(["run", world.plan([z], { run: "z" })]), "run z");
}

interface Seen {
  runs: { run: string; tasks: { task: string; state: string; attempts: number }[] }[];
  gaps?: { from: number; to: number }[];
}

const statesOf = (seen: Seen, run: string) =>
  seen.runs.find((one) => one.run === run)?.tasks.map(({ task, state }) => `${task} ${state}`);

/** What the case asks of every file with which the programs start. */
async function livesOn({ world }: Finished, name: string): Promise<Seen> {
  await ok(world.busctl(["up"], { timeoutMs: START_MS }), `${name}: up`);
  const first: Seen = await everything(world);
  await landZ(world);
  const before: Seen = await everything(world);
  assert.deepEqual(statesOf(before, "z"), ["z merged"], name);
  for (const { run, tasks } of before.runs)
    for (const { task, state } of tasks) {
      if (state !== "merged") continue;
      const log = world.git("log", "--format=%(trailers:key=Busbar-Task,valueonly)", `busbar/${run}`);
      assert.ok(
        log.split("\n").includes(task),
        `${name}: ${task} is said to be merged and is not in the branch`,
      );
    }
  await world.down();
  await ok(world.busctl(["up"], { timeoutMs: START_MS }), `${name}: up again`);
  assert.deepEqual(await everything(world), before, `${name}: after one more start`);
  await world.down();
  assert.equal(readFileSync(join(world.W, "trace"), "utf8"), "a\nb\n", `${name}: no task ran twice`);
  return first;
}

test("case 69 journal-cut-anywhere: the programs start on each kind of torn or cut end, lose nothing, land one more task, and start again", async (t) => {
  const run = await finished(t);
  const { world, journal, whole } = run;
  const cuts = cutsOf(whole, whole.length, 1);
  const inLast = `cut-${whole.length - 40}`;
  const ends = ["a merged", "b merged", "c blocked"];
  for (const name of [inLast, "torn-utf8", "last-twice"]) {
    run.back();
    writeFileSync(journal, cuts.get(name)!);
    const seen = await livesOn(run, name);
    assert.deepEqual(statesOf(seen, "r"), ends, `${name}: the checkpoint has it`);
    assert.equal(seen.gaps?.length ?? 0, name === inLast ? 1 : 0, `${name}: what is missing is said`);
    const torn = join(journal, "../../torn");
    const kept = existsSync(torn) ? world.sh(`ls ${torn} | wc -l`).trim() : "0";
    assert.equal(kept, name === "last-twice" ? "0" : "1", `${name}: torn bytes are kept`);
  }
});

test("case 69 journal-cut-anywhere: the checkpoint is gone too: what landed is asked of git, and nothing runs a second time", async (t) => {
  const run = await finished(t);
  const { world, journal, whole } = run;
  const lines = whole.toString("utf8").split("\n");
  const landed = (task: string) =>
    lines.findIndex((line) => line.includes('"task.landed"') && line.includes(`"task":"${task}"`));
  assert.ok(landed("b") > landed("a") && landed("a") > 0);
  // Cut before the record of b's landing; the branch has it.
  run.back();
  writeFileSync(
    journal,
    lines
      .slice(0, landed("b"))
      .map((line) => `${line}\n`)
      .join(""),
  );
  rmSync(join(journal, "../../checkpoint"), { recursive: true });
  const seen = await livesOn(run, "landing of b cut off");
  assert.equal(seen.gaps?.length, 1);
  await ok(world.busctl(["up"]), "up");
  const { tasks } = await until(
    "what could be recognised is",
    async () => {
      const now = await world.state("r");
      return (
        [...now.tasks.values()].every(({ state }) => state.name !== "ready" && state.name !== "running") &&
        now
      );
    },
    60_000,
  );
  const b = tasks.get("b")?.state;
  assert.ok(
    b?.name === "passed" && b.merged?.commit === world.git("rev-parse", "busbar/r"),
    JSON.stringify(b),
  );
  await world.down();
  // All of the run is lost: its branch is not written over.
  run.back();
  const head = world.git("rev-parse", "busbar/r");
  writeFileSync(journal, "");
  rmSync(join(journal, "../../checkpoint"), { recursive: true });
  assert.deepEqual((await livesOn(run, "all is lost")).runs, []);
  await ok(world.busctl(["up"]), "up");
  const plan = world.plan([{ id: "a", command: "echo other > a.txt" }]);
  await ok(world.busctl(["run", plan, "--detach"]), "the lost run's name again");
  const stopped = async () => {
    const { run: now, tasks: all } = await world.state("r");
    return now.paused || all.get("a")?.state.name === "blocked";
  };
  await until("a person is asked what is to become of the branch", stopped, 60_000);
  assert.equal(world.git("rev-parse", "busbar/r"), head, "the branch of the lost run is as it was");
});

test("case 69 journal-cut-anywhere: damage in the middle is refused with its line and the way out, and repaired with a copy", async (t) => {
  const run = await finished(t);
  const { world, journal, whole } = run;
  const cuts = cutsOf(whole, whole.length, 1_000_000);
  const count = whole.toString("utf8").trimEnd().split("\n").length;
  for (const [name, line] of Object.entries({ "run-together": count, "bad-middle": 2, reversed: 1 })) {
    run.back();
    const bytes = cuts.get(name)!;
    writeFileSync(journal, bytes);
    const up = await world.busctl(["up"], { timeoutMs: START_MS });
    assert.equal(up.code, 3, `${name}: ${up.out}${up.err}`);
    assert.match(up.err, new RegExp(`000000000001\\.jsonl line ${line} \\(record .*busctl repair`, "s"));
    assert.deepEqual(readFileSync(journal), bytes, `${name}: nothing was changed`);
    const { code, err } = await world.busctl(["verify"]);
    assert.equal(code, 3, `${name}: ${err}`);
    assert.match(err, new RegExp(`does not start.*JOURNAL_DAMAGED.*line ${line}.*busctl repair`, "s"), name);
  }
  run.back();
  writeFileSync(journal, cuts.get("bad-middle")!);
  await ok(world.busctl(["repair", "--yes"]), "repair");
  const copy = world.sh(`cat ${join(journal, "../..")}/before-repair-*/journal/000000000001.jsonl | wc -c`);
  assert.equal(Number(copy), cuts.get("bad-middle")!.length);
  assert.match(
    (await world.busctl(["tasks"])).err,
    /`busctl up` goes on/,
    "repaired: the failure is of before",
  );
  const seen = await livesOn(run, "repaired");
  assert.deepEqual(statesOf(seen, "r"), ["a merged", "b merged", "c blocked"]);
});

const EVERY = process.env.BUSBAR_EVERY_CUT === "1";
const REFUSED = ["run-together", "bad-middle", "reversed"];

/** The bus without a scheduler, so that nothing moves by itself. */
async function startBus(world: World) {
  const child = spawn(process.execPath, [BUSD, "--repo", join(world.repo, ".git")], {
    env: world.env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(child, "exit");
  const limit = setTimeout(() => child.kill("SIGKILL"), START_MS);
  const ready = await Promise.race([once(child.stdout, "data").then(String), ended]);
  clearTimeout(limit);
  assert.match(String(ready), /^ready /);
  const client = await world.bus();
  const kill = async () => {
    client.close();
    child.kill("SIGKILL");
    await ended;
  };
  return { ask: (method: string, params: unknown) => client.call(method, params), kill };
}

/** The bus alone: state after a start, after one more submit, and after being killed and started again. */
async function busLives({ world }: Finished, name: string): Promise<number> {
  const of = { repo: join(world.repo, ".git"), base: world.git("rev-parse", "main") };
  const spec = runSpec("z", [taskSpec("z", {})], of);
  const began = performance.now();
  const first = await startBus(world);
  const ms = performance.now() - began;
  const asked = await first.ask("submit_run", { spec });
  assert.equal((asked as { run: string }).run, "z", name);
  const before = await first.ask("list_tasks", {});
  await first.kill();
  const again = await startBus(world);
  assert.deepEqual(await again.ask("list_tasks", {}), before, `${name}: what was acknowledged is there`);
  await again.kill();
  return ms;
}

test("case 69 journal-cut-anywhere: at every cut the bus starts, takes one more run, and has it after a kill", async (t) => {
  const run = await finished(t);
  const { journal, whole } = run;
  const cuts = EVERY ? cutsOf(whole, 37, 1) : cutsOf(whole, 37 * 203, 203);
  const took: number[] = [];
  for (const [name, bytes] of cuts) {
    if (REFUSED.includes(name)) continue;
    run.back();
    writeFileSync(journal, bytes);
    took.push(await busLives(run, name));
  }
  took.sort((a, b) => a - b);
  const at = (share: number) => Math.round(took[Math.floor((took.length - 1) * share)] ?? 0);
  t.diagnostic(`${took.length} cuts; a start took ${at(0.5)} ms in the middle, ${at(1)} ms at most`);
});
