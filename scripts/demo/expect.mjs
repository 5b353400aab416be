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

/** One line per task that did not come out as it should. */
export function checkOutcome(busctlText) {
  const tasks = new Map(
    JSON.parse(busctlText("tasks", "--run", "demo", "--json")).tasks.map((task) => [task.spec.id, task]),
  );
  const faults = [];
  const expect = (holds, what) => {
    if (!holds) faults.push(what);
  };
  const results = (id) => (tasks.get(id)?.attempts ?? []).map((attempt) => attempt.result);
  for (const id of MERGED) {
    const { state } = tasks.get(id) ?? {};
    expect(state?.name === "passed" && state.merged?.commit, `${id} should be merged; it is ${state?.name}`);
  }
  for (const [id, kind] of Object.entries(BLOCKED)) {
    const { state } = tasks.get(id) ?? {};
    expect(
      state?.name === "blocked" && state.needs.kind === kind,
      `${id} should be blocked (${kind}); it is ${state?.name}`,
    );
  }
  expect(tasks.size === MERGED.length + Object.keys(BLOCKED).length, `there are ${tasks.size} tasks`);
  expect(`${results("flaky_fix")}` === "check,passed", `flaky_fix: ${results("flaky_fix")}`);
  expect(
    results("wanders").length === 1 && results("wanders")[0] === "scope",
    `wanders: ${results("wanders")}`,
  );
  expect(`${results("needs_more")}` === "needs_files,passed", `needs_more: ${results("needs_more")}`);
  expect(`${results("upstream_red")}` === "check,check", `upstream_red: ${results("upstream_red")}`);
  expect(
    results("downstream_of_red").length === 0,
    "downstream_of_red was tried although its upstream is red",
  );
  // Whichever of the two lands second is sent back.
  const clash = [results("renames_api"), results("uses_old_api")].map(String).sort();
  expect(
    clash[0] === "check_after_merge,passed" && clash[1] === "passed",
    `renames_api, uses_old_api: ${clash.join(" and ")}`,
  );
  return faults;
}

/** The integration branch in a clone of its own: the gate is green there, and nothing unproven is in it. */
export function checkProof(world, repo) {
  const faults = [];
  const proof = join(world, "proof");
  git(world, "clone", "-q", "--no-local", "--branch", "busbar/demo", repo, proof);
  for (const tool of ["check-syntax", "check-links", "run-tests"]) {
    const { status } = spawnSync(process.execPath, [join("busbar-demo", "tools", `${tool}.mjs`)], {
      cwd: proof,
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
