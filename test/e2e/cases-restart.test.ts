// Case 71 restart-mid-run by name: the daemons are killed in the middle of everything, alone, with their shims, or with
// all their children, and started again; seven tasks, a chain of four and three beside it. Many more rounds, at random
// moments and between any two steps: test/fault/torture.test.ts and `npm run torture`.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { KINDS, type Kind, kill, livingIn } from "../../scripts/torture/living.ts";
import { writeAgents } from "../../scripts/torture/plan.ts";
import { isOver } from "../helpers/engine.ts";
import { assertInvariants, lookAtCheckout } from "../helpers/invariants.ts";
import { until } from "../helpers/wait.ts";
import { makeWorld, type PlanTask, type World } from "../helpers/world.ts";

interface Round {
  what: string;
  /** Kinds of processes that are killed together. */
  kill: readonly Kind[];
  /** Agents that have started by then. */
  started: number;
  starters: number;
  /** Killed once more when the bus is back. */
  again?: boolean;
  /** The workspace of one running attempt is removed before the restart. */
  remove?: boolean;
}

const EVERYTHING: readonly Kind[] = KINDS.filter((kind) => kind !== "busctl");
const ROUNDS: readonly Round[] = [
  { what: "the bus alone", kill: ["bus"], started: 2, starters: 1 },
  {
    what: "bus and scheduler, started again by two at once",
    kill: ["bus", "scheduler"],
    started: 4,
    starters: 2,
  },
  {
    what: "bus, scheduler and shims, and a workspace that is removed by hand",
    kill: ["bus", "scheduler", "agent-shim", "check-shim"],
    started: 3,
    starters: 1,
    remove: true,
  },
  {
    what: "all with all children, and again during recovery",
    kill: EVERYTHING,
    started: 5,
    starters: 1,
    again: true,
  },
];

function tasks(W: string): PlanTask[] {
  const task = (id: string, agent: string, up: string[] = []): PlanTask => ({
    id,
    command: `bash "${W}/agents/${agent}.sh" ${up.join(" ")}`,
    depends_on: up,
    allowed_files: [`${id}.txt`],
    acceptance: [`sleep 0.2; test -f ${id}.txt`],
    // Not one try may be used up by what was killed.
    retries: 0,
  });
  const chain = ["s1", "s2", "s3", "s4"].map((id, i) => task(id, "after", i === 0 ? [] : [`s${i}`]));
  return [...chain, ...["p1", "p2", "p3"].map((id) => task(id, "plain"))];
}

const trace = ({ W }: World) => readFileSync(join(W, "trace"), "utf8").trim().split("\n");

function killAll(world: World, kinds: readonly Kind[]): void {
  for (const { pid, kind } of livingIn(world.W)) if (kinds.includes(kind)) kill(pid);
}

async function startAgain(world: World, round: Round): Promise<void> {
  const up = () => Promise.all(Array.from({ length: round.starters }, () => world.busctl(["up"])));
  if (round.again) {
    const first = world.start(["up"]);
    await until("the bus is back", () => livingIn(world.W).some(({ kind }) => kind === "bus"));
    killAll(world, EVERYTHING);
    await first.ended; // whatever it says: what it started was killed under it
  }
  for (const ran of await up()) assert.equal(ran.code, 0, ran.out + ran.err);
}

for (const round of ROUNDS)
  test(`case 71 restart-mid-run: ${round.what}`, async (t) => {
    const world = makeWorld(t);
    writeAgents(world.W);
    writeFileSync(join(world.W, "trace"), "");
    mkdirSync(join(world.W, "home/.config/busbar"), { recursive: true });
    writeFileSync(join(world.W, "home/.config/busbar/config.yaml"), "kill_grace_ms: 300\n");
    const before = lookAtCheckout(world);
    const plan = world.plan(tasks(world.W), { workers: 4 });
    const ran = await world.busctl(["run", plan, "--detach"]);
    assert.equal(ran.code, 0, ran.out + ran.err);
    const starts = () => trace(world).filter((line) => line.startsWith("start "));
    await until("agents work", () => starts().length >= round.started);
    const running = [...(await world.state("r")).tasks.values()].flatMap(({ state }) =>
      state.name === "running" ? [state.workspace] : [],
    );
    killAll(world, round.kill);
    if (round.remove) {
      assert.ok(running[0], "an attempt runs");
      rmSync(running[0], { recursive: true, force: true, maxRetries: 10 });
    }
    await startAgain(world, round);
    const said = await world.busctl(["tasks", "--run", "r"]);
    assert.equal(said.code, 0, `answers during recovery: ${said.err}`);
    await until(
      "all seven are through",
      async () => [...(await world.state("r")).tasks.values()].every(isOver),
      90_000,
    );
    await judge(world, round);
    await assertInvariants(world, "r", before);
  });

async function judge(world: World, round: Round): Promise<void> {
  const { run, tasks: states } = await world.state("r");
  const landed = run.landed.map(({ task }) => task);
  assert.deepEqual([...landed].sort(), ["p1", "p2", "p3", "s1", "s2", "s3", "s4"]);
  assert.deepEqual(
    landed.filter((id) => id.startsWith("s")),
    ["s1", "s2", "s3", "s4"],
  );
  const log = world.git(
    "log",
    "--reverse",
    "--format=%(trailers:key=Busbar-Task,valueonly)",
    "main..busbar/r",
  );
  assert.deepEqual(
    log.split("\n").filter((line) => line !== ""),
    landed,
  );
  for (const { spec, attempts } of states.values())
    for (const { result } of attempts)
      assert.ok(
        ["passed", "lost", "infra"].includes(result ?? "") || (round.remove && result !== undefined),
        `${spec.id}: ${attempts.map((one) => `${one.result} ${one.evidence?.summary ?? ""}`).join("; ")}`,
      );
  const lines = trace(world);
  assert.deepEqual(
    lines.filter((line) => line.startsWith("overlap")),
    [],
  );
  const begun = lines.filter((line) => line.startsWith("start")).map((line) => line.split(" ", 4).join(" "));
  assert.deepEqual([...new Set(begun)], begun, "no attempt was started twice");
  const chain = await world.busctl(["verify"]);
  assert.equal(chain.code, 0, chain.out + chain.err);
}
