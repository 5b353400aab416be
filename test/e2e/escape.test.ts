// What agents may try to get out of their attempts (test/helpers/escapes.ts), with the real programs: in a sandbox nothing gets
// through; without one exactly what SECURITY.md lists.

import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type TestContext } from "node:test";
import { type Escape, pidsWith, type Targets } from "../helpers/escape-kit.ts";
import { ESCAPES } from "../helpers/escapes.ts";
import { groupsHere } from "../helpers/groups.ts";
import { hasSandbox } from "../helpers/sandbox.ts";
import { until } from "../helpers/wait.ts";
import { makeWorld, type World } from "../helpers/world.ts";

/** Stands for the person's other processes: listens in all ways, holds a file that has no name any more. */
const HOST = `
import os, socket, sys, threading, time
os.chdir(sys.argv[2])
open("held", "w").write("held")
os.dup2(os.open("held", os.O_RDONLY), 9)
os.unlink("held")
def serve(family, at):
    s = socket.socket(family)
    s.bind(at)
    s.listen()
    def loop():
        while True: s.accept()
    threading.Thread(target=loop, daemon=True).start()
    return s
tcp = serve(socket.AF_INET, ("127.0.0.1", 0))
serve(socket.AF_UNIX, "service.sock")
serve(socket.AF_UNIX, "\\0" + sys.argv[1])
print(tcp.getsockname()[1], flush=True)
time.sleep(600)
`;

const ALL = `: > results.txt
while read -r name; do
  timeout 30 bash "try/$name.sh" 2> /dev/null < /dev/null
  echo "$name $?" >> results.txt
done < try/names
exit 0
`;

function hasPython(t: TestContext): boolean {
  if (spawnSync("python3", ["-c", ""]).status === 0) return true;
  console.log(`LEFT OUT: ${t.name.split(":")[0]} attempts to escape (needs python3)`);
  t.skip("no python3 here");
  return false;
}

interface Tried {
  /** Names of those that got through. */
  through: string[];
  /** There are control groups. */
  grouped: boolean;
}

async function tryAll(t: TestContext, sandbox: unknown): Promise<Tried> {
  const world = makeWorld(t);
  const groups = groupsHere(t);
  world.env.BUSBAR_CGROUP_BASE = groups.base;
  world.env.SCHEDULER_SECRET = "hidden";
  const host = await startHost(world);
  try {
    return {
      through: await tryIn(world, makeTargets(world, host), sandbox),
      grouped: groups.all !== undefined,
    };
  } finally {
    cleanUp(host);
  }
}

/** Beside a victim of another run that is at work. */
async function tryIn(world: World, targets: Targets, sandbox: unknown): Promise<string[]> {
  commitScripts(world);
  const limits = { nofile: 256, fsize: "20M" };
  const plan = (set: object) => ({ sandbox, defaults: { env: { set }, limits } });
  const victim = { id: "victim", command: "echo secret > private; sleep 300" };
  const waiting = world.plan([victim], { ...plan({ VICTIM_WORD: "hidden" }), run: "v" });
  assert.equal((await world.busctl(["run", "--detach", waiting])).code, 0);
  const workOf = async () => (await world.state("v")).tasks.get("victim")?.attempts[0]?.workspace;
  await until("the victim works", async () => existsSync(join((await workOf()) ?? "", "work/private")));
  const agent = { id: "t", command: "bash try/all", no_changes: "ok" };
  const ran = await world.run([agent], plan({ ...targets }));
  const attempt = (await world.state("r")).tasks.get("t")?.attempts[0]?.workspace ?? "";
  const results = resultsIn(attempt);
  assert.deepEqual([...results.keys()].sort(), ESCAPES.map(({ name }) => name).sort(), ran.out + ran.err);
  const got = ({ name, seen }: Escape) => (seen ? seen(targets, attempt) : results.get(name) === 0);
  const through = ESCAPES.filter(got).map(({ name }) => name);
  await world.busctl(["cancel", "v"]);
  return through;
}

interface HostProcess {
  child: ChildProcess;
  word: string;
  out: string;
  port: string;
}

