// Cases from the field, kinds scope and merge, at the level of a whole run.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { GLOB_TABLE, type GlobRow } from "../helpers/case-tables.ts";
import { assertInvariants, lookAtCheckout } from "../helpers/invariants.ts";
import { makeWorld, type PlanTask } from "../helpers/world.ts";

/** The rows of the table, and those that only a whole plan can hold (null: the key is absent). */
const GLOBS: readonly (readonly [string[] | null, string[], string, GlobRow[3]])[] = [
  ...GLOB_TABLE,
  [null, [], "src/a.ts", "error"],
  [[], [], "src/a.ts", "error"],
];

const GLOB_REPO = `git init -q -b main repo; cd repo
mkdir -p 'app/[slug]/(group)' app/s src/.hidden docs .github/workflows 'we{ird}' 'back\\slash' 'plus+sign!'
for f in 'app/[slug]/(group)/page.tsx' app/s/page.tsx src/a.ts src/a.test.ts src/.env src/.hidden/x.ts docs/README.md .github/workflows/ci.yml 'we{ird}/x.ts' 'back\\slash/x.ts' 'plus+sign!/x.ts' package.json Makefile; do echo base > "$f"; done
git add -A; git commit -qm base`;

test("case 42 glob-table: every row of the table, in one run of real tasks", async (t) => {
  const world = makeWorld(t, GLOB_REPO);
  const append = world.agent("append", 'echo "$2" >> "$1"');
  const task = (row: (typeof GLOBS)[number], i: number): PlanTask => ({
    id: `row${i}`,
    // Rows that change the same file go one after the other; each appends in a place of its own.
    command: `${append} '${row[2]}' ${i}`,
    allowed_files: row[0] ?? undefined,
    forbidden_files: row[1],
    retries: 3,
  });
  const refused = GLOBS.map((row, i) => [row, i] as const).filter(([row]) => row[3] === "error");
  for (const [row, i] of refused) {
    const ran = await world.busctl(["plan", world.plan([task(row, i)])]);
    assert.equal(ran.code, 2, `row ${i} is refused: ${ran.out}${ran.err}`);
  }
  const rows = GLOBS.map((row, i) => [row, i] as const).filter(([row]) => row[3] !== "error");
  const ran = await world.run(
    rows.map(([row, i]) => task(row, i)),
    { workers: 6 },
  );
  assert.equal(ran.code, 1, ran.out + ran.err);
  const { tasks } = await world.state("r");
  for (const [row, i] of rows) {
    const got = tasks.get(`row${i}`);
    const results = got?.attempts.map((one) => one.result) ?? [];
    if (row[3] === "ok")
      assert.equal(
        got?.state.name === "passed" && got.state.merged !== null,
        true,
        `row ${i}: ${row} ${results}`,
      );
    else {
      assert.equal(results.at(-1), "scope", `row ${i}: ${row}`);
      assert.ok(
        got?.attempts.at(-1)?.evidence?.summary.includes(row[2]),
        `row ${i}: the reason names the file`,
      );
    }
  }
  await assertInvariants(world, "r");
});

