// The verbs of busctl. None may have the name of a verb of systemd's busctl (handover.ts); a test checks it.

import type { OptionDef, VerbDef } from "./verb-def.ts";
import { DECIDE_VERBS, HOUSE_VERBS } from "./verb-table-steer.ts";

const RUN: OptionDef = { name: "run", value: "RUN", help: "the run (default: the newest live one)" };
const ATTEMPT: OptionDef = { name: "attempt", value: "N", help: "of that attempt (default: the newest)" };

const EXIT_CODES = [
  "Exit codes:",
  "  0    every task is merged (and the branch of --into was moved)",
  "  1    ended, but tasks are blocked, failed or cancelled",
  "  2    plan, words or repository refused; nothing was started",
  "  3    bus or machine trouble, or somebody ended the bus (busctl down)",
  "  4    not on a terminal: paused by the scheduler, and nothing of it moves; busctl resume RUN goes on",
  "  130  detached, the run goes on: Ctrl-C, or SIGTERM to another's run",
  "SIGTERM cancels the run that this command began, and waits for its end; a run that it attached to goes on.",
];

const RUN_OPTIONS: readonly OptionDef[] = [
  { name: "detach", short: "d", help: "submit, say the run's name, and leave" },
  { name: "name", value: "NAME", help: "name of the run (default: `run:` in the plan)" },
  { name: "base", value: "REF", help: "commit to start from (default: `base:` in the plan, else HEAD)" },
  { name: "into", value: "BRANCH", help: "move this branch to the result at the end" },
  { name: "workers", short: "w", value: "N", help: "attempts at once" },
  { name: "add-to", value: "RUN", help: "add the tasks to a run that exists" },
  { name: "dry-run", help: "check plan and repository, show what would run, start nothing" },
  { name: "keep-going", help: "stay when only tasks are left that wait for a person" },
];

const PLAN_AND_RUN: readonly VerbDef[] = [
  {
    name: "init",
    group: "Plan and run",
    words: "",
    min: 0,
    max: 0,
    summary: "write a first plan.yaml that fits this repository",
    options: [{ name: "force", help: "write what is missing although a part is there; never overwrites" }],
    examples: [["busctl init", "then edit plan.yaml"]],
    load: () => import("./verbs/init.ts"),
  },
  {
    name: "plan",
    group: "Plan and run",
    words: "FILE|DIR",
    min: 1,
    max: 1,
    summary: "check a plan: faults, waves, critical path, speed-up; runs nothing",
    options: [],
    more: ["Exit codes: 0 good (warnings may be there), 2 errors in the plan."],
    examples: [
      ["busctl plan plan.yaml", "faults with file, line and column"],
      ["busctl plan tasks/ --json", "for an editor or CI"],
    ],
    completes: "file",
    load: () => import("./verbs/plan.ts"),
  },
  {
    name: "run",
    group: "Plan and run",
    words: "FILE|DIR",
    min: 1,
    max: 1,
    summary: "run a plan to its end: starts what is missing, submits, watches",
    options: RUN_OPTIONS,
    more: EXIT_CODES,
    examples: [
      ["busctl run plan.yaml", ""],
      ["busctl run plan.yaml --detach --into release", ""],
      ["busctl run plan.yaml --json | jq .", "one JSON object a line"],
    ],
    completes: "file",
    load: () => import("./verbs/run.ts"),
  },
  {
    name: "submit",
    group: "Plan and run",
    words: "FILE|DIR",
    min: 1,
    max: 1,
    summary: "the same as `run --detach`",
    options: RUN_OPTIONS.filter((o) => o.name !== "detach" && o.name !== "keep-going"),
    examples: [["busctl submit plan.yaml", ""]],
    completes: "file",
    load: () => import("./verbs/submit.ts"),
  },
];

