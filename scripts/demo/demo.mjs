// The demo: a dozen tasks on a clone of a real repository, without any model or key.
//
//   npm run demo                   a fresh clone of this project
//   npm run demo -- PATH           a clone of the repository at PATH (which is never touched)
//   npm run demo -- [PATH] --keep  leave everything as it is at the end, bus and scheduler included
//
// 1. Clone, and commit the plan, its little agents and the gate into the clone (seed/).
// 2. `busctl plan`, `busctl run`: runs until only tasks are left that wait for a person.
// 3. A person decides: `busctl grant` for the task that asked for one more file; `busctl tasks --follow` comes back to the run.
// 4. The demo checks itself: outcome and causes of every task, the user's side of the clone untouched, the integration
//    branch green in a clone of its own, the audit log whole.
// 5. `busctl down`; nothing is left. Exit 0 only when all of that holds.

import { existsSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { checkOutcome, checkProof } from "./expect.mjs";
import { fail, git, programs, say, show } from "./kit.mjs";
import { makeRepository } from "./repository.mjs";

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
/** busctl's exit code for "ended, but some tasks are not merged". */
const INCOMPLETE = 1;

function parse(args) {
  const options = { source: ROOT, keep: false };
  for (const arg of args) {
    if (arg === "--keep") options.keep = true;
    else if (arg.startsWith("-")) fail(`unknown option ${arg}; usage: npm run demo [-- PATH] [--keep]`);
    else options.source = resolve(arg);
  }
  return options;
}

/** A short name below /tmp where there is one: socket names have 107 bytes. */
function makeWorld() {
  const top = existsSync("/tmp") && process.platform !== "linux" ? "/tmp" : tmpdir();
  return realpathSync(mkdtempSync(join(top, "bb-demo-")));
}

async function main() {
  const options = parse(process.argv.slice(2));
  const started = performance.now();
  const world = makeWorld();
  const repo = join(world, "repo");
  const { busctl, busctlText, environment } = programs(ROOT, world, repo);
  let down = false;
  const clean = () => {
    if (options.keep) return;
    if (!down) busctlText("down");
    rmSync(world, { recursive: true, force: true, maxRetries: 5 });
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"])
    process.on(signal, () => {
      clean();
      process.exit(130);
    });

  try {
    say("1. A clone of a real repository, and a plan");
    makeRepository(options.source, repo);
    const before = userSide(repo);
    const plan = join(repo, "busbar-demo", "plan.yaml");
    show(busctl("plan", plan), [0]);

    say("2. The run");
    show(await busctl.live("run", plan), [INCOMPLETE]);

    say("3. A person decides: one more file for needs_more, then back to the run");
    show(busctl("grant", "demo/needs_more"), [0]);
    show(await busctl.live("tasks", "--follow", "--run", "demo"), [INCOMPLETE]);

    say("4. What came of it");
    show(busctl("tasks", "--run", "demo"), [0]);
    const faults = [...checkOutcome(busctlText), ...checkProof(world, repo)];
    if (userSide(repo) !== before) faults.push("the clone's own checkout, branch or stash was touched");
    show(busctl("verify"), [0]);

    say("5. To look closer");
    if (options.keep) {
      for (const line of closer(environment, repo)) console.log(`  ${line}`);
      console.log(`\nKept in ${world}. At the end: busctl down; rm -r ${world}`);
    } else {
      // Everything goes now: what can be looked at is shown, not promised.
      show(busctl("tasks", "--run", "demo", "--task", "flaky_fix"), [0]);
      show(busctl("tasks", "--audit", "--limit", "8"), [0]);
      console.log("\n$ git log --oneline busbar/demo");
      console.log(git(repo, "log", "--oneline", "-8", "busbar/demo"));
      console.log(
        "`npm run demo -- --keep` leaves all of this in place, and prints the commands for more.\n",
      );
      show(busctl("down"), [0]);
      down = true;
    }
    finish(faults, started);
  } catch (error) {
    console.error(`demo: ${error.message}`);
    process.exitCode = 1;
  } finally {
    clean();
  }
}

/** What a user would notice if it changed: HEAD, branch, index and working files, stash. */
function userSide(repo) {
  return ["symbolic-ref HEAD", "rev-parse HEAD", "status --porcelain=v2 --ignored", "stash list"]
    .map((args) => git(repo, ...args.split(" ")))
    .join("\n");
}

function closer(environment, repo) {
  return [
    `export ${environment}`,
    `alias busctl='node ${join(ROOT, "dist", "bus", "ctl", "main.js")} --repo ${repo}'`,
    "busctl tasks --run demo --task flaky_fix       # both tries, with the evidence between them",
    "busctl logs demo/uses_old_api --attempt 1      # what the agent wrote",
    "busctl tasks --audit --newest --limit 20       # who asked what, when, how fast",
    "busctl cat demo/index_page:busbar-demo/docs/INDEX.md",
    "busctl report demo",
    `git -C ${repo} log --oneline busbar/demo`,
  ];
}

function finish(faults, started) {
  const seconds = ((performance.now() - started) / 1000).toFixed(0);
  for (const fault of faults) console.log(`NOT AS EXPECTED: ${fault}`);
  if (faults.length > 0) {
    process.exitCode = 1;
    return;
  }
  console.log(
    `\nAll as expected, in ${seconds} s: what landed was proven on the very tree that landed; what was not stayed out.`,
  );
}

await main();
