import assert from "node:assert/strict";
import { test } from "node:test";
import { contextOf } from "../../scheduler/context.ts";
import { homesOf } from "../../scheduler/dirs.ts";
import type { SecretValues } from "../../scheduler/environment.ts";
import { agentEnvSpecs, agentJob, checkEnvSpecs, checkFileName, checkJob } from "../../scheduler/jobs.ts";
import { metadataOf } from "../../scheduler/metadata.ts";
import { portPool } from "../../scheduler/port-pool.ts";
import { promptOf } from "../../scheduler/prompt.ts";
import { sparsePaths } from "../../scheduler/sparse.ts";
import { withoutToldWords } from "../../scheduler/told-words.ts";
import { Config } from "../../schemas/config.ts";
import { type EnvSpec, NO_ENV } from "../../schemas/task.ts";
import { NO_GROUPS } from "../helpers/limit-facts.ts";
import { AT, OID, ready, specOf, taskOf } from "../helpers/tasks.ts";

const evidence = {
  summary: "lint ended with exit code 1",
  log: "line\n```\n# not a heading",
  paths: ["a.ts"],
  landed_since: ["other"],
};
const attempt = {
  attempt: 1,
  worker: "w",
  base: OID("a"),
  workspace: "/w",
  started: AT,
  snapshots: [],
  verdicts: [],
  result: "check" as const,
  evidence,
};

