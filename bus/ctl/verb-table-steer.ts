// The verbs by which a person steers tasks, and those for the programs behind them.

import type { VerbDef } from "./verb-def.ts";

type Decision = Pick<VerbDef, "name" | "summary" | "load"> & Partial<VerbDef>;

const ofTask = (verb: Decision): VerbDef => ({
  group: "Decide",
  words: "[RUN/]TASK",
  min: 1,
  max: 1,
  options: [],
  examples: [[`busctl ${verb.name} session_docs`, ""]],
  ...verb,
});

export const DECIDE_VERBS: readonly VerbDef[] = [
  ofTask({
    name: "approve",
    summary: "let a task land that waits for review",
    load: () => import("./verbs/approve.ts"),
  }),
  ofTask({
    name: "reject",
    summary: "send a task that waits for review back, with a reason",
    options: [{ name: "reason", short: "m", value: "TEXT", help: "what the next attempt is told (needed)" }],
    examples: [['busctl reject session_docs --reason "the example does not compile"', ""]],
    load: () => import("./verbs/reject.ts"),
  }),
  ofTask({
    name: "grant",
    words: "[RUN/]TASK [PATH..]",
    max: Number.POSITIVE_INFINITY,
    summary: "let a task change further files (default: those that it asked for)",
    examples: [["busctl grant session_docs docs/index.md", ""]],
    load: () => import("./verbs/grant.ts"),
  }),
  ofTask({
    name: "retry",
    summary: "try a blocked, failed or cancelled task again",
    options: [{ name: "feedback", short: "m", value: "TEXT", help: "what the next attempt is told" }],
    examples: [['busctl retry session_docs --feedback "use the new API"', ""]],
    load: () => import("./verbs/retry.ts"),
  }),
  ofTask({
    name: "cancel",
    words: "[RUN[/TASK]]",
    min: 0,
    summary: "cancel a run, or one task of it",
    options: [{ name: "yes", short: "y", help: "do not ask" }],
    examples: [
      ["busctl cancel sessions-to-service", "the whole run"],
      ["busctl cancel sessions-to-service/session_docs", "one task"],
    ],
    load: () => import("./verbs/cancel.ts"),
  }),
  ofTask({
    name: "pause",
    words: "[RUN]",
    min: 0,
    summary: "start no further attempts of a run; what runs goes on",
    examples: [["busctl pause", ""]],
    load: () => import("./verbs/pause.ts"),
  }),
  ofTask({
    name: "resume",
    words: "[RUN]",
    min: 0,
    summary: "go on with a paused run",
    examples: [["busctl resume", ""]],
    load: () => import("./verbs/resume.ts"),
  }),
];

const house = (verb: Decision): VerbDef => ({
  group: "House",
  words: "",
  min: 0,
  max: 0,
  options: [],
  examples: [[`busctl ${verb.name}`, ""]],
  ...verb,
});

export const HOUSE_VERBS: readonly VerbDef[] = [
  house({
    name: "up",
    summary: "start bus and scheduler of this repository, if they do not run",
    load: () => import("./verbs/up.ts"),
  }),
  house({
    name: "down",
    summary: "end them, and wait until they are gone",
    options: [{ name: "leave-running", help: "let agents go on; the next `busctl up` takes them over" }],
    load: () => import("./verbs/down.ts"),
  }),
  house({
    name: "doctor",
    summary: "what holds and works on this host, each proven by trying, with the cure",
    more: [
      "Exit codes: 0 nothing needed is missing, 1 something that busbar or your configuration needs is missing.",
    ],
    examples: [
      ["busctl doctor", ""],
      ["busctl doctor --json | jq '.findings[] | select(.state != \"good\")'", "what is missing"],
    ],
    load: () => import("./verbs/doctor.ts"),
  }),
  house({
    name: "verify",
    summary: "prove that the audit log is whole and unchanged",
    more: ["Exit codes: 0 whole, 1 damaged, 3 the bus does not run."],
    load: () => import("./verbs/verify.ts"),
  }),
  house({
    name: "repair",
    summary: "take damaged records out of an audit log, or go on without a lost state",
    options: [{ name: "yes", short: "y", help: "do not ask" }],
    more: [
      "Says first what would be lost. All that is changed is copied beside it before; `busctl verify` reports the gap for ever.",
      "Exit codes: 0 repaired, or nothing to repair; 2 not agreed to, or a bus runs; 3 machine trouble.",
    ],
    load: () => import("./verbs/repair.ts"),
  }),
  house({
    name: "gc",
    summary: "archive workspaces that nobody needs; never what was not harvested",
    options: [
      { name: "dry-run", help: "only say what would be archived" },
      { name: "all", help: "also those not idle for long" },
      {
        name: "idle",
        value: "TIME",
        help: "idle for at least this long, e.g. 30m, 2h (default: the configuration's)",
      },
    ],
    examples: [["busctl gc --dry-run", ""]],
    load: () => import("./verbs/gc.ts"),
  }),
  house({
    name: "completion",
    words: "bash|zsh|fish",
    min: 1,
    max: 2,
    summary: "print the completion script of a shell",
    more: [
      "The scripts offer names of tasks and runs by `busctl completion tasks|runs [PREFIX]`: one a line, from the bus that runs, nothing where none answers.",
    ],
    examples: [
      ["source <(busctl completion bash)", "in ~/.bashrc"],
      ["busctl completion fish > ~/.config/fish/completions/busctl.fish", ""],
    ],
    completes: "shell",
    load: () => import("./verbs/completion.ts"),
  }),
];
