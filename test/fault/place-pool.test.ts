// A clean place is used again for another tree. Whatever a check did in it, the next tree finds nothing of it.

import assert from "node:assert/strict";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { PlacePool } from "../../scheduler/place-pool.ts";
import { sh, type World, world } from "../helpers/repo.ts";
import { until } from "../helpers/wait.ts";

const SETUP = `
  mkdir -p src/deep docs; echo one > src/a.txt; echo two > src/deep/b.txt; echo doc > docs/d.txt
  echo run > src/tool.sh; chmod +x src/tool.sh; ln -s a.txt src/link; printf '*.log\\nbuild/\\n' > .gitignore
  git add -A; git commit -qm base; git branch base
  echo three > src/deep/c.txt; git rm -q docs/d.txt; echo changed > src/a.txt; git add -A; git commit -qm next`;

interface Bench {
  w: World;
  pool: PlacePool;
  /** Whether the same directory was used again. */
  reused(dir: string): boolean;
  notes: string[];
  trees: string[];
}

async function bench(t: TestContext): Promise<Bench> {
  const w = await world(t, SETUP);
  const top = join(w.dir, "gate");
  sh(w.dir, "mkdir gate");
  const notes: string[] = [];
  const note = (_: string, facts?: Record<string, unknown>) => void notes.push(String(facts?.why));
  const pool = new PlacePool({ control: w.control, top, limit: 2, log: { info: note, warn: note } });
  t.after(() => pool.close());
  const trees = ["base", "main"].map((name) => sh(w.repo, `git rev-parse ${name}`));
  return { w, pool, notes, trees, reused: () => notes.length === 0 };
}

/** Everything in a place, `.git` included where it is not as we write it: names, modes, contents. */
const PICTURE = `
  find . -path ./.git -prune -o -printf '%y %m %P %l\\n' | sort
  find . -path ./.git -prune -o -type f -print0 | sort -z | xargs -0 sha256sum
  (cd .git; find . ! -name index -printf '%y %P\\n' | sort; cat config HEAD info/exclude objects/info/alternates)
  git status --porcelain --ignored; git ls-files -s`;

async function picture(b: Bench, name: string, commit: string): Promise<{ text: string; ino: string }> {
  const dir = join(b.w.dir, "gate", name);
  const place = await b.pool.take({ control: b.w.control, dir, commit });
  return { text: sh(place.work, PICTURE), ino: sh(place.work, "stat -c %i .") };
}

/** Waits until what was given back is idle in the pool or gone. */
async function settled(b: Bench, name: string): Promise<void> {
  await until("the place is settled", () => !existsSync(join(b.w.dir, "gate", name)));
}

const TAMPERING: Record<string, string> = {
  "nothing at all": "true",
  "edits with the old time set back":
    "touch -r src/deep/b.txt /tmp/ref.$$; echo TWO > src/deep/b.txt; touch -r /tmp/ref.$$ src/deep/b.txt; rm /tmp/ref.$$",
  "modes of files": "chmod 777 src/deep/b.txt; chmod -x src/tool.sh; chmod 000 .gitignore",
  "modes of directories": "chmod 777 src; chmod 711 src/deep; chmod 755 .",
  "untracked and ignored files":
    "echo x > new; mkdir -p build/x/y; echo x > build/x/y/z; echo x > src/a.log; mkdir empty src/empty",
  "attributes and excludes beside the tree":
    "echo '* text eol=crlf' > .gitattributes; echo '* ident' > src/.gitattributes; echo '*' > src/.gitignore; rm src/a.txt",
  "hooks, settings, refs and objects of its git":
    "git config core.fsmonitor ./evil; mkdir -p .git/hooks; echo x > .git/hooks/post-checkout; echo evil > .git/info/attributes; git branch evil; git -c user.name=x -c user.email=x@x commit -q --allow-empty -m x",
  "a git directory replaced by a link": "mv .git ../stolen; ln -s ../stolen .git",
  "nested repositories": "git init -q nested; git init -q src/deep; echo gitdir: /tmp > docs/.git || true",
  "deleted files and directories": "rm -r src/deep; rm .gitignore src/link",
  "a directory swapped for a link to itself": "mv src .hidden; ln -s .hidden src",
  "a file swapped for a link with the same content": "mv src/a.txt src/z; ln -s z src/a.txt",
  "a link swapped for a file, a file for a directory":
    "rm src/link; cp src/a.txt src/link; rm .gitignore; mkdir .gitignore; echo x > .gitignore/x",
  "hard links": "ln src/a.txt ../held; ln -f src/a.txt src/deep/b.txt",
  "pipes and odd names": "mkfifo pipe; touch -- $'new\\nline' $'\\xff\\xfe' '-rf' ' '",
  "closed directories":
    "echo x > src/deep/extra; chmod 555 src/deep; mkdir shut; touch shut/x; chmod 000 shut",
  "assumed unchanged in its own index":
    "git update-index --assume-unchanged src/a.txt; echo evil > src/a.txt",
};