test("case 44 gate-tampering: what the gate runs cannot be changed from the agent's side", async (t) => {
  const world = makeWorld(
    t,
    `git init -q -b main repo; cd repo; mkdir -p src test; printf '{"name":"x","scripts":{"test":"bash test/run.sh"}}\\n' > package.json
     echo 'grep -qx 42 src/answer.txt' > test/run.sh; echo 41 > src/answer.txt; printf 'node_modules\\n' > .gitignore; git add -A; git commit -qm base`,
  );
  const env = `printf 'script-shell=/bin/true\\n' > .npmrc; mkdir -p node_modules/.bin; printf '#!/bin/sh\\nexit 0\\n' > node_modules/.bin/bash; chmod +x node_modules/.bin/bash`;
  const slow = `( until [ -e "$W/gate.started" ]; do sleep 0.05; done; echo true > test/run.sh ) >/dev/null 2>&1 & echo ok > src/slow.txt`;
  const forbidden_files = ["test/**", "package.json"];
  const ran = await world.run([
    {
      id: "script",
      command: "sed -i 's/bash test.run.sh/true/' package.json; echo FIXED > src/new.txt",
      allowed_files: ["src/**"],
      acceptance: ["bash test/run.sh"],
    },
    { id: "test", command: "echo true > test/run.sh", forbidden_files, acceptance: ["bash test/run.sh"] },
    { id: "env", command: env, forbidden_files, acceptance: ["bash test/run.sh"] },
    {
      id: "slow",
      command: slow,
      allowed_files: ["src/**"],
      acceptance: [`touch "${world.W}/gate.started"; bash test/run.sh`],
    },
  ]);
  assert.equal(ran.code, 1, ran.out + ran.err);
  const { run, tasks } = await world.state("r");
  assert.equal(run.landed.length, 0);
  for (const id of ["script", "test"]) assert.equal(tasks.get(id)?.attempts[0]?.result, "scope", id);
  assert.match(tasks.get("script")?.attempts[0]?.evidence?.summary ?? "", /package\.json/);
  assert.equal(tasks.get("env")?.attempts[0]?.result, "check");
  assert.equal(tasks.get("slow")?.attempts[0]?.result, "check");
  const verdict = tasks.get("slow")?.attempts[0]?.verdicts.at(-1);
  assert.equal(verdict?.verdict, "fail");
  assert.match(verdict?.command ?? "", /test\/run\.sh/, "the log holds the command's text");
  await assertInvariants(world, "r");
});

test("protected acceptance tests are restored from the base before every check (G3)", async (t) => {
  const world = makeWorld(
    t,
    "git init -q -b main repo; cd repo; mkdir test; echo 'grep -qx 42 answer.txt' > test/run.sh; echo 41 > answer.txt; git add -A; git commit -qm base",
  );
  const ran = await world.run(
    [{ id: "cheat", command: "echo true > test/run.sh", acceptance: ["bash test/run.sh"] }],
    { protect: ["test/**"] },
  );
  assert.equal(ran.code, 1, ran.out + ran.err);
  assert.equal((await world.state("r")).run.landed.length, 0);
});

test("case 45 get-file-escape: a write through a link is seen, a new link outwards is refused", async (t) => {
  const world = makeWorld(
    t,
    `mkdir outside; echo TOP-SECRET > outside/secret; git init -q -b main repo; cd repo; mkdir src; echo base > src/f.txt
     ln -s src/f.txt alias; ln -s .env cfg; ln -s "$W/outside" src/out; echo K=1 > .env; git add -A; git commit -qm base`,
  );
  const command = world.agent("a", 'echo more >> alias; ln -sfn "$W/outside" src/dir2; echo K=2 > cfg');
  const ran = await world.run([
    { id: "a", command, allowed_files: ["src/**", "alias", "cfg"], forbidden_files: ["**/.env*"] },
  ]);
  assert.equal(ran.code, 1, ran.out + ran.err);
  assert.match(ran.out + ran.err, /src\/out/, "a tracked link that leaves the repository is reported");
  const evidence = (await world.state("r")).tasks.get("a")?.attempts[0]?.evidence;
  for (const path of [".env", "src/dir2"])
    assert.ok(evidence?.paths.includes(path), `${path}: ${evidence?.paths}`);
  const cat = await world.busctl(["cat", "r/a:src/out/secret"]);
  assert.notEqual(cat.code, 0);
  assert.doesNotMatch(cat.out, /TOP-SECRET/);
});

