// The commands of a person killed between any two of their effects: repair, gc, down, submit. After each the same command
// again completes: nothing is lost, nothing done twice, nobody is left. Complete by construction: a command is run once to
// see which fault points it passes, and killed at each of them.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { FAULT_VARIABLE } from "../../bus/client/fault.ts";
import { busPaths } from "../../bus/paths.ts";
import type { Store } from "../../bus/state/store.ts";
import { FAULT_POINTS, type FaultPoint } from "../../schemas/fault-points.ts";
import { processesOf } from "../helpers/processes.ts";
import { quickDisk } from "../helpers/quick-disk.ts";
import { dump, openStore } from "../helpers/state.ts";
import { until } from "../helpers/wait.ts";
import { makeWorld, type World } from "../helpers/world.ts";

const DIST = fileURLToPath(new URL("../../dist", import.meta.url));

interface Done {
  code: number | null;
  signal: string | null;
  out: string;
  err: string;
}

/** One of the programs behind busctl, with the fault points of `dir` in force. */
function program(world: World, file: string, words: string[], dir: string): Promise<Done> {
  const child = spawn(process.execPath, [join(DIST, file), "--repo", join(world.repo, ".git"), ...words], {
    env: { ...world.env, [FAULT_VARIABLE]: dir },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let out = "";
  let err = "";
  child.stdout.on("data", (chunk: Buffer) => (out += chunk.toString("utf8")));
  child.stderr.on("data", (chunk: Buffer) => (err += chunk.toString("utf8")));
  return new Promise((resolve) => {
    child.once("close", (code, signal) => resolve({ code, signal, out, err }));
  });
}

/** A folder of fault points with nothing armed. */
function faults(world: World): string {
  const dir = join(world.W, "fault");
  rmSync(dir, { recursive: true, force: true });
  mkdirSync(join(dir, "passed"), { recursive: true });
  return dir;
}

function passedIn(dir: string): FaultPoint[] {
  const names: readonly string[] = readdirSync(join(dir, "passed"));
  return FAULT_POINTS.filter((name) => names.includes(name));
}

/** Kills the command at the point, and checks that it did die there. */
async function diesAt(point: FaultPoint, dir: string, command: () => Promise<Done>, pass = 1): Promise<void> {
  writeFileSync(join(dir, point), String(pass));
  const { signal, err } = await command();
  assert.equal(signal, "SIGKILL", `${point}: ${err}`);
  assert.ok(!existsSync(join(dir, point)), point);
}

// --- repair

/** A journal of packed files of several blocks and a plain one, so that a repair may have everything to do. */
async function journalOf(world: World): Promise<string> {
  const paths = busPaths(join(world.repo, ".git"), world.env, process.getuid?.() ?? 0);
  const dir = join(paths.state, "bus");
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const store = await openStore(dir, { disk: quickDisk, segmentBytes: 150_000 });
  for (let n = 0; n < 24; n++) await worker(store, `${n}`.repeat(15_000));
  await store.checkpoint();
  const plain = () => readdirSync(join(dir, "journal")).filter((name) => name.endsWith(".jsonl"));
  await until("packed", () => plain().length === 1);
  await store.close();
  return dir;
}

const worker = (store: Store, name: string) =>
  store.change({ actor: "p" }, (d) => d.emit({}, { type: "worker.gone", worker: name }));

function journalFile(dir: string, end: string, n: number): string {
  const names = readdirSync(join(dir, "journal")).filter((name) => name.endsWith(end));
  return join(dir, "journal", names.sort().at(n)!);
}

function spoil(path: string, from: number, to: number): void {
  const bytes = readFileSync(path);
  writeFileSync(path, bytes.fill(9, bytes.length + from, bytes.length + to));
}

/** What may be wrong. */
const DAMAGES: Readonly<Record<string, (dir: string) => Promise<void> | void>> = {
  "the end of a packed file": (dir) => {
    spoil(journalFile(dir, ".gz", 1), -30, -10);
    rmSync(join(dir, "checkpoint"), { recursive: true });
  },
  "a line of the plain file": (dir) => {
    const path = journalFile(dir, ".jsonl", 0);
    const lines = readFileSync(path, "utf8").split("\n");
    writeFileSync(path, lines.with(1, lines[1]!.replace('"v":1', '"v":2')).join("\n"));
    rmSync(join(dir, "checkpoint"), { recursive: true });
  },
  "a checkpoint of another history": async (dir) => {
    const other = `${dir}-other`;
    cpSync(dir, other, { recursive: true });
    for (const [at, name] of [
      [other, "other"],
      [dir, "mine"],
    ] as const) {
      const store = await openStore(at, { disk: quickDisk });
      await worker(store, name);
      await store.close();
    }
    rmSync(join(dir, "checkpoint"), { recursive: true });
    cpSync(join(other, "checkpoint"), join(dir, "checkpoint"), { recursive: true });
    rmSync(other, { recursive: true });
  },
};

/** Gap and state that a start after the repair leads to. */
async function repaired(dir: string): Promise<unknown> {
  const store = await openStore(dir, { disk: quickDisk });
  const proof = await store.verify();
  const said = {
    bad: proof.first_bad,
    same: proof.replay?.same,
    gaps: proof.gaps?.map(({ from, to }) => [from, to]),
    seq: store.seq,
    state: dump(store),
  };
  await store.close();
  return said;
}

const isOfRepair = (point: string) => point.startsWith("bus.repair.") || point === "bus.file.before-remove";
/** Points that are passed for each of several files: killed at later ones, too. */
const PASSES: { [P in FaultPoint]?: number[] } = { "bus.file.before-remove": [1, 3, 5] };

test("repair killed at any of its steps: repaired again it comes to the same, and no number is given twice", async (t) => {
  const world = makeWorld(t);
  const dir = await journalOf(world);
  const repair = (at: string) => program(world, "bus/busd.js", ["--repair", "cut"], at);
  const seen = new Set<FaultPoint>();
  for (const [what, damage] of Object.entries(DAMAGES)) {
    const copyOf = (from: string, to: string) => {
      rmSync(to, { recursive: true, force: true });
      cpSync(from, to, { recursive: true });
    };
    copyOf(dir, `${dir}-whole`);
    await damage(dir);
    copyOf(dir, `${dir}-bad`);
    const calm = faults(world);
    const done = await repair(calm);
    assert.equal(done.code, 0, done.err);
    const wanted = await repaired(dir);
    // Each point once, in the first kind of damage that comes by it.
    for (const point of passedIn(calm)) {
      if (!isOfRepair(point) || seen.has(point)) continue;
      seen.add(point);
      for (const pass of PASSES[point] ?? [1]) {
        copyOf(`${dir}-bad`, dir);
        await diesAt(point, calm, () => repair(calm), pass);
        const again = await repair(calm);
        assert.equal(again.code, 0, `${what}, ${point}: ${again.err}`);
        assert.deepEqual(await repaired(dir), wanted, `${what}, ${point}, pass ${pass}`);
      }
    }
    copyOf(`${dir}-whole`, dir);
  }
  for (const copy of ["whole", "bad"]) rmSync(`${dir}-${copy}`, { recursive: true });
  const all = FAULT_POINTS.filter(isOfRepair);
  assert.deepEqual([...seen].sort(), [...all].sort(), "every step of a repair was killed");
});

test("the bus killed before it removes the note of a repair: the gap is recorded once", async (t) => {
  const world = makeWorld(t);
  const dir = await journalOf(world);
  await DAMAGES["a line of the plain file"]?.(dir);
  const calm = faults(world);
  assert.equal((await program(world, "bus/busd.js", ["--repair", "cut"], calm)).code, 0);
  await diesAt("bus.gap.before-remove-note", calm, () => program(world, "bus/busd.js", [], calm));
  const up = await world.busctl(["up"]);
  assert.equal(up.code, 0, up.err);
  assert.ok(!existsSync(join(dir, "repaired.json")));
  const gaps = (await world.audit({ kind: "event" })).filter(({ event }) => event?.type === "journal.gap");
  assert.equal(gaps.length, 1);
});

// --- gc

/** What lies in a folder, by name and content, but not the names of packs, which differ. */
const contentOf = (world: World, dir: string) =>
  world.sh(`cd ${dir} && find . -type f -not -name '*.log' | sort | xargs -r sha256sum`);

test("gc killed at any of its steps: called again it archives the same, and the work is still there", async (t) => {
  const world = makeWorld(t);
  const ran = await world.run([
    { id: "a", command: "echo ok > a.txt", allowed_files: ["a.txt"] },
    { id: "b", command: "echo half > b.txt; exit 1", allowed_files: ["b.txt"] },
  ]);
  assert.equal(ran.code, 1, ran.out + ran.err);
  const { state_dir } = world.endpoint();
  const refs = world.git("for-each-ref", "refs/busbar/attempts");
  const gc = (at: string) => program(world, "scheduler/main.js", ["--gc", "--json", "--idle-s", "0"], at);
  world.sh(`mkdir saved; cp -a ${state_dir}/runs ${state_dir}/control.git saved/`);
  const back = () => world.sh(`cd ${state_dir}; rm -rf runs archive control.git; cp -a ${world.W}/saved/. .`);
  const calm = faults(world);
  back(); // every time from the same copy: a copied file has another inode, which is looked at
  const first = await gc(calm);
  assert.equal(first.code, 0, first.err);
  const wanted = contentOf(world, join(state_dir, "archive"));
  const left = contentOf(world, join(state_dir, "runs"));
  assert.match(wanted, /b\.txt/, "what the failed attempt left");
  const points = passedIn(calm);
  assert.ok(
    points.some((point) => point.startsWith("scheduler.archive.")),
    `${points}`,
  );
  for (const point of points) {
    back();
    await diesAt(point, calm, () => gc(calm));
    const again = await gc(calm);
    assert.equal(again.code, 0, `${point}: ${again.err}`);
    assert.equal(contentOf(world, join(state_dir, "archive")), wanted, point);
    assert.equal(contentOf(world, join(state_dir, "runs")), left, point);
    assert.equal(world.git("for-each-ref", "refs/busbar/attempts"), refs, point);
  }
  t.diagnostic(`killed at ${points.join(", ")}`);
  const chain = await world.busctl(["verify"]);
  assert.equal(chain.code, 0, chain.out + chain.err);
});

// --- down

const ENDS = ["bus.end.before-remove-socket", "bus.end.before-remove-endpoint"] as const;

for (const point of ENDS)
  test(`down while the bus dies at ${point}: down again says that nothing runs, up and a run work`, async (t) => {
    const world = makeWorld(t);
    const dir = faults(world);
    world.env[FAULT_VARIABLE] = dir;
    const ran = await world.run([{ id: "a", command: "echo ok > a.txt", allowed_files: ["a.txt"] }]);
    assert.equal(ran.code, 0, ran.out + ran.err);
    writeFileSync(join(dir, point), "1");
    const killed = await world.busctl(["down"]);
    assert.ok(!existsSync(join(dir, point)), "it died there");
    assert.equal(killed.code, 0, killed.out + killed.err);
    const again = await world.busctl(["down"]);
    assert.equal(again.code, 0, again.out + again.err);
    assert.match(again.out, /not running/);
    assert.deepEqual(
      processesOf(world.W).map(({ command }) => command),
      [],
    );
    const second = await world.busctl([
      "run",
      world.plan([{ id: "b", command: "echo b > b.txt" }], { run: "s" }),
    ]);
    assert.equal(second.code, 0, second.out + second.err);
    const { run } = await world.state("r");
    assert.deepEqual(
      run.landed.map(({ task }) => task),
      ["a"],
    );
    const chain = await world.busctl(["verify"]);
    assert.equal(chain.code, 0, chain.out + chain.err);
  });

// --- submit

const SUBMIT_POINTS = [
  "bus.journal.before-write",
  "bus.journal.before-sync",
  "bus.journal.before-apply",
] as const;

for (const point of SUBMIT_POINTS)
  test(`submit while the bus dies at ${point}, and submit itself killed: submitted again it is one run, run once`, async (t) => {
    const world = makeWorld(t);
    const dir = faults(world);
    world.env[FAULT_VARIABLE] = dir;
    const up = await world.busctl(["up"]);
    assert.equal(up.code, 0, up.err);
    const command = `echo x >> ${world.W}/starts; echo ok > a.txt`;
    const plan = world.plan([{ id: "a", command, allowed_files: ["a.txt"] }]);
    writeFileSync(join(dir, point), "1");
    const first = world.start(["submit", plan]);
    await until("the bus died there", () => !existsSync(join(dir, point)), 60_000);
    first.child.kill("SIGKILL");
    await first.ended;
    const again = await world.busctl(["run", plan]);
    assert.equal(again.code, 0, again.out + again.err);
    assert.equal(readFileSync(join(world.W, "starts"), "utf8"), "x\n");
    const { run, tasks } = await world.state("r");
    assert.equal(run.landed.length, 1);
    assert.ok((tasks.get("a")?.attempts ?? []).filter(({ result }) => result === "passed").length === 1);
    const submitted = (await world.audit({ kind: "event" })).filter(
      ({ event }) => event?.type === "run.submitted",
    );
    assert.equal(submitted.length, 1);
  });
