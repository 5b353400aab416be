// Cases from the field, kind git-config-env: hooks, leaked variables, poisoned configuration, signing, locale.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { assertInvariants, lookAtCheckout } from "../helpers/invariants.ts";
import { processesOf } from "../helpers/processes.ts";
import { makeWorld } from "../helpers/world.ts";

const OK = { id: "a", command: "echo ok > a.txt", allowed_files: ["a.txt"], acceptance: ["test -f a.txt"] };

for (const [what, hook] of [
  [
    "a pre-commit that cannot run",
    `mkdir -p .husky; printf '#!/bin/sh\\nexec prettier-not-installed\\n' > .husky/pre-commit; chmod +x .husky/pre-commit; git add -A; git commit -qm hook; git config core.hooksPath .husky`,
  ],
  [
    "post-checkout, post-merge, pre-merge-commit and reference-transaction that fail",
    `for h in post-checkout post-merge pre-merge-commit reference-transaction; do printf '#!/bin/sh\\nexit 3\\n' > .git/hooks/$h; chmod +x .git/hooks/$h; done`,
  ],
  [
    "hooks that hang",
    `for h in post-checkout pre-commit reference-transaction; do printf '#!/bin/sh\\necho ran >> "%s/hook.log"; sleep 600\\n' "$W" > .git/hooks/$h; chmod +x .git/hooks/$h; done`,
  ],
] as const)
  test(`case 17 hooks-fail-hang-or-missing: ${what}`, async (t) => {
    const world = makeWorld(
      t,
      `git init -q -b main repo; cd repo; echo base > f.txt; git add -A; git commit -qm base; mkdir -p .git/hooks; ${hook}`,
    );
    const before = lookAtCheckout(world);
    const ran = await world.run([OK]);
    assert.equal(ran.code, 0, ran.out + ran.err);
    assert.equal(existsSync(join(world.W, "hook.log")), false, "no hook of the user ran");
    await assertInvariants(world, "r", before);
  });

test("case 18 git-env-leak: leaked GIT_* variables choose nothing; the victim is untouched", async (t) => {
  const world = makeWorld(
    t,
    `git init -q -b main victim; (cd victim; echo v > v.txt; git add -A; git commit -qm victim)
     git init -q -b main repo; cd repo; echo base > f.txt; git add -A; git commit -qm base`,
  );
  const hash = () => world.sh("cd victim; find . -type f | sort | xargs sha256sum; git fsck 2>&1");
  const before = hash();
  const victim = join(world.W, "victim");
  const env = {
    GIT_DIR: `${victim}/.git`,
    GIT_INDEX_FILE: `${victim}/.git/index`,
    GIT_WORK_TREE: victim,
    GIT_PREFIX: "",
    GIT_OBJECT_DIRECTORY: `${victim}/.git/objects`,
  };
  const file = world.plan([
    {
      ...OK,
      command:
        'env | grep ^GIT_DIR && exit 1; test "$(git rev-parse --show-toplevel)" = "$PWD" && echo ok > a.txt',
      acceptance: ['test "$(git rev-parse --show-toplevel)" = "$PWD"'],
    },
  ]);
  const ran = await world.busctl(["run", file], { env });
  assert.equal(ran.code, 0, ran.out + ran.err);
  assert.equal(hash(), before);
  await assertInvariants(world, "r");
});

test("case 19 shared-config-poisoned: an agent's configuration reaches nobody", async (t) => {
  const world = makeWorld(t);
  const before = lookAtCheckout(world);
  const a = world.agent("a", 'GIT_DIR="$(git rev-parse --absolute-git-dir)" git init -q\necho ok > a.txt');
  const b = world.agent(
    "b",
    `printf '#!/bin/sh\\necho "$PPID $PWD" >> "%s/pwned"\\n' "$W" > "$W/evil"; chmod +x "$W/evil"
git config core.fsmonitor "$W/evil"; git config user.name Mallory; git config alias.status '!touch $W/pwned'
git config merge.x.driver "$W/evil %A"; mkdir -p .git/info .git/hooks; echo '* merge=x filter=x' >> .git/info/attributes
git config filter.x.clean "$W/evil"; git config filter.x.smudge "$W/evil"
for h in post-merge post-checkout pre-commit reference-transaction post-index-change; do cp "$W/evil" .git/hooks/$h; done; rm -f "$W/pwned"; echo ok > b.txt`,
  );
  const ran = await world.run([
    { id: "a", command: a, allowed_files: ["a.txt"] },
    { id: "b", command: b, allowed_files: ["b.txt"] },
    { id: "c", command: "echo ok > c.txt", allowed_files: ["c.txt"] },
  ]);
  assert.equal(ran.code, 0, ran.out + ran.err);
  assert.equal(existsSync(join(world.W, "pwned")), false);
  assert.equal(world.git("config", "--file", ".git/config", "core.bare"), "false");
  assert.doesNotMatch(world.git("log", "--format=%an %cn", "busbar/r"), /Mallory/);
  world.git("status");
  assert.equal(existsSync(join(world.W, "pwned")), false);
  await assertInvariants(world, "r", before);
});

