// What must have come of the demo. Read from what busctl prints as JSON and from git, never from the demo's own belief.

import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { git } from "./kit.mjs";

const MERGED = [
  "text_slug",
  "text_wrap",
  "word_count",
  "flaky_fix",
  "file_map",
  "renames_api",
  "uses_old_api",
  "needs_more",
  "readme_link",
  "index_page",
];
const BLOCKED = { wanders: "retries_used", upstream_red: "retries_used", downstream_of_red: "upstream" };

/** One line per task that did not come out as it should. `busctlText` gives the output of a verb. */
export function checkOutcome(busctlText) {
  const [run] = JSON.parse(busctlText("tasks", "--run", "demo", "--json")).runs;
  const tasks = new Map(run.tasks.map((task) => [task.task, task]));
  const faults = [];
  const expect = (holds, what) => {
    if (!holds) faults.push(what);
  };
  for (const id of MERGED) {
    const task = tasks.get(id);
    expect(task?.state === "merged" && task.commit, `${id} should be merged; it is ${task?.state}`);
  }
  for (const [id, kind] of Object.entries(BLOCKED)) {
    const task = tasks.get(id);
    const found = `${task?.state} (${task?.needs?.kind})`;
    expect(
      task?.state === "blocked" && task.needs.kind === kind,
      `${id} should be blocked (${kind}); it is ${found}`,
    );
  }
  const all = MERGED.length + Object.keys(BLOCKED).length;
  expect(tasks.size === all, `there should be ${all} tasks; there are ${tasks.size}`);

  const results = (id) => {
    const { attempts } = JSON.parse(busctlText("tasks", "--task", `demo/${id}`, "--json"));
    return attempts.map((attempt) => attempt.result).join(", ");
  };
  const tries = (id, wanted) =>
    expect(results(id) === wanted, `${id} should have ended ${wanted}; it did ${results(id)}`);
  tries("flaky_fix", "check, passed");
  tries("wanders", "scope");
  tries("needs_more", "needs_files, passed");
  tries("upstream_red", "check, check");
  tries("downstream_of_red", "");
  // Whichever of the two lands second is sent back.
  const clash = [results("renames_api"), results("uses_old_api")].sort();
  expect(
    clash[0] === "check_after_merge, passed" && clash[1] === "passed",
    `one of renames_api and uses_old_api should have been sent back; they ended ${clash.join(" and ")}`,
  );
  return faults;
}

/** The integration branch in a clone of its own: the gate is green there, and nothing unproven is in it. */
export function checkProof(world, repo) {
  const faults = [];
  const proof = join(world, "proof");
  git(world, "clone", "-q", "--no-local", "--branch", "busbar/demo", repo, proof);
  for (const tool of ["check-syntax", "check-links", "run-tests"]) {
    // As from a shell: inside a run of node's own test runner another one would do nothing and call it green.
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    const { status } = spawnSync(process.execPath, [join("busbar-demo", "tools", `${tool}.mjs`)], {
      cwd: proof,
      env,
      encoding: "utf8",
    });
    console.log(`integration branch, ${tool}: ${status === 0 ? "green" : "RED"}`);
    if (status !== 0) faults.push(`${tool} is red on the integration branch`);
  }
  const changed = git(proof, "diff", "--name-only", "origin/HEAD", "HEAD").split("\n");
  for (const path of [
    "busbar-demo/tools/run-tests.mjs",
    "busbar-demo/src/lines.mjs",
    "busbar-demo/docs/wander.md",
  ])
    if (changed.includes(path)) faults.push(`${path} reached the integration branch`);
  for (const path of ["busbar-demo/docs/INDEX.md", "busbar-demo/docs/wrap.md", "README.md"])
    if (!changed.includes(path)) faults.push(`${path} did not reach the integration branch`);
  return faults;
}
