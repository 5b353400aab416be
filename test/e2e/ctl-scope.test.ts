// What people see of a task that was stopped for its scope: the whole change, with what is outside marked (issue 2.6).

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { makeWorld } from "../helpers/world.ts";

test("S4, issue 2.6: diff shows what was changed outside the scope, marked, also when the workspace is archived", async (t) => {
  const setup = `git init -q -b main repo; cd repo; mkdir src; echo one > src/a.txt; echo two > src/b.txt; echo x > gone.txt
    git add -A; git commit -qm base`;
  const w = makeWorld(t, setup);
  const run = await w.run([
    {
      id: "wide",
      command:
        "echo 1 >> src/a.txt; echo 2 >> src/b.txt; mkdir docs; echo KEY-123 > docs/new.md; rm gone.txt",
      allowed_files: ["src/a.txt"],
    },
    { id: "astray", command: "echo 3 >> src/b.txt", allowed_files: ["src/a.txt"] },
  ]);
  assert.equal(run.code, 1, run.err);
  const look = async () => {
    const { out } = await w.busctl(["diff", "wide"]);
    const [inside = "", outside = ""] = out.split(/^# Out of scope, so in no commit: .*$/m);
    assert.match(inside, /\+\+\+ b\/src\/a\.txt/);
    assert.doesNotMatch(inside, /b\.txt|new\.md/);
    for (const line of [
      "diff --git a/docs/new.md b/docs/new.md",
      "+KEY-123",
      "diff --git a/src/b.txt b/src/b.txt",
      "+2",
    ])
      assert.ok(outside.split("\n").includes(line), `${line} in:\n${out}`);
    assert.match(outside, /deleted file mode[\s\S]*-x/);
  };
  await look();
  assert.match((await w.busctl(["diff", "wide", "--stat"])).out, /^ src\/b\.txt \| 1 \+$/m);
  assert.match((await w.busctl(["diff", "astray"])).out, /^# Out of scope, so in no commit: src\/b\.txt\n/);
  const json = JSON.parse((await w.busctl(["diff", "wide", "--json"])).out);
  assert.deepEqual(json.out_of_scope, ["docs/new.md", "gone.txt", "src/b.txt"]);
  const patch = await w.busctl(["patch", "wide"]);
  assert.doesNotMatch(patch.out, /KEY-123/);
  assert.match(patch.err, /3 files out of scope are not in the patch/);
  assert.match((await w.busctl(["report"])).out, /`docs\/new\.md` \*\*out of scope\*\*/);
  // In no object of the repository, as before.
  const grep = spawnSync("bash", ["-c", "git cat-file --batch-all-objects --batch | grep -c KEY-123"], {
    cwd: w.repo,
  });
  assert.equal(grep.stdout.toString().trim(), "0");
  const gone = await w.busctl(["gc", "--all"]);
  assert.match(gone.out, /total|r +2/);
  await look();
});

test("issue 2.6: a second run says that the first one's branch is not in its base, and starts from it with --base", async (t) => {
  const w = makeWorld(t);
  const task = (id: string, command: string) => [{ id, command, allowed_files: [`${id}.txt`] }];
  assert.equal((await w.run(task("a", "echo a > a.txt"))).code, 0);
  const plan = w.plan(task("b", "cp a.txt b.txt"), { run: "s" });
  assert.match((await w.busctl(["plan", plan])).out, /^busbar\/r is not in main; .*--base busbar\/r$/m);
  const json = JSON.parse((await w.busctl(["plan", plan, "--json"])).out);
  assert.deepEqual(json.unmerged, ["busbar/r"]);
  const without = await w.busctl(["run", plan]);
  assert.equal(without.code, 1, without.out);
  assert.match(without.err, /warning: busbar\/r is not in main/);
  const from = await w.busctl(["run", plan, "--base", "busbar/r", "--name", "third"]);
  assert.equal(from.code, 0, from.out + from.err);
  assert.doesNotMatch(from.err, /busbar\/r is not in/);
  w.git("merge", "-q", "--ff-only", "busbar/third");
  assert.doesNotMatch((await w.busctl(["plan", plan])).out, /is not in main/);
});

test("issue 2.6: plan and run say in one line what the checkout holds uncommitted, but for the plan itself", async (t) => {
  const w = makeWorld(t);
  const plan = w.plan([{ id: "a", command: "echo a > a.txt", allowed_files: ["a.txt"] }]);
  copyFileSync(plan, join(w.repo, "plan.yaml"));
  const here = join(w.repo, "plan.yaml");
  const clean = await w.busctl(["plan", here]);
  assert.doesNotMatch(clean.out, /not committed/);
  const [tracked = ""] = w.git("ls-files").split("\n");
  writeFileSync(join(w.repo, tracked), "changed\n");
  mkdirSync(join(w.repo, "new"));
  writeFileSync(join(w.repo, "new", "b.txt"), "new\n");
  const said = `2 files of your checkout are changed and not committed; agents start from main as committed, without that: ${tracked}, new/b.txt`;
  const planned = await w.busctl(["plan", here]);
  assert.equal(planned.code, 0, planned.err);
  assert.ok(planned.out.split("\n").includes(said), planned.out);
  const { uncommitted } = JSON.parse((await w.busctl(["plan", here, "--json"])).out);
  assert.deepEqual(uncommitted, [tracked, "new/b.txt"]);
  const dry = await w.busctl(["run", here, "--dry-run"]);
  assert.ok(dry.err.split("\n").includes(`warning: ${said}`), dry.err);
});

test("issue 2.6: completion offers names of the bus that runs, and nothing where none does", async (t) => {
  const w = makeWorld(t);
  const quiet = await w.busctl(["completion", "tasks"]);
  assert.deepEqual([quiet.code, quiet.out, quiet.err], [0, "", ""]);
  const tasks = ["ab", "ac", "b"].map((id) => ({
    id,
    command: `echo x > ${id}.txt`,
    allowed_files: [`${id}.txt`],
  }));
  assert.equal((await w.run(tasks)).code, 0);
  const names = async (...words: string[]) => {
    const { code, out, err } = await w.busctl(["completion", ...words]);
    assert.deepEqual([code, err], [0, ""]);
    return out.split("\n").filter((name) => name !== "");
  };
  assert.deepEqual(await names("tasks"), ["ab", "ac", "b"]);
  assert.deepEqual(await names("tasks", "a"), ["ab", "ac"]);
  assert.deepEqual(await names("runs", "r"), ["r"]);
  assert.deepEqual(await names("runs", "r/b"), ["r/b"]);
  assert.deepEqual(await names("tasks", "none/"), []);
});
