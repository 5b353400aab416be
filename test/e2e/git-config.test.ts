// The user's and the agents' git settings: hooks, signing, identity, language, shared configuration, locks.

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { git } from "../../bus/git/run.ts";
import { archivable, archive } from "../../scheduler/archive.ts";
import { buildCandidate } from "../../scheduler/candidate.ts";
import { capture } from "../../scheduler/capture.ts";
import { harvest } from "../../scheduler/harvest.ts";
import { ensureIntegrationBranch, moveRef } from "../../scheduler/refs.ts";
import { makeWorkspace } from "../../scheduler/workspace.ts";
import { isCode } from "../../schemas/errors.ts";
import { integrationRef, snapshotRef } from "../../schemas/ids.ts";
import { attempt, IDENTITY, sh, type World, worked, world } from "../helpers/repo.ts";

const ONE = "echo base > f.txt; git add -A; git commit -qm base";

/** Everything the scheduler does with git for one task, to the landed commit. */
async function whole(w: World, task: string, agent: string): Promise<string> {
  const workspace = await worked(w, task, agent);
  const ref = attempt(task);
  const common = { control: w.control, base: w.base };
  const got = await capture({ ...common, workspace, ref, version: 1, message: "m\n", identity: IDENTITY });
  await harvest({ ...common, work: workspace.work, ref });
  const head = await ensureIntegrationBranch(w.control, "r", w.base);
  const built = await buildCandidate({
    ...common,
    head,
    commit: got.commit,
    message: "m\n",
    identity: IDENTITY,
  });
  assert.equal(built.kind, "candidate");
  if (built.kind !== "candidate") throw new Error("no candidate");
  assert.equal(await moveRef(w.control, integrationRef("r"), head, built.commit), "moved");
  return built.commit;
}

test("case 17 hooks: none of the user's hooks runs, whatever it would do", async (t) => {
  const w = await world(t, ONE);
  const hooks =
    "post-checkout post-index-change pre-commit post-commit reference-transaction pre-merge-commit post-merge post-rewrite pre-auto-gc";
  sh(
    w.repo,
    `for h in ${hooks}; do printf '#!/bin/sh\\necho ran >> "%s/hook.log"; sleep 600; exit 1\\n' ${w.dir} > .git/hooks/$h; chmod +x .git/hooks/$h; done`,
  );
  await whole(w, "a", "echo ok > a.txt");
  sh(w.repo, "mkdir .husky; cp .git/hooks/* .husky; git config core.hooksPath .husky");
  await whole(w, "b", "echo ok > b.txt");
  assert.ok(!existsSync(join(w.dir, "hook.log")));
  assert.equal(sh(w.repo, "git config core.hooksPath"), ".husky");
});

test("case 20 signing-or-identity: own identity, no signature, nothing waits for a passphrase", async (t) => {
  const w = await world(
    t,
    `${ONE}; printf '#!/bin/sh\\nexec sleep 600\\n' > "$W/slow-gpg"; chmod +x "$W/slow-gpg"
     git config commit.gpgsign true; git config tag.gpgsign true; git config gpg.program "$W/slow-gpg"; git config user.signingkey ABCD; git config user.useConfigOnly true`,
  );
  const commit = await whole(
    w,
    "a",
    "unset GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL; echo ok > a.txt; git add -A; git commit -qm own",
  );
  assert.equal(
    sh(w.repo, `git -c log.showSignature=false log -1 --format='%an|%ce|%G?' ${commit}`),
    "busbar|busbar@localhost|N",
  );
  assert.equal(sh(w.repo, "git config user.name || echo unset"), "unset");
});