test("case 46 semantic-conflict: green alone, red together: one lands, the other is sent back with the evidence", async (t) => {
  const world = makeWorld(
    t,
    `git init -q -b main repo; cd repo; mkdir src; echo 'exports.greet = (n) => "hi " + n' > src/lib.js; echo 'require("./lib").greet("a")' > src/one.js
     echo 'set -e; for f in src/*.js; do node "$f"; done' > check.sh; git add -A; git commit -qm base`,
  );
  const rename = world.agent(
    "rename",
    `echo 'exports.welcome = (n) => "hi " + n' > src/lib.js; echo 'require("./lib").welcome("a")' > src/one.js`,
  );
  const caller = world.agent("caller", `echo 'require("./lib").greet("b")' > src/two.js`);
  const acceptance = ["bash check.sh"];
  const ran = await world.run(
    [
      { id: "rename", command: rename, allowed_files: ["src/lib.js", "src/one.js"], acceptance },
      { id: "caller", command: caller, allowed_files: ["src/two.js"], acceptance },
      {
        id: "later",
        command: "echo ok > later.txt",
        depends_on: ["caller"],
        allowed_files: ["later.txt"],
        acceptance,
      },
    ],
    { workers: 2 },
  );
  assert.equal(ran.code, 1, ran.out + ran.err);
  const { run, tasks } = await world.state("r");
  const results = ["rename", "caller"].map((id) => tasks.get(id)?.attempts[0]?.result).sort();
  assert.deepEqual(results, ["check_after_merge", "passed"]);
  const red = tasks.get(tasks.get("caller")?.attempts[0]?.result === "passed" ? "rename" : "caller");
  assert.deepEqual(red?.attempts[0]?.evidence?.landed_since, [
    red?.spec.id === "caller" ? "rename" : "caller",
  ]);
  for (const landing of run.landed)
    world.sh(`rm -rf at; git clone -q repo at; cd at; git checkout -q ${landing.commit}; bash check.sh`);
  await assertInvariants(world, "r");
});

test("case 49 lockfile-two-tasks: public files go through one lane; both dependencies land", async (t) => {
  const world = makeWorld(
    t,
    "git init -q -b main repo; cd repo; echo '{}' > package.json; echo base > package-lock.json; git add -A; git commit -qm base",
  );
  const add = world.agent("add", 'echo "$1" >> package-lock.json; echo ok > "src-$1.ts"');
  const task = (id: string) => ({
    id,
    command: `${add} ${id}`,
    allowed_files: ["src-*.ts", "package.json", "package-lock.json"],
    acceptance: [`grep -qx ${id} package-lock.json`],
    retries: 1,
  });
  const ran = await world.run([
    task("alpha"),
    task("yak"),
    { ...task("sneak"), allowed_files: ["src-*.ts"], retries: 0 },
  ]);
  assert.equal(ran.code, 1, ran.out + ran.err);
  const { tasks } = await world.state("r");
  for (const id of ["alpha", "yak"])
    assert.equal(tasks.get(id)?.attempts.length, 1, "no attempt was spent on a conflict");
  assert.equal(
    world.git("show", "busbar/r:package-lock.json").split("\n").sort().join(" "),
    "alpha base yak",
  );
  assert.deepEqual(tasks.get("sneak")?.attempts[0]?.evidence?.paths, ["package-lock.json"]);
  await assertInvariants(world, "r");
});

test("case 52 gate-not-isolated: checks at the same time have their own TMPDIR and PORT, outside the repository", async (t) => {
  const world = makeWorld(
    t,
    `git init -q -b main repo; cd repo; mkdir tests; echo cfg > root.config
     cat > tests/port.sh <<'E'
node -e 'const s=require("net").createServer().listen(+process.env.PORT,"127.0.0.1",()=>setTimeout(()=>process.exit(0),700));s.on("error",e=>{console.error(e.code);process.exit(1)})'
mkdir "$TMPDIR/fixed-name" && sleep 0.2 && rmdir "$TMPDIR/fixed-name"
d=$PWD; while [ "$d" != / ]; do d=$(dirname "$d"); [ ! -e "$d/root.config" ] || exit 1; done
E
     git add -A; git commit -qm base`,
  );
  const before = lookAtCheckout(world);
  const ran = await world.run(
    [1, 2, 3].map((i) => ({
      id: `g${i}`,
      command: `echo ok > g${i}.txt`,
      allowed_files: [`g${i}.txt`],
      acceptance: ["bash -e tests/port.sh"],
    })),
    { workers: 3 },
  );
  assert.equal(ran.code, 0, ran.out + ran.err);
  await assertInvariants(world, "r", before);
  assert.equal(readFileSync(join(world.repo, "root.config"), "utf8"), "cfg\n");
});

