// `scheduler --doctor`: what will really hold processes here, each proven by trying it: a little program runs into the
// limit, in the same chain and the same groups as an agent (shim/launch.ts, shim/group.ts), and the kernel is asked what
// it did. All at once, a second or two. Groups lie in places of their own beside those in use, and are gone afterwards.
//
// The sandbox tries itself (sandbox-host.ts), and is told of here.

import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { faultPoint } from "../schemas/fault-points.ts";
import type { Finding } from "../schemas/finding.ts";
import type { JobGroups } from "../schemas/job.ts";
import type { GroupFeature } from "../schemas/limit-plan.ts";
import type { Limits } from "../schemas/limit-spec.ts";
import type { SandboxMode } from "../schemas/sandbox.ts";
import { Group, type GroupFacts } from "../shim/group.ts";
import { launchArgv } from "../shim/launch.ts";
import type { HostEnv } from "./environment.ts";
import { BASE_VARIABLE, probeGroups } from "./group-host.ts";
import { groupsOf, leaveGroups } from "./groups.ts";
import { type LimitHost, probeLimits } from "./limit-host.ts";
import { planLimits } from "./limit-plan.ts";
import type { SandboxHost } from "./sandbox-host.ts";

/** A trial that has no end by itself by then proves nothing. */
const TRIAL_MS = 10_000;
const MIB = 1024 * 1024;

/** What a little program did under limits. */
interface Tried {
  exit: number | null;
  signal: string | null;
  out: string;
  facts: GroupFacts;
  /** Periods in which its group had no CPU time left. */
  throttled: number;
  missing: string[];
  /** Lived on when the little program had ended. */
  left: number;
  /** Nobody was left after its group was killed. */
  emptied: boolean;
}

interface Trial {
  name: string;
  part: Finding["part"];
  limits: Limits;
  /** Command line of the little program. */
  line: string;
  /** The control group that it needs. */
  needs?: GroupFeature | "all";
  /** Left out for this user: why. */
  not?(host: LimitHost): string | undefined;
  /** Whether it was held. */
  held(tried: Tried): boolean;
  good: string;
  cure: string;
}

const GROUP_CURE =
  process.getuid?.() === 0
    ? `name a place of its own: ${BASE_VARIABLE}=/busbar busctl up`
    : `run busbar in a systemd unit with Delegate=yes, or as root, or name a place that you may write to with ${BASE_VARIABLE}`;
const ULIMIT_CURE = "util-linux and a POSIX shell are needed (apt install util-linux dash)";

/** Each is small, and ends by itself where nothing holds it. */
const TRIALS: readonly Trial[] = [
  {
    name: "kill",
    part: "isolation",
    limits: {},
    line: "(setsid env -i sleep 30 > /dev/null 2>&1 < /dev/null &) ; (setsid sleep 30 > /dev/null 2>&1 &); exit 0",
    needs: "all",
    held: ({ left, emptied }) => left >= 2 && emptied,
    good: "two that left session and environment behind died with their group",
    cure: GROUP_CURE,
  },
  {
    name: "memory",
    part: "limits",
    limits: { memory: 16 * MIB },
    line: "head -c 67108864 /dev/zero | tail -c 67108864 > /dev/null",
    needs: "memory",
    held: ({ facts }) => (facts.memoryKills ?? 0) > 0,
    good: "a hog of 64 MiB was killed at 16 MiB",
    cure: GROUP_CURE,
  },
  {
    name: "pids",
    part: "limits",
    limits: { pids: 6 },
    line: "for i in 1 2 3 4 5 6 7 8 9; do sleep 30 > /dev/null & done",
    needs: "pids",
    held: ({ facts }) => facts.pidsHit === true,
    good: "the seventh process was refused",
    cure: GROUP_CURE,
  },
  {
    name: "cpus",
    part: "limits",
    limits: { cpus: 0.1 },
    line: "timeout 0.4 sh -c 'while :; do :; done'",
    needs: "cpu",
    held: ({ throttled }) => throttled > 0,
    good: "a loop was slowed to a tenth of a core",
    cure: `${GROUP_CURE}; the unit needs the cpu controller`,
  },
  {
    name: "io",
    part: "limits",
    limits: { io_read: MIB, io_write: MIB },
    line: "exit 0",
    needs: "io",
    not: ({ facts }) => (facts.disk === undefined ? "the workspaces lie on no disk of their own" : undefined),
    held: ({ missing }) => missing.length === 0,
    good: "the kernel took a limit for the disk of the workspaces",
    cure: `${GROUP_CURE}; the unit needs the io controller, and the workspaces a disk`,
  },
  {
    name: "nofile",
    part: "limits",
    limits: { nofile: 64 },
    line: "ulimit -Sn; ulimit -Hn",
    held: ({ out }) => out === "64\n64\n",
    good: "open files were held to 64, soft and hard",
    cure: ULIMIT_CURE,
  },
  {
    name: "cpu",
    part: "limits",
    limits: { cpu_s: 1 },
    line: "while :; do :; done",
    held: ({ signal }) => signal === "SIGXCPU",
    good: "a loop ended by SIGXCPU after a second",
    cure: ULIMIT_CURE,
  },
  {
    name: "fsize",
    part: "limits",
    limits: { fsize: 4096 },
    line: 'f=$(mktemp) && (head -c 9000 /dev/zero > "$f"; wc -c < "$f"); rm -f "$f"',
    held: ({ out }) => out.trim() === "4096",
    good: "a file ended at 4096 bytes",
    cure: ULIMIT_CURE,
  },
  {
    name: "nproc",
    part: "limits",
    limits: { nproc: 4_000 },
    line: "grep '^Max processes' /proc/self/limits",
    not: ({ facts }) => (facts.uid === 0 ? "root is not held by it; pids is" : undefined),
    held: ({ out }) => Number(out.split(/\s+/)[3]) <= 4_000,
    good: "the processes of the user were held to 4000",
    cure: "apt install util-linux (prlimit)",
  },
];

