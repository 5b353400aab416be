// The first plan file and the first task file, as text. Pure.

import { hasChecks, type NamedCheck, type Proposal } from "./init-gate.ts";

/** A value as YAML takes it on one line: JSON strings are YAML strings. */
function yaml(value: string): string {
  return /^[A-Za-z][A-Za-z0-9 _./-]*$/.test(value) ? value : JSON.stringify(value);
}

function list(values: readonly string[]): string {
  return `[${values.map((value) => JSON.stringify(value)).join(", ")}]`;
}

export function planText(run: string, proposal: Proposal): string {
  return `# A plan for busbar: what is to be done on this repository, and what proves it.
#   busctl plan plan.yaml    checks it and shows its shape; runs nothing
#   busctl run plan.yaml     runs it; the proven work lands on the branch busbar/${run}
# Your checkout is never touched.

run: ${yaml(run)}
# base: main              # commit or branch to start from; default: the branch that is checked out
# into: main              # branch to move to the result at the end; default: none
# workers: 4              # attempts at once; default: by the machine
# schedule: waves         # default: eager - a task starts as soon as what it needs has landed

${gateText(proposal)}${sharedText(proposal)}
defaults:
  timeout: 10m
  retries: 2

# One file a task; Markdown, YAML or JSON. Tasks can also stand here, under \`tasks:\`.
include: tasks/*.{json,yaml,md}
`;
}

function gateText(proposal: Proposal): string {
  if (!hasChecks(proposal)) {
    return `# No checks were found here. \`none\` says aloud that only each task's own acceptance is proof.
# Better: name the commands that must pass on every change before it lands, for example
#   gate:
#     deep: [{name: tests, run: ./run-tests}]
gate: none
`;
  }
  const lines = [
    `# The checks that every change must pass on exactly the tree that lands (made from ${proposal.from.join(", ")}).`,
    "# shallow: on each task's own tree; middle and deep: on the merged candidate.",
    "gate:",
  ];
  if (proposal.setup.length > 0) {
    lines.push(
      "  setup:",
      ...proposal.setup.map((step) => `    - {run: ${yaml(step.run)}, key: ${list(step.key)}}`),
    );
  }
  for (const tier of ["shallow", "middle", "deep"] as const) {
    if (proposal[tier].length > 0) lines.push(`  ${tier}:`, ...proposal[tier].map(checkLine));
  }
  return `${lines.join("\n")}\n`;
}

function checkLine(check: NamedCheck): string {
  return `    - {name: ${yaml(check.name)}, run: ${yaml(check.run)}}`;
}

function sharedText(proposal: Proposal): string {
  const lines: string[] = [];
  if (proposal.serial.length > 0) {
    lines.push(
      "",
      "# Tasks that may touch one of these go one after the other.",
      `serial: ${list(proposal.serial)}`,
    );
  }
  if (proposal.protect.length > 0) {
    lines.push(
      "",
      "# Restored from the base before every check: no task can bend what judges it.",
      `protect: ${list(proposal.protect)}`,
    );
  }
  return lines.length === 0 ? "" : `${lines.join("\n")}\n`;
}

/** Works as it is, without any agent or key; then it is edited. */
export const EXAMPLE_TASK = `# One task. Copy this file for the next one; the file's name is the task's id where \`id\` is missing.
id: example
goal: >-
  Say what shall be true afterwards, not how: which behaviour, for whom, with which errors. Name the files that
  matter and what must stay as it is. 300 to 800 characters are a good length: shorter ones leave the agent to
  guess, longer ones hide two tasks in one. This example only writes a file, by a command instead of an agent, so
  that \`busctl run plan.yaml\` works before anything is set up.
# Who does the work: any command line. It finds its prompt in the file $BUSBAR_PROMPT.
command: mkdir -p docs && echo "Written by the example task." > docs/busbar-example.md
# depends_on: [another_task]
allowed_files: [docs/busbar-example.md]      # what it may change; anything else stops it
acceptance:                                  # commands that must end with 0, run at the top of the tree
  - test -s docs/busbar-example.md
`;
