// What a person may write, key by key: the one definition of the plan and task files. It gives the parser of shapes,
// the known keys for misspelt ones, and the published schemas (schemas/json/), whose descriptions an editor shows.
// Meaning (defaults, shorthands, units) is in normalise.ts.

import { z } from "zod";
import { idFault } from "../ids.ts";
import { MAX_WORKERS } from "../limits.ts";
import { pathFault } from "../repo-path.ts";
import { NETWORKS, SANDBOX_MODES, SandboxTerms } from "../sandbox.ts";
import { EnvSpec } from "../task.ts";
import { LimitsInput } from "./limits-input.ts";
import { checked, Duration } from "./quantities.ts";
import { COUNT_PATTERN, count, MONEY_PATTERN } from "./units.ts";

const ID_PATTERN = "^[A-Za-z0-9][A-Za-z0-9_.-]*$";

const Id = checked(idFault, ID_PATTERN);
const Path = checked(pathFault);
const Text = z.string();
const Patterns = z.array(z.string());
const Command = checked((s) => (s.trim() === "" ? "is empty" : s.includes("\0") ? "holds a NUL" : undefined));

const Count = z
  .union([
    z.int().positive(),
    checked((s) => (count(s) ? undefined : "is not a count; write 200k or 5M"), COUNT_PATTERN),
  ])
  .meta({ title: "count" });

const Env = z
  .strictObject({
    pass: EnvSpec.shape.pass.optional().describe("Names passed through from where the scheduler runs"),
    set: EnvSpec.shape.set.optional().describe("Names and their values"),
    secret: EnvSpec.shape.secret
      .optional()
      .describe("Names of `pass` whose values are kept out of every log"),
    secrets: EnvSpec.shape.secrets.describe(
      "Names and where their values are read: env:NAME, file:PATH or cmd:COMMAND; not for checks",
    ),
  })
  .superRefine(({ set, secret }, context) => {
    for (const [i, name] of (secret ?? []).entries()) {
      if (set === undefined || !Object.hasOwn(set, name)) continue;
      // A plan goes into the journal, and usually into the repository.
      const message = `${name} would stand in the plan and in the audit log; write \`secrets: {${name}: env:${name}}\``;
      context.addIssue({ code: "custom", path: ["secret", i], message });
    }
  });

const Agent = z
  .union([
    z.string().min(1),
    z.strictObject({
      use: z.string().min(1).describe("Name of an agent profile of the configuration"),
      model: z.string().min(1).optional().describe("Model, in the agent's own words"),
      args: z.array(z.string()).optional().describe("More arguments for the agent's command line"),
    }),
  ])
  .describe("Who does the work: the name of a profile, or {use, model, args}");

const Acceptance = z.union([
  checked((s) => (s.trim() === "" ? "is empty" : undefined)),
  z.strictObject({
    run: Command.optional().describe("Shell command that must end with 0, run at the top of the tree"),
    text: Text.optional().describe("The criterion in words, for the agent and for reviewers"),
  }),
]);

/** Keys that `defaults:` may set for every task. */
const Shared = {
  agent: Agent.optional(),
  model: z.string().min(1).optional().describe("Model for the agent chosen elsewhere"),
  priority: z.int().optional().describe("Smaller goes first; default 100"),
  timeout: Duration.optional().describe("Hard limit for one attempt: 600, 90s, 10m; default 10m"),
  retries: z.int().min(0).max(100).optional().describe("Tries after the first for bad work; default 3"),
  limits: LimitsInput.optional(),
  env: Env.optional().describe("Environment of the agent and of the checks"),
  tags: z.array(z.string()).optional().describe("Words to find tasks by"),
  forbidden_files: Patterns.optional().describe(
    "Patterns of files that must not change; stronger than allowed_files",
  ),
  prohibited_actions: z.array(z.string()).optional().describe("What the agent is told not to do"),
  checkout: z
    .enum(["full", "sparse"])
    .optional()
    .describe(
      "What the workspace holds: all files (default), or (sparse) what the task may change or is shown, configurations and tests of it",
    ),
  no_changes: z
    .enum(["fail", "ok"])
    .optional()
    .describe("Whether an attempt that changed nothing failed (default) or is done"),
  review: z.boolean().optional().describe("Wait for `busctl approve` before this lands"),
};

export const DefaultsInput = z
  .strictObject(Shared)
  .describe("For every task that does not say otherwise; lists and env are added to");

export const TaskInput = z
  .strictObject({
    $schema: z.string().optional().describe("For editors"),
    id: Id.describe(
      "Letters, digits, '_', '-', '.'; at most 64; in a file of its own the default is the file's name",
    ),
    goal: Text.optional().describe("What is to be true afterwards, in 300 to 800 characters"),
    interface: Text.optional().describe("Signatures, routes, formats that the work must keep or offer"),
    command: Command.optional().describe("Shell command line that does the work instead of an agent"),
    depends_on: z.array(z.string()).optional().describe("Ids of tasks that must have landed before"),
    allowed_files: Patterns.min(1).describe(
      "Patterns of files that may change, from the top of the repository; a directory covers all below it",
    ),
    context_files: z.array(Path).optional().describe("Files the agent is shown; at most 5 is wise"),
    acceptance: z
      .array(Acceptance)
      .optional()
      .describe("What proves the work: a command, text with a `command`, or {run, text}"),
    expected_lines: z
      .int()
      .positive()
      .optional()
      .describe("How many lines are expected to change; for the plan check"),
    changes_contracts: z
      .boolean()
      .optional()
      .describe("Whether this task may change the plan's contract files"),
    ...Shared,
  })
  .describe("One unit of work");