test("case 19 shared-config-poisoned: what an agent sets in its git runs nowhere else", async (t) => {
  const w = await world(t, ONE);
  const before = sh(w.repo, "cat .git/config; ls .git/hooks .git/info");
  const agent = `printf '#!/bin/sh\\necho "$PPID $PWD" >> "%s/pwned"; cat\\n' "$W" > "$W/evil"; chmod +x "$W/evil"
    git config core.fsmonitor "$W/evil"; git config user.name Mallory; git config alias.status '!touch $W/pwned'
    git config filter.x.clean "$W/evil"; git config filter.x.smudge "$W/evil"; git config diff.x.textconv "$W/evil"
    git config merge.x.driver "$W/evil %A"; mkdir -p .git/info .git/hooks; echo '* merge=x filter=x diff=x' >> .git/info/attributes
    echo '* merge=x filter=x diff=x' > .gitattributes; for h in post-merge post-index-change reference-transaction; do cp "$W/evil" .git/hooks/$h; done
    GIT_DIR="$PWD/.git" git init -q --bare; echo ok > b.txt; rm -f "$W/pwned"`;
  const commit = await whole(w, "b", agent);
  assert.ok(!existsSync(join(w.dir, "pwned")));
  assert.equal(sh(w.repo, `git show ${commit}:b.txt`), "ok");
  assert.equal(sh(w.repo, "cat .git/config; ls .git/hooks .git/info"), before);
  assert.equal(sh(w.repo, "git status --porcelain"), "");
});

test("case 21 localised-git: answers come from exits and machine formats", async (t) => {
  const w = await world(t, ONE);
  const real = sh(w.dir, "command -v git");
  const stand = `#!/bin/sh\ncase "$LC_ALL" in C) exec ${real} "$@";; esac; echo kaputt >&2; exit 1\n`;
  sh(
    w.dir,
    `mkdir bin; cat > bin/git; chmod +x bin/git <<'E'\nE\nprintf %s '${stand.replaceAll("'", "'\\''")}' > bin/git`,
  );
  const before = { ...process.env };
  Object.assign(process.env, {
    PATH: `${join(w.dir, "bin")}:${process.env.PATH}`,
    LC_ALL: "tr_TR.UTF-8",
    LANG: "de_DE.UTF-8",
    TZ: "Pacific/Apia",
  });
  try {
    const commit = await whole(w, "a", "export LC_ALL=C; echo ok > a.txt");
    assert.match(sh(w.repo, `LC_ALL=C git cat-file -p ${commit} | sed -n '/^committer/p'`), / \+0000$/);
  } finally {
    for (const name of ["PATH", "LC_ALL", "LANG", "TZ"]) {
      if (before[name] === undefined) delete process.env[name];
      else process.env[name] = before[name];
    }
  }
});

test("case 13 parallel-add-and-prune: 16 workspaces at once while the user prunes and a lock lies there", async (t) => {
  const w = await world(
    t,
    "for i in $(seq 400); do echo $i > f$i.txt; done; git add -A; git commit -qm base; touch .git/config.lock",
  );
  const making = Array.from({ length: 16 }, (_, n) =>
    makeWorkspace({
      control: w.control,
      dir: join(w.dir, `t${n}`),
      ref: attempt(`t${n}`),
      base: w.base,
      checkout: "full",
    }),
  );
  for (let n = 0; n < 5; n++) sh(w.repo, "git worktree prune; git pack-refs --all");
  for (const { work } of await Promise.all(making)) {
    assert.equal(sh(work, "git rev-parse --show-toplevel; git status --porcelain; git remote"), work);
  }
  assert.equal(sh(w.repo, "find .git -name '*.lock'; git worktree list | wc -l"), ".git/config.lock\n1");
});

