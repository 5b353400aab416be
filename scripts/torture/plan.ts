// The plan that is tortured: chains, a fan-out and its fan-in, a task that needs the evidence of its first try, one
// that fails for good with its downstream, one that talks through its task socket, one that leaves processes behind,
// and the four ways in which a person decides (approve, grant, retry, cancel). Small agents, real programs.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Gate, RunSpec, TaskSpec } from "../../schemas/task.ts";
import { runSpecOf, specOf } from "../../test/helpers/tasks.ts";

/** How a task must end. */
export type RightEnd = "merged" | "retries_used" | "upstream" | "cancelled";

export interface PlannedTask {
  spec: TaskSpec;
  end: RightEnd;
  /** Failures for bad work that are part of the plan: so many, never more or less. */
  failures: number;
  /** Its agents and checks may be killed directly: that counts as bad work, and it has tries enough. */
  hardy: boolean;
}

/** Tries for tasks whose agents are killed: agents that die count as bad work. */
const MANY = 60;

const LIB = `# Appends to the trace when it starts and ends, so that a second run at the same time would show.
nap() { sleep "0.$((RANDOM % 8))"; }
say() { echo "$1 $BUSBAR_RUN $BUSBAR_TASK_ID $BUSBAR_ATTEMPT_NUMBER $$ $(date +%s%N) \${2:-}" >> "$W/trace"; }
for e in $(grep -lzsx "BUSBAR_TASK_ID=$BUSBAR_TASK_ID" /proc/[0-9]*/environ); do
  grep -qzsx "BUSBAR_RUN=$BUSBAR_RUN" "$e" || continue
  grep -qzs "^BUSBAR_CONTEXT=$W" "$e" || continue
  grep -qzsx "BUSBAR_DIR=$BUSBAR_DIR" "$e" && continue
  say overlap "$e:$(tr '\\0' ' ' < "\${e%environ}cmdline" 2>/dev/null | head -c 80)"
done
say start
call() { for i in $(seq 100); do busbar-call "$@" && return 0; sleep 0.2; done; return 1; }
id=$BUSBAR_TASK_ID
`;

const AGENTS: Record<string, string> = {
  plain: `nap; echo "$id" > "$id.txt"`,
  after: `for up in $*; do test -f "$up.txt" || { say missing "$up"; exit 1; }; done; nap; echo "$id" > "$id.txt"`,
  learns: `nap; if grep -q needs-fixing "$BUSBAR_CONTEXT"; then echo fixed > "$id.txt"; else echo draft > "$id.txt"; fi`,
  talks: `echo one > "$id.txt"; version=$(call publish | grep -o '"version":[0-9]*' | head -1)
[ -n "$version" ] || exit 1
say published "$version"
call get_file "{\\"path\\":\\"$id.txt\\",\\"fresh\\":true}" | grep -q one || { say missing "what it had published"; exit 1; }
call task_status_update '{"status":"writing","percent":50}' > /dev/null || exit 1
nap; echo two > "$id.txt"`,
  leaves: `(trap "" TERM HUP; setsid sleep 300 > /dev/null 2>&1 &) ; (setsid sh -c 'sleep 301 & sleep 302' &) ; nap; echo "$id" > "$id.txt"`,
  asks: `if call request_files "{\\"paths\\":[\\"$id-more.txt\\"]}" | grep -q '"pending":\\[\\]'; then nap; echo more > "$id-more.txt"; fi; echo "$id" > "$id.txt"`,
  slow: `echo "$id" > "$id.txt"; sleep 60`,
};

/** Writes the agents into W/agents. */
export function writeAgents(W: string): void {
  mkdirSync(join(W, "agents"), { recursive: true });
  writeFileSync(join(W, "agents", "lib.sh"), LIB);
  for (const [name, script] of Object.entries(AGENTS))
    writeFileSync(join(W, "agents", `${name}.sh`), `. "$W/agents/lib.sh"\n${script}\nsay end\n`);
}

const check = (name: string, run: string) => ({ name, run, inputs: [], timeout_s: 60, limits: {} });
const GATE: Gate = {
  setup: [],
  shallow: [check("whole", "! grep -q BROKEN f.txt")],
  middle: [],
  deep: [check("deep", "sleep 0.05; test -f f.txt")],
  canary: { file: "f.txt", append: "BROKEN\n" },
};

/** The tasks of run `run` in folder W. */
export function plannedTasks(W: string, run: string): PlannedTask[] {
  const task = (
    id: string,
    agent: string,
    more: Partial<TaskSpec> = {},
    rest: Partial<PlannedTask> = {},
  ) => ({
    spec: specOf(id, {
      command: `bash "$W/agents/${agent}.sh" ${(more.depends_on ?? []).join(" ")}`,
      allowed_files: [`${id}.txt`],
      acceptance: [{ run: `test -s ${id}.txt` }],
      retries: MANY,
      timeout_s: 120,
      env: { pass: ["W"], set: {}, secret: [], secrets: { KEY: "cmd:echo of-the-torture" } },
      ...more,
    }),
    end: "merged" as const,
    failures: 0,
    hardy: true,
    ...rest,
  });
  const after = (...ids: string[]) => ({ depends_on: ids });
  const few = { hardy: false } as const;
  // The quotes keep the word out of the context file, which holds the command itself: only its log says it.
  const fixed = (id: string) => [{ run: `grep -q fixed ${id}.txt || { echo "needs"-fixing; exit 1; }` }];
  const allowed = [{ run: `test -e ${W}/allow-${run}` }];
  return [
    task("c1", "plain"),
    task("c2", "after", after("c1")),
    task("c3", "after", after("c2")),
    task("f1", "after", after("c1")),
    task("f2", "after", after("c1")),
    task("f3", "plain"),
    task("join", "after", after("f1", "f2", "f3")),
    task("learns", "learns", { acceptance: fixed("learns") }, { failures: 1 }),
    task(
      "bad",
      "plain",
      { retries: 1, acceptance: [{ run: "false" }] },
      { ...few, end: "retries_used", failures: 2 },
    ),
    task("stuck", "after", after("bad"), { ...few, end: "upstream" }),
    task("talks", "talks"),
    task("leaves", "leaves"),
    task("review", "plain", { review: true }),
    task("asks", "asks"),
    task("again", "plain", { retries: 0, acceptance: allowed }, { ...few, failures: 1 }),
    task("slow", "slow", {}, { ...few, end: "cancelled" }),
    task("last", "after", after("c3", "join", "review", "asks", "again")),
  ];
}

export function runSpec(run: string, repo: string, base: string, tasks: readonly PlannedTask[]): RunSpec {
  return runSpecOf(
    run,
    tasks.map(({ spec }) => spec),
    { repo, base, gate: GATE, workers: 6 },
  );
}