test("S6, S7: context and prompt hold the failing output, the feedback, the files and the rules", () => {
  const spec = specOf("t", {
    goal: "Do it well.",
    allowed_files: ["src/**"],
    prohibited_actions: ["change a migration"],
  });
  const task = taskOf(spec, ready(), {
    attempts: [attempt],
    granted: ["more.ts"],
    feedback: "use the helper",
  });
  const history = [{ commit: OID("c"), date: AT, subject: "Earlier work" }];
  const context = contextOf(task, 2, OID("b"), ["secret/**"], { contextFiles: [], history });
  assert.deepEqual(context.allowed_files, ["src/**", "more.ts"]);
  const nothing = { contextFiles: [], history };
  const kept = contextOf(task, 2, OID("b"), ["more.ts", "src/**"], nothing);
  assert.deepEqual(kept.allowed_files, ["src/**"], "a file in both lists is only forbidden");
  assert.equal(context.earlier[0]?.cause, "check");
  const prompt = promptOf(context);
  for (const part of [
    "Do it well.",
    "src/**",
    "secret/**",
    "change a migration",
    "Earlier work",
    "use the helper",
    "landed",
    "lint ended",
  ])
    assert.ok(prompt.toLowerCase().includes(part.toLowerCase()), part);
  assert.doesNotMatch(prompt, /^# not a heading/m, "a log cannot speak as the template");
});

test("S6, case 71: lost attempts never crowd out what an attempt has to learn from", () => {
  const lost = (n: number) => ({ ...attempt, attempt: n, result: "lost" as const });
  const attempts = [attempt, ...[2, 3, 4, 5, 6, 7, 8].map(lost)];
  const context = contextOf(taskOf(specOf("t"), ready(), { attempts }), 9, OID("b"), [], {
    contextFiles: [],
    history: [],
  });
  assert.deepEqual(
    context.earlier.map(({ attempt: number, cause }) => `${number} ${cause}`),
    ["1 check", "8 lost"],
  );
});

const base = {
  config: Config.parse({ agents: { mine: { command: "agent-program" } } }),
  host: { PATH: "/usr/bin" },
  socket: "/run/bus.sock",
  runtimeDir: "/run",
  stateDir: "/state",
  repo: "/repo/.git",
  topLevel: "/repo",
  node: "/opt/node/bin/node",
  limitHost: { facts: NO_GROUPS, groups: { notes: [] } },
};
const place = {
  ref: { run: "r", task: "t", attempt: 1 },
  tokens: { shim: "shim-token", agent: "agent-token" },
  work: "/state/a/work",
  dir: "/state/a",
  homes: homesOf("/state/a"),
  port: 20_000,
  submodules: [],
  bin: "/state/a/bin",
};

const NONE: SecretValues = new Map();

test("issue 4.4, L6: a secret by reference goes to the agent, and to no check but the one that it is written for", () => {
  const spec = specOf("t", { env: { ...NO_ENV, set: { PLAIN: "p" }, secrets: { KEY: "cmd:pass key" } } });
  const sources = new Map([
    ["cmd:pass key", "value-of-key"],
    ["env:DEPLOY", "value-of-deploy"],
  ]);
  const agent = agentJob(base, place, spec, sources);
  assert.deepEqual(agentEnvSpecs(base, spec).at(-1), spec.env);
  assert.equal(agent.env.KEY, "value-of-key");
  assert.deepEqual(agent.secrets, [{ name: "KEY", value: "value-of-key" }]);
  const jobOf = (own?: EnvSpec) =>
    checkJob(
      base,
      place,
      { n: 1, name: "c", run: "true", timeout_s: 5, limits: {}, logDir: "/l" },
      { specs: checkEnvSpecs(base, spec.env, own), sources },
    );
  assert.equal(jobOf().env.KEY, undefined);
  assert.equal(jobOf().env.PLAIN, "p");
  const trusted = jobOf({ ...NO_ENV, secrets: { DEPLOY_KEY: "env:DEPLOY" } });
  assert.equal(trusted.env.DEPLOY_KEY, "value-of-deploy");
  assert.deepEqual(trusted.secrets, [{ name: "DEPLOY_KEY", value: "value-of-deploy" }]);
});

test("agents: a command line, a configured profile with its arguments; an unknown one is NO_SUCH_PROFILE", () => {
  assert.deepEqual(agentJob(base, place, specOf("t", { command: "echo $X" }), NONE).argv, [
    "/bin/sh",
    "-c",
    "echo $X",
  ]);
  const mine = agentJob(
    base,
    place,
    specOf("t", { command: undefined, agent: { use: "mine", model: "m", args: ["--a b"] } }),
    NONE,
  );
  assert.deepEqual(mine.argv, ["/bin/sh", "-c", 'agent-program "$@"', "mine", "--a b"]);
  assert.equal(mine.env.BUSBAR_MODEL, "m");
  assert.throws(() => agentJob(base, place, specOf("t", { agent: { use: "constructor", args: [] } }), NONE), {
    code: "NO_SUCH_PROFILE",
  });
});

test("L3: of task and configuration the stricter counts; strict limits that nobody can hold start nothing", () => {
  const config = Config.parse({ limits: { memory: 7, pids: 9 } });
  const job = agentJob({ ...base, config }, place, specOf("t", { limits: { memory: 8, pids: 3 } }), NONE);
  assert.deepEqual(job.limits, { memory: 7, pids: 3 });
  assert.equal(job.launch.missing.length, 2);
  assert.throws(() => agentJob(base, place, specOf("t", { limits: { memory: 8, strict: true } }), NONE), {
    code: "LIMIT_NOT_HELD",
  });
});

test("no token is in argv or environment; a check has no door of the agent", () => {
  const agent = agentJob(base, place, specOf("t"), NONE);
  assert.doesNotMatch(JSON.stringify([agent.argv, agent.env]), /shim-token|agent-token/);
  assert.ok(agent.task_socket?.startsWith("/run/t/"));
  const check = checkJob(
    base,
    place,
    { n: 3, name: "a/b: c", run: "true", timeout_s: 5, limits: {}, logDir: "/l" },
    { specs: checkEnvSpecs(base, specOf("t").env), sources: NONE },
  );
  assert.equal(check.task_socket, undefined);
  assert.equal(check.bus.agent_token, undefined);
  assert.equal(check.files.log, "3-a-b-c.log");
  assert.equal(checkFileName(1, "../.."), "1-check");
});

test("W5: metadata says what is not enforced", () => {
  const machine = {
    cores: 2,
    memory_total: 1,
    memory_free: 1,
    disk_total: 1,
    disk_free: 1,
    os: "x",
    kernel: "y",
  };
  const facts = {
    attempt: 1,
    base: OID("a"),
    started: AT,
    worker: "w",
    machine,
    versions: { node: "n", git: "g" },
    port: 1,
  };
  const metadata = metadataOf({
    ...facts,
    task: taskOf(specOf("t"), ready()),
    limits: { memory: 5, nofile: 64, pids: 9 },
    facts: { ...NO_GROUPS, groups: { ...NO_GROUPS.groups, pids: 2 } },
    sandbox: { shut: false, said: "none" },
    usage: undefined,
  });
  assert.deepEqual(metadata.limits_not_enforced, ["memory 5 B: no control group for it here"]);
  assert.match(metadata.limits_by, /^pids by control group v2; .*not held: kill, memory, cpu, io$/);
  assert.equal(metadata.agent.use, "command");
});

test("W2: a sparse workspace holds the task's files, configuration and the tests that bear its words", () => {
  const task = taskOf(
    specOf("t", { allowed_files: ["src/cart.ts"], context_files: ["docs/money.md"], tags: ["checkout"] }),
    ready(),
  );
  const all = [
    "package.json",
    "src/cart.ts",
    "src/other.ts",
    "docs/money.md",
    "docs/x.md",
    "test/cart.test.ts",
    "test/user.test.ts",
  ];
  const more = ["packages/a/tsconfig.json", "spec/checkout_spec.rb", "src/cart.css"];
  assert.deepEqual(sparsePaths([...all, ...more], task), [
    "package.json",
    "src/cart.ts",
    "docs/money.md",
    "test/cart.test.ts",
    "packages/a/tsconfig.json",
    "spec/checkout_spec.rb",
  ]);
});

test("case 52 gate-not-isolated: no number is leased twice at a time", () => {
  const pool = portPool(9_999);
  const leases = Array.from({ length: 300 }, () => pool.lease());
  assert.equal(new Set(leases.map((l) => l.port)).size, 300);
  for (const lease of leases) assert.ok(lease.port >= 20_000 && lease.port < 30_000);
});

test("S6, issue 2.6: evidence does not nest: what an agent prints of its own prompt or context is left out", () => {
  const spec = specOf("t", { goal: "Do it well.", allowed_files: ["src/**"] });
  const facts = { contextFiles: [], history: [{ commit: OID("c"), date: AT, subject: "Earlier work" }] };
  let attempts: (typeof attempt)[] = [];
  const sizes: number[] = [];
  for (let n = 1; n <= 6; n++) {
    const task = taskOf(spec, ready(), { attempts });
    const context = contextOf(task, n, OID("b"), [], facts);
    const bare = contextOf(task, n, OID("b"), [], { contextFiles: [], history: [] });
    const failure = ["FAIL it works", "expected 1", "got 2"];
    const printed = ["begin", ...promptOf(context).split("\n"), JSON.stringify(context, null, 2), ...failure];
    const log = withoutToldWords(printed.join("\n"), [promptOf(bare), JSON.stringify(bare, null, 2)]);
    for (const line of ["begin", ...failure]) assert.ok(log.split("\n").includes(line), log);
    assert.doesNotMatch(log, /## (Goal|Rules|Attempt)|"earlier": \[/);
    sizes.push(log.length);
    attempts = [...attempts, { ...attempt, attempt: n, evidence: { ...evidence, log } }];
  }
  assert.ok((sizes.at(-1) ?? 0) <= 2 * (sizes[1] ?? 0), `bounded: ${sizes.join(", ")}`);
});

test("S6: a failure that is met again is evidence again, also beside a heading of ours", () => {
  const told =
    "# Task t\n\n## Goal\n\nDo it.\n\n## Attempt 1 failed: check\n\n    FAIL a\n    expected 1\n    got 2\n";
  const log = "FAIL a\nexpected 1\ngot 2\n";
  assert.equal(withoutToldWords(log, [told]), log);
  assert.equal(withoutToldWords(`## Rules\n${log}`, [told]), `## Rules\n${log}`);
});