for (const [what, script] of Object.entries(TAMPERING))
  test(`case 52 gate-not-isolated: the next tree finds nothing of ${what}`, async (t) => {
    const b = await bench(t);
    const [base = "", next = ""] = b.trees;
    const wanted = (await picture(b, "fresh", next)).text;
    b.pool.give({ dir: join(b.w.dir, "gate", "fresh") }, false);
    const first = await picture(b, "one", base);
    sh(join(b.w.dir, "gate/one/work"), `set +e; ${script}; true`);
    b.pool.give({ dir: join(b.w.dir, "gate/one") }, true);
    await settled(b, "one");
    const second = await picture(b, "two", next);
    assert.equal(second.text, wanted);
    // Else nothing was proved about places that are used again.
    assert.deepEqual(b.notes, []);
    assert.equal(second.ino, first.ino);
    b.pool.give({ dir: join(b.w.dir, "gate/two") }, true);
    await b.pool.close();
    assert.deepEqual(readdirSync(join(b.w.dir, "gate")), []);
  });

const THROWN_AWAY: Record<string, [script: string, why: RegExp]> = {
  "our index was written": [
    "git --git-dir=.git update-index -q --refresh; cp .git/index ../index",
    /index was changed/,
  ],
  "our index got another time": ["touch -d 2040-01-01 ../index", /index was changed/],
  "our index is a link": ["mv ../index ../i; ln -s i ../index", /index is no file/],
  "its top is another directory": [
    "cp -a . ../copy; mv ../work ../old; mv ../copy ../work",
    /another directory/,
  ],
  "its top is a link": ["mv ../work ../old; ln -s old ../work", /no directory/],
};

for (const [what, [script, why]] of Object.entries(THROWN_AWAY))
  test(`case 52 gate-not-isolated: a place is thrown away when ${what}`, async (t) => {
    const b = await bench(t);
    const [base = "", next = ""] = b.trees;
    const wanted = (await picture(b, "fresh", next)).text;
    b.pool.give({ dir: join(b.w.dir, "gate", "fresh") }, false);
    await picture(b, "one", base);
    sh(join(b.w.dir, "gate/one/work"), script);
    b.pool.give({ dir: join(b.w.dir, "gate/one") }, true);
    await settled(b, "one");
    assert.equal((await picture(b, "two", next)).text, wanted);
    assert.match(b.notes.join("\n"), why);
  });