export type TaskInput = z.infer<typeof TaskInput>;

const Check = z.union([
  Command,
  z.strictObject({
    name: z.string().min(1).max(80).optional().describe("Short name for reports; default the command"),
    run: Command.describe("Shell command that must end with 0, run at the top of the tree"),
    inputs: Patterns.optional().describe(
      "Patterns of the files that alone decide the result: with the same content its pass counts again, and it needs nothing of checks before it",
    ),
    timeout: Duration.optional().describe("Hard limit; default 10m"),
    limits: LimitsInput.optional(),
    env: Env.optional().describe("More environment for this check, and the only secrets that it gets"),
  }),
]);
const Checks = z.array(Check).optional();

export const GateInput = z
  .union([
    z.literal("none"),
    z.strictObject({
      setup: z
        .array(
          z.union([
            Command,
            z.strictObject({
              run: Command.describe("Shell command that prepares a clean tree, e.g. npm ci"),
              key: Patterns.optional().describe(
                "Files whose contents decide whether it must run again; without, it runs in every place",
              ),
            }),
          ]),
        )
        .optional()
        .describe("Steps before the checks"),
      shallow: Checks.describe("Quick checks on the captured tree of one task"),
      middle: Checks.describe("Checks on the candidate: lint, build"),
      deep: Checks.describe("Checks on the candidate: the whole test suite"),
      canary: z
        .strictObject({
          file: Path.describe("File to break"),
          append: z.string().min(1).describe("What is appended to break it"),
        })
        .optional()
        .describe("A tree broken on purpose: the gate must find it red once per run before its green counts"),
    }),
  ])
  .describe("Checks that every change must pass; `none` says aloud that there are none");
export type GateInput = z.infer<typeof GateInput>;

/** The plan without its tasks, which are read one by one. */
export const PlanHead = z.strictObject({
  $schema: z.string().optional().describe("For editors"),
  run: Id.optional().describe("Name of the run; its branch is busbar/<run>. Default: from the file's name"),
  repo: z
    .string()
    .min(1)
    .optional()
    .describe("The repository, seen from the plan file; default the one it lies in"),
  base: z
    .string()
    .min(1)
    .optional()
    .describe("Commit or branch to start from; default the current branch's head"),
  into: z.string().min(1).optional().describe("Branch to move to the result at the end"),
  workers: z.int().min(1).max(MAX_WORKERS).optional().describe("Attempts at once; default from the machine"),
  schedule: z
    .enum(["eager", "waves"])
    .optional()
    .describe("Start what is ready at once (default), or wave by wave"),
  reads: z
    .enum(["dependencies", "run"])
    .optional()
    .describe("Whose snapshots a task may read: its dependencies' (default) or all of the run"),
  agent: Agent.optional(),
  sandbox: z
    .union([
      z.enum(SANDBOX_MODES),
      SandboxTerms.extend({
        // Read, so that the refusal says what there is.
        network: z
          .enum([...NETWORKS, "gateway"])
          .optional()
          .describe("Network of agents: full (default) or none"),
      }),
    ])
    .optional()
    .describe("Whether agents and checks are shut in: auto, required or off, or a mapping that says more"),
  budget: z
    .strictObject({
      tokens: Count.optional().describe("Tokens of the whole run, e.g. 5M"),
      money: z
        .string()
        .regex(new RegExp(MONEY_PATTERN), "is not an amount; write 20 USD")
        .optional()
        .describe("Cost of the whole run, e.g. 20 USD"),
    })
    .optional()
    .describe("What the run may use; read, not enforced yet"),
  gate: GateInput.optional(),
  copy: z
    .array(Path)
    .optional()
    .describe(
      "Files and directories of your checkout that are in no commit (.env): copied for agents and checks",
    ),
  may_hold_secrets: Patterns.optional().describe(
    "Patterns of files that may hold what looks like a secret (test data); a secret of the plan itself never",
  ),
  reuse_verdicts: z
    .boolean()
    .optional()
    .describe("Whether a check may stand by its pass on the same input (default); false: all run every time"),
  protect: Patterns.optional().describe("Patterns of files restored from the base before every check"),
  serial: Patterns.optional().describe(
    "Patterns of public files: tasks that may touch one go one after the other",
  ),
  contracts: Patterns.optional().describe(
    "Patterns of files read-only to all but tasks with changes_contracts",
  ),
  review: z
    .strictObject({
      agent: Agent.optional(),
      when: z
        .strictObject({
          risk: z.string().optional().describe("Lowest risk that needs a review, e.g. >= high"),
        })
        .optional()
        .describe("Which changes are reviewed"),
    })
    .optional()
    .describe("Rules for review; read, not enforced yet"),
  defaults: DefaultsInput.optional(),
  include: z
    .union([z.string(), Patterns])
    .optional()
    .describe("Patterns of task files, seen from the plan file"),
});
export type PlanHead = z.infer<typeof PlanHead>;

/** The whole plan file, for the published schema. */
export const PlanInput = PlanHead.extend({
  tasks: z.array(TaskInput).optional().describe("The tasks, beside those of `include`"),
}).describe("A plan of busbar: what is to be done on one repository, and what proves it");
