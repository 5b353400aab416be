// Capture of odd working trees: what is on the disk is found, named right, and nothing is lost or followed.

import assert from "node:assert/strict";
import { readFileSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { type CaptureOrder, capture } from "../../scheduler/capture.ts";
import { touchedPaths } from "../../scheduler/capture-scan.ts";
import { harvest } from "../../scheduler/harvest.ts";
import { openWorkspace, type Workspace } from "../../scheduler/workspace.ts";
import { isCode } from "../../schemas/errors.ts";
import { attempt, IDENTITY, sh, type World, worked, world } from "../helpers/repo.ts";
import { until } from "../helpers/wait.ts";

function snap(w: World, workspace: Workspace, extra: Partial<CaptureOrder> = {}) {
  return capture({
    control: w.control,
    workspace,
    ref: attempt("a"),
    base: w.base,
    version: 1,
    message: "m\n",
    identity: IDENTITY,
    ...extra,
  });
}

const list = (got: { changed: { kind: string; path: string }[] }) =>
  got.changed.map((c) => `${c.kind} ${c.path}`);

test("files, directories and links may take each other's place", async (t) => {
  const w = await world(
    t,
    "mkdir -p d/e s; echo 1 > d/e/1; echo 2 > d/2; echo f > f; echo s > s/s; ln -s f l; echo x > x; git add -A; git commit -qm base",
  );
  const agent = `rm -r d; echo file > d; rm f; mkdir f; echo in > f/in; mv s real; ln -s real s; rm l; echo plain > l; rm x; ln -s /etc/passwd x`;
  const workspace = await worked(w, "a", agent);
  const got = await snap(w, workspace);
  assert.deepEqual(list(got), [
    "added d",
    "deleted d/2",
    "deleted d/e/1",
    "deleted f",
    "added f/in",
    "type l",
    "added real/s",
    "added s",
    "deleted s/s",
    "type x",
  ]);
  assert.equal(got.changed.find((c) => c.path === "x")?.target, "/etc/passwd");
  assert.equal(
    sh(w.repo, `git ls-tree -r ${got.commit} | cut -c1-6,53-`),
    "100644\td\n100644\tf/in\n100644\tl\n100644\treal/s\n120000\ts\n120000\tx",
  );
  assert.equal(
    sh(w.repo, `git cat-file -p ${got.commit}:x`),
    "/etc/passwd",
    "a link is captured, not what it names",
  );
});

test("case 32, case 42: names with any byte come through, or are refused by name", async (t) => {
  const setup = `mkdir 'app' 'we{ird}'; echo b > 'app/[slug] (x).tsx'; echo b > 'back\\slash'; printf b > $'nl\\nin'; printf b > $'old\\xfe'; echo b > '"q"'; echo b > ümlaut
    git add -A; git commit -qm base`;
  const w = await world(t, setup);
  const agent = `for f in 'app/[slug] (x).tsx' 'back\\slash' $'nl\\nin' '"q"' ümlaut $'old\\xfe' $'new\\xff' $'tab\\t' ':(top)x' '-x' 'sp ace ' '#h'; do echo more >> "./$f"; done
    mkdir .GIT; echo x > .GIT/x; rm 'we{ird}' -rf`;
  const got = await snap(w, await worked(w, "a", agent));
  assert.deepEqual(
    list(got).sort(),
    [
      'modified "q"',
      "added #h",
      "added -x",
      "added :(top)x",
      "modified app/[slug] (x).tsx",
      "modified back\\slash",
      "modified nl\nin",
      "added sp ace ",
      "added tab\t",
      "modified ümlaut",
    ].sort(),
  );
  assert.deepEqual(got.refused.map((r) => `${r.rule} ${r.path}`).sort(), [
    "git-name .GIT/x",
    "not-utf8 new\\xff",
    "not-utf8 old\\xfe",
  ]);
  sh(
    w.repo,
    `git fsck --strict 2>&1; git cat-file -p ${got.commit}:'nl
in'`,
  );
});

test("closed directories and files are read all the same; pipes in place of files are refused", async (t) => {
  const w = await world(
    t,
    "mkdir d e; echo 1 > d/1; echo 2 > e/2; echo p > p; echo k > k; git add -A; git commit -qm base",
  );
  const agent =
    "echo more >> d/1; chmod 000 d; echo new > e/new; chmod 000 e/new; chmod 300 e; rm p; mkfifo p; chmod 000 k";
  const got = await snap(w, await worked(w, "a", agent));
  assert.deepEqual(list(got), ["modified d/1", "added e/new"]);
  assert.deepEqual(
    got.refused.map((r) => `${r.rule} ${r.path} ${r.why}`),
    ["special p is a named pipe"],
  );
});

test("repositories inside the working tree are named, their content is in no commit", async (t) => {
  const w = await world(t, "mkdir d; echo 1 > d/1; git add -A; git commit -qm base");
  const agent = `git init -q inner; echo x > inner/x; git -C inner add -A; git -C inner commit -qm x; mkdir -p deep/er; git clone -q inner deep/er/clone
    (cd d; git init -q .; echo 2 > 2; git add -A; git commit -qm y)`;
  const got = await snap(w, await worked(w, "a", agent));
  assert.deepEqual(got.refused.map((r) => `${r.rule} ${r.path}`).sort(), [
    "nested-repository deep/er/clone",
    "nested-repository inner",
  ]);
  assert.deepEqual(list(got), ["added d/2"]);
});

test("only content counts: touched files are unchanged, a change that keeps size and time is found", async (t) => {
  const w = await world(
    t,
    "echo aaa > same; echo bbb > sly; echo ccc > mode; printf 'a\\r\\n' > crlf; echo '*.txt text=auto eol=crlf' > .gitattributes; printf 'x\\n' > e.txt; git add -A; git commit -qm base",
  );
  const workspace = await worked(
    w,
    "a",
    'touch same e.txt; chmod +x mode; chmod g+w crlf; test "$(od -c e.txt | head -1 | grep -c r)" = 1',
  );
  const sly = join(workspace.work, "sly");
  const stamp = new Date(0);
  utimesSync(sly, stamp, stamp);
  writeFileSync(sly, "BBB\n");
  utimesSync(sly, stamp, stamp);
  const got = await snap(w, workspace);
  assert.deepEqual(list(got), ["modified mode", "modified sly"]);
  // Touched is what may differ. Git compares times by the second, so the others are seen when that one was over.
  const touched = await touchedPaths(w.control, workspace, w.base);
  assert.deepEqual(
    touched.filter((path) => !["same", "e.txt", "crlf"].includes(path)),
    ["mode", "sly"],
  );
});

test("a change in the second of the checkout that keeps the size is found, also later", async (t) => {
  const w = await world(t, "echo 1 > f; git add -A; git commit -qm base");
  const workspace = await worked(w, "a", "echo 2 > f");
  // Git without nanoseconds sees the same second; the copies of our index must not look younger than it.
  const second = Math.floor(statSync(workspace.index).mtimeMs / 1000);
  utimesSync(join(workspace.work, "f"), second, second);
  await until("the next second", () => Date.now() / 1000 > second + 1.1);
  assert.deepEqual(list(await snap(w, workspace)), ["modified f"]);
  assert.equal(sh(workspace.work, "git status --porcelain"), " M f");
});

test("the same version again is the same commit; another content takes the next free number", async (t) => {
  const w = await world(t, "echo 1 > f; git add -A; git commit -qm base");
  const workspace = await worked(w, "a", "echo 2 > f");
  const first = await snap(w, workspace, { when: 1 });
  assert.equal((await snap(w, workspace, { when: 2 })).commit, first.commit);
  sh(workspace.work, "echo 3 > f");
  const second = await snap(w, workspace);
  assert.deepEqual([first.version, second.version], [1, 2]);
  assert.equal(sh(w.repo, "git rev-parse refs/busbar/attempts/r/a/1/v1"), first.commit);
  assert.equal(sh(w.repo, "git rev-parse refs/busbar/attempts/r/a/1/v2"), second.commit);
  assert.equal(sh(w.repo, `git show ${second.commit}:f; git rev-parse ${second.commit}^`), `3\n${w.base}`);
  assert.equal(sh(workspace.dir, "ls | tr '\\n' ' '"), "index work ");
});

test("exclude, allowLarge and twins", async (t) => {
  const w = await world(t, "mkdir src; echo 1 > src/README; git add -A; git commit -qm base");
  const agent =
    "mkdir ours; echo x > ours/x; echo y > our; echo r > src/Readme; mkdir SRC; echo z > SRC/z; head -c 11000000 /dev/zero > big; cp big big2";
  const got = await snap(w, await worked(w, "a", agent), {
    exclude: ["ours"],
    allowLarge: (path) => path === "big",
  });
  assert.deepEqual(list(got), ["added SRC/z", "added big", "added our", "added src/Readme"]);
  assert.deepEqual(
    got.refused.map((r) => r.path),
    ["big2"],
  );
  assert.deepEqual(got.twins, [
    { path: "SRC/z", twin: "src" },
    { path: "src/Readme", twin: "src/README" },
  ]);
});

test("hundreds of files at once, and a base of thousands: nothing is missed", async (t) => {
  const w = await world(
    t,
    "mkdir d; for i in $(seq 2000); do echo $i > d/$i; done; git add -A; git commit -qm base",
  );
  const agent =
    "for i in $(seq 1 4 2000); do echo x >> d/$i; done; for i in $(seq 2 4 2000); do rm d/$i; done; mkdir n; for i in $(seq 300); do echo $i > n/$i; done";
  const workspace = await worked(w, "a", agent);
  const got = await snap(w, workspace);
  const count = (kind: string) => got.changed.filter((c) => c.kind === kind).length;
  assert.deepEqual([count("modified"), count("deleted"), count("added")], [500, 500, 300]);
  sh(workspace.work, "rm -f .git/index; git add -A");
  assert.equal(sh(w.repo, `git rev-parse ${got.commit}^{tree}`), sh(workspace.work, "git write-tree"));
  assert.equal(readFileSync(join(workspace.work, "n/1"), "utf8"), "1\n");
});

test("a working tree that is gone or replaced by a link is an empty one; the link is not followed", async (t) => {
  const w = await world(t, "echo 1 > f; git add -A; git commit -qm base");
  const gone = await worked(w, "gone", 'rm -rf "$PWD"');
  assert.deepEqual(list(await snap(w, gone, { ref: attempt("gone") })), ["deleted f"]);
  const moved = await worked(
    w,
    "moved",
    'rm -rf "$PWD"; mkdir "$W/other"; echo secret > "$W/other/s"; ln -s "$W/other" "$PWD"',
  );
  const got = await snap(w, moved, { ref: attempt("moved") });
  assert.deepEqual(list(got), ["deleted f"]);
  assert.match(got.anomalies[0]!, /replaced/);
});

test("an agent's objects that are damaged, endless or borrowed from elsewhere hold nothing up", async (t) => {
  const w = await world(
    t,
    "echo 1 > f; git add -A; git commit -qm base; git init -q ../other; echo s > ../other/s; git -C ../other add -A; git -C ../other commit -qm secret",
  );
  const common = { control: w.control, base: w.base };
  const broken = await worked(
    w,
    "broken",
    'echo 2 > f; echo only here > g; git add -A; git commit -qm two; o=$(git rev-parse HEAD:g | sed "s,^..,&/,"); rm g; chmod u+w .git/objects/$o; echo junk > .git/objects/$o',
  );
  assert.deepEqual(list(await snap(w, broken, { ref: attempt("broken") })), ["modified f"]);
  const harvested = await harvest({ ...common, work: broken.work, ref: attempt("broken") });
  assert.equal(harvested.tips, 0);
  assert.match(harvested.problems.join(), /could not be kept/);
  const lent = await worked(
    w,
    "lent",
    'echo "$W/other/.git/objects" >> .git/objects/info/alternates; git update-ref refs/heads/x "$(git -C "$W/other" rev-parse HEAD)"',
  );
  const refused = await harvest({ ...common, work: lent.work, ref: attempt("lent") });
  assert.match(refused.problems.join(), /borrows/);
  sh(w.repo, "git fsck --strict 2>&1");
});

test("S4: an index of ours that the agent rewrote lets nothing past the scope", async (t) => {
  const setup =
    "mkdir src; echo base > README.md; echo 1 > src/a; echo 2 > src/b; git add -A; git commit -qm base";
  const w = await world(t, setup);
  const stage = `stage() { oid=$(git hash-object -w "$1"); GIT_INDEX_FILE="$I" git update-index --add --cacheinfo "100644,$oid,$1"; }
    seal() { GIT_INDEX_FILE="$I" git update-index -q --refresh; test -z "$(GIT_INDEX_FILE="$I" git diff-files)"; }`;
  const inScope = (path: string) => path.startsWith("src/");
  for (const [task, sparse] of [["full"], ["sparse", ["README.md", "src/a"]]] as const) {
    const workspace = await worked(w, task, "echo more >> src/a", sparse && [...sparse]);
    const env = { I: workspace.index, GIT_OBJECT_DIRECTORY: w.control.objectDir };
    sh(
      workspace.work,
      `${stage}; echo evil > README.md; echo new > hidden; stage README.md; stage hidden`,
      env,
    );
    const got = await snap(w, workspace, { ref: attempt(task), inScope });
    assert.deepEqual(list(got), ["modified src/a"]);
    assert.deepEqual(got.outside, [
      { path: "README.md", kind: "modified" },
      { path: "hidden", kind: "added" },
    ]);
    assert.equal(sh(w.repo, `git diff-tree -r --name-only ${w.base} ${got.commit}`), "src/a");
    assert.match(got.anomalies.join(), /our index is not as we left it/);
  }
  // Nothing but the hidden change, clean in every respect; and an index that is none.
  const alone = await worked(w, "alone", "echo evil > README.md");
  sh(alone.work, `${stage}; stage README.md; seal`, {
    I: alone.index,
    GIT_OBJECT_DIRECTORY: w.control.objectDir,
  });
  const hidden = await snap(w, alone, { ref: attempt("alone"), inScope });
  assert.deepEqual(hidden.outside, [{ path: "README.md", kind: "modified" }]);
  assert.equal(sh(w.repo, `git diff-tree -r --name-only ${w.base} ${hidden.commit}`), "");
  const junk = await worked(w, "junk", "echo more >> src/b");
  writeFileSync(junk.index, "junk");
  assert.deepEqual(list(await snap(w, junk, { ref: attempt("junk"), inScope })), ["modified src/b"]);
});

test("names that differ only in case are found in more directories than one command can name", async (t) => {
  const w = await world(t, "mkdir src; echo 1 > src/README; git add -A; git commit -qm base");
  const agent =
    "for i in $(seq 600); do mkdir n$i; echo $i > n$i/f; done; echo r > src/Readme; mkdir SRC; echo z > SRC/z";
  const got = await snap(w, await worked(w, "a", agent));
  assert.deepEqual(got.twins, [
    { path: "SRC/z", twin: "src" },
    { path: "src/Readme", twin: "src/README" },
  ]);
});

test("what a workspace says of itself after a restart is read strictly", async (t) => {
  const w = await world(t, "echo 1 > f; git add -A; git commit -qm base");
  const workspace = await worked(w, "a", "true");
  assert.deepEqual(openWorkspace(w.control, workspace.dir), workspace);
  const say = (facts: object) =>
    writeFileSync(
      join(w.control.gitDir, "places", "a.json"),
      JSON.stringify({ v: 1, sparse: false, paths: [], seal: workspace.seal, ...facts }),
    );
  const good = { path: "lib/x", oid: w.base, index: "/tmp/other", objectDir: "/r/.git/modules/x/objects" };
  say({ submodules: [good] });
  const index = join(workspace.dir, "sub", "sub-0.index");
  assert.deepEqual(openWorkspace(w.control, workspace.dir).submodules, [{ ...good, index }]);
  const worse = [{ path: "../x" }, { path: "/x" }, { path: "" }, { oid: "--x" }, { objectDir: "../objects" }];
  const bad = worse.map((change) => ({ submodules: [{ ...good, ...change }] }));
  for (const facts of [
    ...bad,
    {},
    { submodules: [null] },
    { submodules: [], sparse: "no" },
    { submodules: [], paths: "all" },
    { submodules: [], seal: "mine" },
    { submodules: [], v: 2 },
  ]) {
    say(facts);
    assert.throws(
      () => openWorkspace(w.control, workspace.dir),
      (e) => isCode(e, "WORKSPACE_FAILED"),
    );
  }
});