/** What a check lays beside the tests, and what is left of it for the next check; `src/**` is protected where `guarded`. */
const LAID: Record<string, { script: string; left?: string; guarded?: true }> = {
  "a file beside the tests": { script: "echo x > src/zz.sh; mkdir -p src/new/deep; echo x > src/new/deep/y" },
  "rules that hide it, themselves hidden": {
    script:
      "echo '*' > src/.gitignore; echo x > src/zz; mkdir more; echo '*' > more/.gitignore; echo x > more/zz",
  },
  "what is ignored: it stays": {
    script: "mkdir -p build src/build; echo x > build/out; echo x > src/build/out; echo x > src/a.log",
    left: "build\nbuild/out\nsrc/a.log\nsrc/build\nsrc/build/out",
  },
  "what is ignored, below protect": {
    script: "mkdir -p build src/build; echo x > build/out; echo x > src/build/out; echo x > src/a.log",
    left: "build\nbuild/out",
    guarded: true,
  },
  "a link in place of a directory, into what is ignored": {
    script: "mkdir build; mv src build/src; ln -s build/src src; echo x > build/src/zz",
    left: "build\nbuild/src",
  },
  "odd names": {
    script:
      "touch -- $'new\\nline' $'\\xff\\xfe' ':(top)x' '!x' '-rf' ' '; mkfifo .gitattributes src/.gitattributes; mkdir src/.git",
  },
  "closed directories": { script: "mkdir -p shut/in; touch shut/in/x; chmod 000 shut/in shut src/deep" },
  "what the set-up put there: it stays": {
    script: "echo more >> made/list; echo x > made/new; rm src/made/gone",
    left: "made/list",
  },
  "what the set-up put below protect and a check has changed": {
    script: "echo evil > src/made/tool; echo x > made/new",
    left: "src/made/gone",
    guarded: true,
  },
};

for (const [what, { script, left = "", guarded }] of Object.entries(LAID))
  test(`case 44 gate-tampering: between two checks, ${what}`, async (t) => {
    const b = await bench(t);
    const dir = join(b.w.dir, "gate", "one");
    const place = await b.pool.take({ control: b.w.control, dir, commit: b.trees[0] ?? "" });
    const setUp = "mkdir made src/made; echo x > made/list; echo x > src/made/tool; echo x > src/made/gone";
    sh(place.work, setUp);
    const before = await b.pool.beside(place, guarded ? ["src/**"] : []);
    const tree = "find . -mindepth 1 -path ./.git -prune -o -printf '%P\\n' | LC_ALL=C sort";
    const first = sh(place.work, tree).split("\n");
    sh(place.work, script);
    const touched = sh(place.work, tree);
    await b.pool.renew(place, before);
    const second = sh(place.work, tree);
    const isNew = (name: string) => !first.includes(name) && !name.startsWith("build/src/");
    if (what.includes("set-up")) assert.match(second, new RegExp(`^${left}$`, "m"));
    else assert.equal(second.split("\n").filter(isNew).join("\n"), left, touched);
    assert.equal(sh(place.work, "git status --porcelain -uno; cat src/a.txt src/deep/b.txt"), "one\ntwo");
    if (what.includes("changed")) assert.doesNotMatch(second, /src\/made\/tool|made\/new/);
    b.pool.give(place, false);
  });

test("case 52 gate-not-isolated: a place with a process in it is not used again", async (t) => {
  const b = await bench(t);
  const [base = "", next = ""] = b.trees;
  const first = await picture(b, "one", base);
  const work = join(b.w.dir, "gate/one/work");
  const pid = Number(sh(work, "setsid sleep 60 > /dev/null 2>&1 < /dev/null & echo $!"));
  t.after(() => process.kill(pid, "SIGKILL"));
  b.pool.give({ dir: join(b.w.dir, "gate/one") }, true);
  await settled(b, "one");
  assert.notEqual((await picture(b, "two", next)).ino, first.ino);
  assert.match(b.notes.join("\n"), /processes are in it/);
});

test("idle places are bounded, and gone after a while", async (t) => {
  const w = await world(t, SETUP);
  sh(w.dir, "mkdir gate");
  const log = { info: () => {}, warn: () => {} };
  const top = join(w.dir, "gate");
  const pool = new PlacePool({ control: w.control, top, limit: 2, log, idleMs: 1_000 });
  const dirs = ["a", "b", "c"].map((name) => join(top, name));
  for (const dir of dirs) await pool.take({ control: w.control, dir, commit: w.base });
  for (const dir of dirs) pool.give({ dir }, true);
  await until("all were given back", () => dirs.every((dir) => !existsSync(dir)));
  assert.ok(readdirSync(top).length <= 2, readdirSync(top).join());
  await until("nothing is left", () => readdirSync(top).length === 0);
});