export interface DoctorWords {
  env: HostEnv;
  /** Where the workspaces lie, or above. */
  dir: string;
  /** What the configuration asks for: what of it is missing is bad. */
  asked: { limits: Limits; sandbox: SandboxMode };
  probeSandbox(): Promise<SandboxHost>;
}

/** Never rejects: what cannot be tried is found missing. */
export async function examineIsolation(words: DoctorWords): Promise<Finding[]> {
  const { env, dir, asked } = words;
  const host = probeLimits(env, dir, probeGroups(env, `-doctor-${process.pid}`));
  try {
    const trials = TRIALS.map((trial) => findingOf(trial, host, asked.limits));
    return await Promise.all([...trials, sandboxFinding(words)]);
  } finally {
    leaveGroups(host.groups);
  }
}

async function sandboxFinding({ asked, probeSandbox }: DoctorWords): Promise<Finding> {
  const { works, said, cure } = (await probeSandbox()).facts;
  const found = { part: "isolation", name: "sandbox" } as const;
  if (works) return { ...found, state: "good", said: `${said}: a program ran inside` };
  const state = asked.sandbox === "required" ? "bad" : "poor";
  return { ...found, state, said, ...(cure === undefined ? {} : { cure }) };
}

async function findingOf(trial: Trial, host: LimitHost, asked: Limits): Promise<Finding> {
  const { name, part, good, cure } = trial;
  const lacks = trial.not?.(host) ?? noGroup(trial, host);
  const required = Object.keys(trial.limits).some((key) => asked[key as keyof Limits] !== undefined);
  const without = (said: string): Finding => ({ part, name, state: required ? "bad" : "poor", said, cure });
  if (trial.not?.(host) !== undefined && !required)
    return { part, name, state: "good", said: `not tried: ${lacks}` };
  if (lacks !== undefined) return without(lacks);
  try {
    const tried = await tryIt(trial, host);
    if (trial.held(tried)) return { part, name, state: "good", said: `${good}${byWhat(trial, host)}` };
    return without([`it was tried, and nothing held it`, ...tried.missing].join("; "));
  } catch (error) {
    return without(`it could not be tried: ${(error as Error).message}`);
  }
}

function noGroup({ needs }: Trial, { groups }: LimitHost): string | undefined {
  if (needs === undefined || groups[needs]) return undefined;
  const why = groups.notes.find((note) => note.startsWith(needs)) ?? groups.notes[0];
  return `no control group for it here${why === undefined ? "" : ` (${why})`}`;
}

function byWhat({ needs }: Trial, { groups }: LimitHost): string {
  const at = needs && groups[needs];
  return at ? ` (control group v${at.v})` : "";
}

async function tryIt({ name, limits, line }: Trial, host: LimitHost): Promise<Tried> {
  const plan = planLimits(limits, host.facts);
  const missing = [...plan.missing];
  const groups = groupsOf(host.groups, "doctor", { dir: name, name });
  const group = Group.make(groups, plan.writes, missing);
  try {
    const argv = launchArgv({ argv: ["/bin/sh", "-c", line], launch: plan }, group?.doors);
    const { child, ended } = start(argv);
    const { out, exit, signal } = await ended;
    if (!group && child.pid !== undefined) endSession(child.pid);
    const left = group?.pids().length ?? 0;
    const emptied = await empty(group);
    const facts = group?.facts() ?? {};
    return { exit, signal, out, facts, missing, left, emptied, throttled: throttledIn(groups) };
  } finally {
    group?.kill();
    await group?.remove();
  }
}

interface Ended {
  out: string;
  exit: number | null;
  signal: string | null;
}

function start(argv: string[]): { child: ChildProcess; ended: Promise<Ended> } {
  const [program = "", ...args] = argv;
  faultPoint("scheduler.doctor.before-try");
  const child = spawn(program, args, {
    cwd: "/",
    env: { PATH: "/usr/bin:/bin" },
    detached: true,
    timeout: TRIAL_MS,
    killSignal: "SIGKILL",
    stdio: ["ignore", "pipe", "ignore"],
  });
  let out = "";
  child.stdout?.on("data", (chunk) => {
    out += chunk;
  });
  const ended = new Promise<Ended>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (exit, signal) => resolve({ out, exit, signal }));
  });
  return { child, ended };
}

/** Waits until the kernel has emptied the group. */
async function empty(group: Group | undefined): Promise<boolean> {
  if (!group) return false;
  for (let wait = 1; wait <= 1024; wait *= 2) {
    group.kill();
    for (const pid of group.pids()) signal(pid);
    if (group.isEmpty()) return true;
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
  return group.isEmpty();
}

function endSession(pid: number): void {
  signal(-pid);
}

function signal(pid: number): void {
  try {
    faultPoint("scheduler.doctor.before-signal");
    process.kill(pid, "SIGKILL");
  } catch {
    // dead by now
  }
}

function throttledIn(groups: JobGroups | undefined): number {
  try {
    const text = readFileSync(join(groups?.cpu?.dir ?? "", "cpu.stat"), "latin1");
    return Number(/^nr_throttled (\d+)/m.exec(text)?.[1] ?? 0);
  } catch {
    return 0;
  }
}
