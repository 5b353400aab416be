// Runs plans while everything is killed, and looks after each whether the promise held: every acknowledged change is
// there, every completed attempt counted once, every running agent found again.
//
// A world is a repository with its bus and scheduler; it lives for some plans, one after the other. While a plan runs,
// programs are killed (storm.ts), what is missing is started again (programs.ts), and a person does what a person has
// to do (person.ts). When enough was killed, the plan goes on to its end in peace and is judged (verdict.ts).

import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { FAULT_VARIABLE } from "../../bus/client/fault.ts";
import { FREE_WAVES } from "../../schemas/limits.ts";
import type { Run, Task } from "../../schemas/task.ts";
import { lookAtCheckout } from "../../test/helpers/invariants.ts";
import { until } from "../../test/helpers/wait.ts";
import { endWorld, fillWorld, newWorld, type World } from "../../test/helpers/world.ts";
import { Dice } from "./dice.ts";
import { livingIn } from "./living.ts";
import { Person } from "./person.ts";
import { plannedTasks, runSpec, writeAgents } from "./plan.ts";
import { Points, PointTally } from "./points.ts";
import { Programs } from "./programs.ts";
import { type Kill, Storm } from "./storm.ts";
import { violationsOf } from "./verdict.ts";

export interface Options {
  seed: number;
  /** No plan is begun after this. */
  minutes: number;
  /** Nor after so many kills. */
  kills: number;
  killsPerPlan: number;
  /** Leave the folder of a violation. */
  keep: boolean;
  /** Only points whose names begin with this, and no other kills. */
  point?: string;
  say(line: string): void;
}

export interface Tally {
  plans: number;
  starts: number;
  kills: Map<string, number>;
  points: PointTally;
  violations: string[];
  /** How long the bus was away each time, as a person sees it, in milliseconds. */
  recoveries: number[];
}

const PLANS_PER_WORLD = 5;
/** Losses are innocent, but only so many are free; before that there is peace. */
const MAX_LOSSES = FREE_WAVES - 1;
/** Between two kills: mostly time enough for work to go on, now and then none, so that recovery is hit too. */
const PAUSE_MS = [1_000, 5_000] as const;
const SHORT_PAUSE_MS = [10, 250] as const;
const SHORT_SHARE = 0.25;
const POINTS_EVERY_MS = 50;
const LOOK_EVERY_MS = 150;
/** Something of a plan moves within this, on a slow machine; killing may have its whole length more. */
const STILL_LIMIT_MS = 120_000;
/** A plan that moves for ever does not end either. */
const PLAN_LIMIT_MS = 900_000;
const SETTLE_MS = 20_000;
const LAST_WORDS = 40;

export async function torture(options: Options): Promise<Tally> {
  const tally: Tally = {
    plans: 0,
    starts: 0,
    kills: new Map(),
    points: new PointTally(),
    violations: [],
    recoveries: [],
  };
  const dice = new Dice(options.seed);
  const end = performance.now() + options.minutes * 60_000;
  const goesOn = () =>
    performance.now() < end && total(tally) < options.kills && tally.violations.length === 0;
  while (goesOn()) {
    const world = newWorld();
    let left = true;
    try {
      await oneWorld(world, dice, options, tally, goesOn);
      left = tally.violations.length > 0;
    } finally {
      await endWorld(world, left && options.keep);
      if (left && options.keep) options.say(`kept: ${world.W}`);
    }
  }
  return tally;
}

export function total(tally: Tally): number {
  return [...tally.kills.values()].reduce((sum, n) => sum + n, 0);
}

async function oneWorld(
  world: World,
  dice: Dice,
  options: Options,
  tally: Tally,
  goesOn: () => boolean,
): Promise<void> {
  fillWorld(world);
  writeAgents(world.W);
  writeFileSync(join(world.W, "trace"), "");
  const config = join(world.W, "home", ".config", "busbar");
  mkdirSync(config, { recursive: true });
  writeFileSync(join(config, "config.yaml"), "kill_grace_ms: 300\n");
  const points = new Points(world.W, dice, tally.points, options.point);
  const programs = new Programs(world, dice, { [FAULT_VARIABLE]: points.dir });
  const keeper = programs.keep();
  const person = new Person(world);
  try {
    for (let n = 1; n <= PLANS_PER_WORLD && goesOn(); n += 1)
      await onePlan({ world, dice, options, tally, person, points, run: `r${n}` });
  } finally {
    person.close();
    programs.stop();
    await keeper;
    tally.starts += programs.starts;
    tally.recoveries.push(...person.recoveries);
  }
  if (tally.violations.length === 0) tally.violations.push(...(await leftBehind(world)));
}

interface PlanWork {
  world: World;
  dice: Dice;
  options: Options;
  tally: Tally;
  person: Person;
  points: Points;
  run: string;
}