test("W9, case 14 cleanup-eats-work: after archiving everything can still be had", async (t) => {
  const w = await world(
    t,
    "echo base > f.txt; printf '.env\\nout/\\n' > .gitignore; git add -A; git commit -qm base",
  );
  const agent = `echo committed > c.txt; git add c.txt; git commit -qm work; echo staged > s.txt; git add s.txt; echo untracked > u.txt
    echo edit >> f.txt; mkdir -p out; echo report > out/report.txt; echo KEY=1 > .env; printf x > $'bad\\xff'; git init -q nested; echo n > nested/n; mkfifo pipe`;
  const workspace = await worked(w, "a", agent);
  const order = { control: w.control, ref: attempt("a"), base: w.base };
  const inScope = (path: string) => path.endsWith(".txt");
  const got = await capture({ ...order, workspace, version: 1, message: "m\n", identity: IDENTITY, inScope });
  assert.deepEqual(got.refused.map((r) => r.rule).sort(), ["nested-repository", "not-utf8"]);
  assert.equal((await harvest({ ...order, work: workspace.work })).tips, 1);
  sh(workspace.dir, "echo log > agent.log; mkdir output; echo p > output/a.patch");
  const to = join(w.dir, "state", "archive", "a");
  const done = await archive({ control: w.control, workspace, base: w.base, to, merged: false });
  assert.deepEqual(done.listed, []);
  assert.ok(!existsSync(workspace.dir));
  const left = (name: string) => readFileSync(join(to, "left", name), "utf8");
  assert.deepEqual(["c.txt", "s.txt", "u.txt", "f.txt", "out/report.txt", ".env", "nested/n"].map(left), [
    "committed\n",
    "staged\n",
    "untracked\n",
    "base\nedit\n",
    "report\n",
    "KEY=1\n",
    "n\n",
  ]);
  assert.equal(
    readdirSync(join(to, "left"), { encoding: "buffer" }).filter((name) => name.includes(0xff)).length,
    1,
  );
  assert.deepEqual([existsSync(join(to, "agent.log")), existsSync(join(to, "output/a.patch"))], [true, true]);
  sh(w.repo, "git gc -q --prune=now");
  assert.equal(sh(w.repo, `git show ${snapshotRef(attempt("a"), 1)}:f.txt`), "base\nedit");
  assert.equal(sh(w.repo, "git log -1 --format=%s refs/busbar/attempts/r/a/1/agent/1"), "work");
  assert.deepEqual(await archive({ control: w.control, workspace, base: w.base, to, merged: false }), {
    kept: [],
    listed: [],
  });
});

test("W9: a workspace in use, not captured or not harvested stays", () => {
  const facts = {
    inUse: false,
    captured: true,
    harvestProblems: [],
    lastUsed: 0,
    now: 10_000,
    idleMs: 5_000,
  };
  assert.deepEqual(archivable(facts), { archive: true });
  for (const [change, why] of [
    [{ inUse: true }, /in use/],
    [{ captured: false }, /not captured/],
    [{ harvestProblems: ["too big"] }, /too big/],
    [{ idleMs: 20_000 }, /idle for 10 s/],
  ] as const) {
    const decision = archivable({ ...facts, ...change });
    assert.match(decision.archive ? "" : decision.why, why);
  }
});

test("no git call is without a time limit; at its end no process of its group is left", async (t) => {
  const w = await world(t, ONE);
  const command = `alias.hang=!echo $$ > ${w.dir}/pid; sleep 600 & sleep 600`;
  const started = performance.now();
  await assert.rejects(git(["hang"], { gitDir: w.control.repo, config: [command], timeoutMs: 500 }), (e) =>
    isCode(e, "GIT_TIMEOUT"),
  );
  assert.ok(performance.now() - started < 60_000);
  const pid = Number(readFileSync(join(w.dir, "pid"), "utf8"));
  const alive = existsSync(`/proc/${pid}`) && !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  assert.ok(!alive);
  await assert.rejects(
    git(["no-such-verb"], { gitDir: w.control.repo }),
    (e) => isCode(e, "GIT_FAILED") && /no-such-verb/.test(e.message),
  );
});

test("a workspace that cannot be made leaves nothing behind and says why", async (t) => {
  const w = await world(t, ONE);
  const dir = join(w.dir, "ws");
  const order = { control: w.control, dir, ref: attempt("a"), checkout: "full" as const };
  const wrong = makeWorkspace({ ...order, base: "0".repeat(40) });
  await assert.rejects(wrong, (e) => isCode(e, "WORKSPACE_FAILED") && /r\/a#1.*read-tree/.test(e.message));
  assert.deepEqual(readdirSync(dir), []);
  const made = await makeWorkspace({ ...order, base: w.base });
  assert.equal(statSync(dir).mode & 0o777, 0o700);
  await assert.rejects(makeWorkspace({ ...order, base: w.base }), (e) => isCode(e, "WORKSPACE_FAILED"));
  assert.ok(existsSync(join(made.work, "f.txt")), "one that is there is not touched");
});