test("case 44 gate-tampering: a check that runs the candidate's code cannot rewrite the test that comes next (G3)", async (t) => {
  const world = makeWorld(
    t,
    `git init -q -b main repo; cd repo; mkdir -p src test; echo 'grep -qx good src/answer.txt' > test/gate.sh; echo good > src/answer.txt
     echo true > src/build.sh; git add -A; git commit -qm base`,
  );
  const command = world.agent(
    "a",
    // At once, later in time, and by a link in place of the folder.
    `echo evil > src/answer.txt
echo 'echo true > test/gate.sh; touch -r src/build.sh test/gate.sh; mv test aside; cp -r aside ../x; ln -s ../x test' > src/build.sh`,
  );
  const gate = {
    middle: [{ name: "build", run: "bash src/build.sh" }],
    deep: [{ name: "tests", run: "bash test/gate.sh" }],
  };
  for (const protect of [["test/**"], []]) {
    const run = `r${protect.length}`;
    const ran = await world.run([{ id: "a", command, allowed_files: ["src/**"] }], { run, gate, protect });
    assert.equal(ran.code, 1, ran.out + ran.err);
    const { run: state, tasks } = await world.state(run);
    assert.equal(state.landed.length, 0);
    const verdicts = tasks
      .get("a")
      ?.attempts[0]?.verdicts.map((one) => `${one.tier} ${one.check} ${one.verdict}`);
    const own = ["acceptance acceptance-1 pass", "middle build pass", "deep tests fail"];
    assert.deepEqual(
      verdicts,
      [...own, "base build pass", "base tests pass"],
      "and the gate is green on the base",
    );
  }
});

test("case 44 gate-tampering: a check that runs the candidate's code cannot lay a file beside the test that comes next (G3)", async (t) => {
  const world = makeWorld(
    t,
    `git init -q -b main repo; cd repo; mkdir src test; echo true > src/unit.sh
     echo 'for f in test/zz*.sh; do ! test -e $f || . ./$f; done; test -e made && ! test -e src/bad' > test/all.sh
     git add -A; git commit -qm base`,
  );
  const lay = "echo exit 0 > test/zz.sh; echo '*' > test/.gitignore";
  const gate = {
    setup: [{ run: "touch made" }],
    deep: [
      { name: "unit", run: "sh src/unit.sh" },
      { name: "contract", run: "sh test/all.sh" },
    ],
  };
  for (const protect of [["test/**"], []]) {
    const tasks = ["touch src/bad; ", ""].map((bad, i) => ({
      id: `t${i}`,
      command: world.agent(`a${i}-${protect.length}`, `${bad}echo "${lay}" > src/unit.sh`),
      allowed_files: ["src/**"],
      retries: 0,
    }));
    const run = `r${protect.length}`;
    const ran = await world.run(tasks, { run, gate, protect });
    assert.equal(ran.code, 1, ran.out + ran.err);
    const state = await world.state(run);
    const verdicts = state.tasks.get("t0")?.attempts[0]?.verdicts.map((one) => `${one.check} ${one.verdict}`);
    assert.ok(verdicts?.includes("contract fail"), verdicts?.join());
    // What the set-up made is there for the next check.
    assert.deepEqual(
      state.run.landed.map(({ task }) => task),
      ["t1"],
    );
  }
});