async function startHost(world: World): Promise<HostProcess> {
  const out = join(world.W, "out");
  const word = `busbar-escape-${process.pid}-${world.W.split("-").at(-1)}`;
  mkdirSync(out);
  const env = { PATH: world.env.PATH ?? "", HOST_SECRET: "hidden" };
  const child = spawn("python3", ["-c", HOST, word, out], { env, stdio: ["ignore", "pipe", "inherit"] });
  return { child, word, out, port: await firstLine(child) };
}

function makeTargets(world: World, { child, word, out, port }: HostProcess): Targets {
  const PERSON = join(world.W, "home");
  mkdirSync(join(PERSON, ".ssh"));
  for (const file of [join(out, "secret"), join(out, "doomed"), join(PERSON, ".ssh/id")])
    writeFileSync(file, "secret\n");
  world.sh("git clone -q --bare repo out/other.git");
  return {
    ...{ OUT: out, PERSON, REPO: world.repo, WORD: word, LOCAL_PORT: port, HOST_PID: String(child.pid) },
    ...{ STATE: world.env.BUSBAR_STATE_DIR ?? "", RUNTIME: world.W },
  };
}

/** Also what got through. */
function cleanUp({ word }: HostProcess): void {
  for (const pid of pidsWith(word)) process.kill(pid, "SIGKILL");
  for (const dir of ["/tmp", "/dev/shm", "/usr/local", "/etc"]) rmSync(join(dir, word), { force: true });
}

async function firstLine(child: ChildProcess): Promise<string> {
  let out = "";
  child.stdout?.on("data", (chunk) => {
    out += chunk;
  });
  await until("the host process listens", () => out.includes("\n"));
  return out.trim();
}

function commitScripts(world: World): void {
  const dir = join(world.repo, "try");
  mkdirSync(dir);
  for (const { name, script } of ESCAPES) writeFileSync(join(dir, `${name}.sh`), `${script}\n`);
  writeFileSync(join(dir, "names"), ESCAPES.map(({ name }) => `${name}\n`).join(""));
  writeFileSync(join(dir, "all"), ALL);
  world.sh("cd repo; git add -A; git commit -qm try");
}

function resultsIn(attempt: string): Map<string, number> {
  const lines = readFileSync(join(attempt, "work/results.txt"), "utf8").trim().split("\n");
  return new Map(lines.map((line) => [line.split(" ")[0] ?? "", Number(line.split(" ")[1])]));
}

/** Root with all its rights; in a container it may be less. */
function isFullRoot(): boolean {
  const rights = (name: string) =>
    new RegExp(`^${name}:\\s*(\\w+)`, "m").exec(readFileSync("/proc/self/status", "utf8"))?.[1];
  const last = Number(readFileSync("/proc/sys/kernel/cap_last_cap", "utf8"));
  return process.getuid?.() === 0 && BigInt(`0x${rights("CapEff")}`) === (1n << BigInt(last + 1)) - 1n;
}

test("L4, L7: in a sandbox without network no attempt to get out gets through", async (t) => {
  assert.ok(ESCAPES.length >= 40);
  if (!hasSandbox(t) || !hasPython(t)) return;
  const { through } = await tryAll(t, { mode: "required", network: "none" });
  assert.deepEqual(through, []);
});

test("L4: without a sandbox exactly that gets through which SECURITY.md lists", async (t) => {
  if (!hasPython(t)) return;
  const { through, grouped } = await tryAll(t, "off");
  const root = isFullRoot();
  for (const { name, open } of ESCAPES) {
    const got = through.includes(name);
    if (open === "always") assert.ok(got, `${name} was held, but SECURITY.md says that it is not`);
    if (open === "never") assert.ok(!got, `${name} got through, but SECURITY.md says that it is held`);
    if (open === "root" && process.getuid?.() !== 0) assert.ok(!got, `${name} got through without root`);
    if (open === "root" && root) assert.ok(got, `${name} was held, but SECURITY.md says that root is not`);
    if (open === "ungrouped" && grouped)
      assert.ok(!got, `${name} got through although there are control groups`);
  }
});