async function onePlan(work: PlanWork): Promise<void> {
  const { world, dice, options, tally, person, run } = work;
  const planned = plannedTasks(world.W, run);
  const before = lookAtCheckout(world);
  const hardy = new Set(planned.filter((task) => task.hardy).map(({ spec }) => spec.id));
  const storm = new Storm(world, dice, run, hardy);
  const state: { tasks: readonly Task[]; run?: Run } = { tasks: [] };
  const faults: string[] = [];
  try {
    const kills = killing(work, storm, state);
    await person.submit(runSpec(run, join(world.repo, ".git"), world.git("rev-parse", "main"), planned));
    await untilEnded(work, state);
    await kills;
    const calm = () => livingIn(world.W).every(({ kind }) => ["bus", "scheduler", "helper"].includes(kind));
    await until("agents, checks and shims are gone", calm, SETTLE_MS);
    const end = await until("the bus answers", () => person.look(run), SETTLE_MS);
    faults.push(
      ...(await violationsOf({
        world,
        person,
        ...end,
        planned,
        before,
        hurt: storm.hurt,
        shimKills: storm.shimKills,
      })),
    );
  } catch (error) {
    faults.push(
      `${(error as Error).stack ?? error}\n  ${stateWords(state.tasks)}\n  ${livingWords(world)}\n  run: ${JSON.stringify(state.run?.paused)}\n${lastWords(world)}`,
    );
  }
  tally.plans += 1;
  for (const { target } of storm.kills) tally.kills.set(target, (tally.kills.get(target) ?? 0) + 1);
  options.say(`${tally.plans} plans, ${total(tally)} kills, ${faults.length} violations`);
  if (faults.length === 0) return;
  tally.violations.push(...faults.map((fault) => `${run}: ${fault}`));
  tally.violations.push(`seed ${options.seed}, plan ${tally.plans}; kills: ${killWords(storm.kills)}`);
}

/** Kills until the plan is over or has had its share. */
async function killing(work: PlanWork, storm: Storm, state: { tasks: readonly Task[] }): Promise<void> {
  const { dice, points, options } = work;
  const over = () => state.tasks.length > 0 && state.tasks.every((task) => isOver(task));
  const lost = ({ counts }: Task) => (counts.lost ?? 0) + (counts.infra ?? 0) >= MAX_LOSSES;
  while (storm.kills.length < options.killsPerPlan && !over() && !state.tasks.some(lost)) {
    const [low, high] = dice.chance(SHORT_SHARE) ? SHORT_PAUSE_MS : PAUSE_MS;
    const until = performance.now() + dice.between(low, high);
    while (performance.now() < until && !over()) {
      for (const name of points.look()) storm.note(name);
      await delay(POINTS_EVERY_MS);
    }
    if (!over() && options.point === undefined) storm.strike(state.tasks);
  }
  for (const name of points.disarmAll()) storm.note(name);
}

async function untilEnded(
  { person, run }: PlanWork,
  state: { tasks: readonly Task[]; run?: Run },
): Promise<void> {
  const limit = performance.now() + PLAN_LIMIT_MS;
  let moved = performance.now();
  let before = "";
  while (!(state.tasks.length > 0 && state.tasks.every((task) => isOver(task)))) {
    if (performance.now() > limit) throw new Error(`the plan did not end within ${PLAN_LIMIT_MS / 1000} s`);
    const seen = await person.look(run);
    if (seen) Object.assign(state, seen);
    const now = state.tasks.map((task) => task.state_version).join(" ");
    if (now !== before) moved = performance.now();
    before = now;
    if (performance.now() - moved > STILL_LIMIT_MS)
      throw new Error(`nothing of the plan moved for ${STILL_LIMIT_MS / 1000} s`);
    await delay(LOOK_EVERY_MS);
  }
}

/** At an end that is not the person's turn to change. */
function isOver({ spec, state }: Task): boolean {
  if (state.name === "passed") return state.merged !== null;
  if (state.name === "cancelled") return true;
  if (state.name !== "blocked" || spec.id === "again") return false;
  return state.needs.kind === "retries_used" || (state.needs.kind === "upstream" && spec.id === "stuck");
}

/**
 * After `down`: no process, socket, lock, temporary file or clean place. What a shim that was killed left in the
 * directory of its attempt goes with that directory.
 */
async function leftBehind(world: World): Promise<string[]> {
  const { state_dir, runtime_dir } = world.endpoint();
  const down = await world.down();
  const faults = down.code === 0 ? [] : [`busctl down: exit ${down.code}: ${down.out}${down.err}`];
  for (const { pid, command } of livingIn(world.W)) faults.push(`a process was left: ${pid} ${command}`);
  for (const dir of [join(state_dir, "gate"), join(runtime_dir, "t")])
    for (const name of readdirSync(dir)) faults.push(`left: ${join(dir, name)}`);
  const find = `find ${state_dir} ${runtime_dir} repo/.git/busbar \\( -name '*.tmp' -o -name '*.new' -o -name '*.lock' -o -name '.output-*' -o -name '*.sock' -o -name '.*s' -type s \\) -not -path '*/runs/*'`;
  for (const path of world.sh(find).split("\n")) if (path !== "") faults.push(`left: ${path}`);
  return faults;
}

function killWords(kills: readonly Kill[]): string {
  return kills
    .map(({ at, target, task, pids }) => `${at} ms ${target}${task ? ` of ${task}` : ""} (${pids.join(" ")})`)
    .join("; ");
}

function stateWords(tasks: readonly Task[]): string {
  return tasks
    .filter((task) => !isOver(task))
    .map(({ spec, state }) => `${spec.id}: ${JSON.stringify(state).slice(0, 200)}`)
    .join("\n  ");
}

/** What the scheduler wrote last: the state alone does not say what it waits for. */
function lastWords(world: World): string {
  return world.sh(`tail -n ${LAST_WORDS} state/*/logs/scheduler.log | cut -c1-400 || true`);
}

function livingWords(world: World): string {
  return livingIn(world.W)
    .map(({ pid, kind, command }) => `${pid} ${kind} ${command.slice(0, 80)}`)
    .join("\n  ");
}