test("case 20 signing-or-identity: commits have an identity of their own and never wait for a signer", async (t) => {
  const world = makeWorld(t);
  world.sh(
    `printf '#!/bin/sh\\nexec sleep 600 # %s\\n' "$W" > slow-gpg; chmod +x slow-gpg; cd repo
     git config commit.gpgsign true; git config tag.gpgsign true; git config gpg.program "$W/slow-gpg"; git config user.signingkey ABCD; git config user.useConfigOnly true`,
  );
  const ran = await world.run([{ ...OK, timeout: "30s" }]);
  assert.equal(ran.code, 0, ran.out + ran.err);
  assert.equal(world.git("log", "-1", "--format=%an|%cn|%G?", "busbar/r"), "busbar|busbar|N");
  assert.equal(processesOf("slow-gpg").length, 0);
  assert.equal(world.sh("git -C repo config user.name || true"), "");
  await assertInvariants(world, "r");
});

test("case 21 localised-git: outcomes do not depend on the language git speaks, nor on the time zone", async (t) => {
  const world = makeWorld(t);
  // The stand-in is called by an absolute path of the real git, baked in: our programs clean their environment.
  world.sh(
    `mkdir bin; sed "s#[$]REAL_GIT#$(command -v git)#" "${fileURLToPath(new URL("../fixtures/bin/git-in-german", import.meta.url))}" > bin/git; chmod +x bin/git`,
  );
  const env = {
    PATH: `${world.W}/bin:${world.env.PATH}`,
    LC_ALL: "de_DE.UTF-8",
    LANG: "de_DE.UTF-8",
    TZ: "Pacific/Apia",
  };
  const file = world.plan([
    { id: "idle", command: "true" },
    { id: "x", command: "echo 1 > f.txt", allowed_files: ["**"] },
    { id: "y", command: "echo 2 > f.txt", allowed_files: ["**"] },
  ]);
  const ran = await world.busctl(["run", file], { env });
  assert.equal(ran.code, 1, ran.out + ran.err);
  const { tasks } = await world.state("r");
  const ends = ["idle", "x", "y"].map((id) => tasks.get(id)?.attempts[0]?.result);
  assert.equal(ends[0], "no_changes");
  assert.deepEqual(ends.slice(1).sort(), ["conflict", "passed"]);
  const lost = tasks.get(ends[1] === "conflict" ? "x" : "y");
  assert.deepEqual(lost?.attempts[0]?.evidence?.paths, ["f.txt"]);
  for (const record of await world.audit({ run: "r" }))
    assert.match(record.ts, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  await assertInvariants(world, "r");
});

test("case 50 main-checked-out-dirty: the user's edits stay; results wait on the integration branch", async (t) => {
  const world = makeWorld(
    t,
    `git init -q -b main repo; cd repo; echo base > f.txt; echo base > g.txt; echo base > user.txt; git add -A; git commit -qm base
     echo 'my edit' >> user.txt; echo staged > s.txt; git add s.txt; echo untracked > new.txt`,
  );
  const before = lookAtCheckout(world);
  const file = world.plan([
    {
      id: "a",
      command: "echo task >> f.txt",
      allowed_files: ["f.txt"],
      acceptance: ["grep -qx task f.txt && ! grep -q 'my edit' user.txt"],
    },
    { id: "b", command: "echo theirs > new.txt", allowed_files: ["new.txt"] },
  ]);
  const ran = await world.busctl(["run", file, "--into", "main"]);
  assert.match(ran.out, /git merge --ff-only (busbar\/r|[0-9a-f]{40})/, "says the one command");
  await assertInvariants(world, "r", before);
  const base = (await world.state("r")).run.spec.base;
  assert.equal(world.git("rev-parse", "main"), base, "a checked-out branch is never moved");
  assert.equal(readFileSync(join(world.repo, "user.txt"), "utf8"), "base\nmy edit\n");
});