const WATCH: readonly VerbDef[] = [
  {
    name: "tasks",
    group: "Watch",
    words: "",
    min: 0,
    max: 0,
    summary: "tasks and their states; one task in full; the audit log",
    options: [
      { ...RUN, help: "the run, or `all` (default: the live ones, else the newest)" },
      { name: "task", short: "t", value: "[RUN/]TASK", help: "all about one task" },
      {
        name: "follow",
        short: "f",
        help: "go on with every change; without --run all live runs, one by one",
      },
      { name: "audit", short: "a", help: "the audit log instead" },
      { name: "method", value: "M", help: "audit: only this method, e.g. get_file" },
      { name: "actor", value: "A", help: "audit: only this actor, e.g. person" },
      { name: "request-id", value: "X", help: "audit: only this request" },
      { name: "since", value: "T", help: "audit: from then on; ISO time, or 10m, 2h, 1d ago" },
      { name: "until", value: "T", help: "audit: up to then" },
      { name: "limit", short: "n", value: "N", help: "audit: the last N records (default 1000)" },
      { name: "newest", help: "audit: the newest first" },
    ],
    more: [
      "A line of --audit: time, sequence number, who, event or method, run/task#attempt, facts; of a read also how long it took and its request id.",
      "--audit leaves out `ping` and `hello` unless --method names them; with --json nothing is left out.",
      "Exit codes: 0, 2 unknown run or task, 3 the bus does not run here (nothing is started).",
    ],
    examples: [
      ["busctl tasks --follow", ""],
      ["busctl tasks --task session_docs", ""],
      ["busctl tasks --audit --method get_file --since 10m", ""],
    ],
    load: () => import("./verbs/tasks.ts"),
  },
  {
    name: "logs",
    group: "Watch",
    words: "[RUN/]TASK",
    min: 1,
    max: 1,
    summary: "what the agent of a task wrote",
    options: [
      { name: "follow", short: "f", help: "go on until the attempt ends" },
      ATTEMPT,
      { name: "check", value: "NAME", help: "the log of a check instead of the agent's" },
      { name: "tail", short: "n", value: "N", help: "only the last N lines" },
    ],
    examples: [
      ["busctl logs -f session_docs", ""],
      ["busctl logs session_docs --check types --tail 40", ""],
    ],
    load: () => import("./verbs/logs.ts"),
  },
  {
    name: "report",
    group: "Watch",
    words: "[RUN]",
    min: 0,
    max: 1,
    summary: "the report of a run: what landed, what did not, why, what to do",
    options: [
      { name: "format", value: "md|json", help: "Markdown (default) or JSON" },
      { name: "output", short: "o", value: "FILE", help: "write it there" },
    ],
    examples: [["busctl report -o report.md", ""]],
    load: () => import("./verbs/report.ts"),
  },
];

const LOOK: readonly VerbDef[] = [
  {
    name: "cat",
    group: "Look at the work",
    words: "[RUN/]TASK:PATH",
    min: 1,
    max: 1,
    summary: "a file as it stands in the newest snapshot of a task",
    options: [{ name: "version", value: "N", help: "of that version of the snapshot (0 = the base)" }],
    examples: [["busctl cat session_docs:docs/session.md", ""]],
    load: () => import("./verbs/cat.ts"),
  },
  {
    name: "ls",
    group: "Look at the work",
    words: "[RUN/]TASK[:PREFIX]",
    min: 1,
    max: 1,
    summary: "the files of a task's snapshot",
    options: [{ name: "version", value: "N", help: "of that version of the snapshot (0 = the base)" }],
    examples: [["busctl ls session_docs:docs/", ""]],
    load: () => import("./verbs/ls.ts"),
  },
  {
    name: "diff",
    group: "Look at the work",
    words: "[RUN/]TASK",
    min: 1,
    max: 1,
    summary: "what a task changed, against its base",
    options: [ATTEMPT, { name: "stat", help: "files and counts only" }],
    examples: [["busctl diff session_docs --stat", ""]],
    load: () => import("./verbs/diff.ts"),
  },
  {
    name: "patch",
    group: "Look at the work",
    words: "[RUN/]TASK",
    min: 1,
    max: 1,
    summary: "the same as a patch for `git apply`, binary files and all",
    options: [ATTEMPT],
    examples: [["busctl patch session_docs > x.patch", "then: git apply --index x.patch, at the top"]],
    load: () => import("./verbs/patch.ts"),
  },
];

/** In the order of the help. */
export const VERBS: readonly VerbDef[] = [
  ...PLAN_AND_RUN,
  ...WATCH,
  ...LOOK,
  ...DECIDE_VERBS,
  ...HOUSE_VERBS,
];

export function findVerb(name: string): VerbDef | undefined {
  return VERBS.find((verb) => verb.name === name);
}
