// The user's own `git gc --prune=now` at the worst moment: it took the refs before ours was made, and removes after that
// whatever they did not reach.

import assert from "node:assert/strict";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { open, sh, world } from "../helpers/repo.ts";
import { makeWorld, type World } from "../helpers/world.ts";

/** A world whose programs find a git that does `before` first: bash, with `$real` (git) and `$repo`. */
function beside(t: TestContext, before: string): World {
  const world = makeWorld(t);
  const { W, repo } = world;
  const real = world.sh("command -v git").trim();
  mkdirSync(join(W, "path"));
  const wrapper = `#!/bin/bash\nreal="${real}"; repo="${repo}"\n${before}\nexec "$real" "$@"\n`;
  writeFileSync(join(W, "path", "git"), wrapper, { mode: 0o755 });
  world.env.PATH = `${join(W, "path")}:${world.env.PATH}`;
  return world;
}

/** It repacks before each move of a ref below `prefix`, and prunes after it. */
const pruning = (t: TestContext, prefix: string) =>
  beside(
    t,
    `case " $* " in
  *" update-ref "*)
    # Also where the names come by the input.
    input="$(cat)"
    case "$* $input" in
      *" ${prefix}"*)
        doomed="$(
          unset \${!GIT_@}
          "$real" -C "$repo" repack -adq
          "$real" -C "$repo" prune -n --expire=now | cut -d' ' -f1
        )"
        ;;
    esac
    "$real" "$@" <<< "$input"
    code=$?
    for id in $doomed; do rm -f "$repo/.git/objects/\${id:0:2}/\${id:2}"; done
    exit $code
    ;;
esac`,
  );

for (const prefix of [
  "refs/busbar/anchor",
  "refs/busbar/attempts/",
  "refs/busbar/runs/r/candidate",
  "refs/heads/busbar/",
])
  test(`a gc of the user's beside a move of ${prefix} loses no object`, async (t) => {
    const world = pruning(t, prefix);
    const own = "git add -A; git -c user.name=a -c user.email=a@b commit -qm own; ";
    const tasks = ["a", "b", "c"].map((id) => ({
      id,
      command: world.agent(id, `echo ${id} > ${id}.txt; ${own} echo more >> ${id}.txt`),
      allowed_files: [`${id}.txt`],
      acceptance: [{ run: `grep more ${id}.txt` }],
    }));
    const ran = await world.run(tasks);
    assert.equal(ran.code, 0, ran.out + ran.err);
    // The bus anchors in the background, and once more when it ends.
    assert.equal((await world.down()).code, 0);
    assert.equal(world.git("fsck", "--no-dangling", "--connectivity-only"), "");
    world.git("gc", "-q", "--prune=now");
    world.git("log", "--all", "--format=%H");
    assert.deepEqual(
      ["a", "b", "c"].map((id) => world.git("show", `busbar/r:${id}.txt`)),
      ["a", "b", "c"].map((id) => `${id}\nmore`),
    );
    const packs = readdirSync(join(world.repo, ".git/objects/pack"));
    assert.deepEqual(
      packs.filter((name) => !/\.(pack|idx|rev)$/.test(name)),
      [],
      "nothing of ours is left",
    );
  });

test("a gc of the user's beside the canary takes nothing that its checks need: no attempt is lost by it", async (t) => {
  const world = beside(
    t,
    `case " $* " in
  *" read-tree "* | *" update-index "* | *" write-tree "* | *" checkout-index "* | *" checkout "*)
    (unset \${!GIT_@}; "$real" -C "$repo" repack -adq; "$real" -C "$repo" prune --expire=now)
    ;;
esac`,
  );
  const gate = {
    shallow: [{ name: "whole", run: "! grep -q broken f.txt" }],
    canary: { file: "f.txt", append: "broken" },
  };
  const ran = await world.run([{ id: "a", command: "echo a > a.txt", allowed_files: ["a.txt"] }], { gate });
  assert.equal(ran.code, 0, ran.out + ran.err);
  assert.deepEqual(
    (await world.state("r")).tasks.get("a")?.attempts.map(({ result }) => result),
    ["passed"],
  );
});

test("marks that a killed scheduler left go with the next; those of others stay", async (t) => {
  const w = await world(t, "echo a > a; git add -A; git commit -qm base; git repack -adq");
  const dir = join(w.repo, ".git/objects/pack");
  const [pack = ""] = readdirSync(dir).filter((name) => name.endsWith(".pack"));
  const gone = sh(w.dir, 'sh -c "exit" & echo $!; wait');
  const put = (name: string, text: string) => writeFileSync(join(dir, name), text);
  put(pack.replace(/pack$/, "keep"), `busbar ${gone}\n`);
  for (const ending of ["keep", "pack", "pack.new"]) put(`pack-1.${ending}`, `busbar ${gone}\n`);
  put("pack-2.keep", `busbar ${process.pid}\n`);
  put("pack-3.keep", "a person's\n");
  await open(w.dir, w.repo);
  const left = readdirSync(dir).filter((name) => !name.endsWith(".idx") && !name.endsWith(".rev"));
  assert.deepEqual(left.sort(), [pack, "pack-2.keep", "pack-3.keep"].sort());
  assert.equal(sh(w.repo, "git fsck --connectivity-only"), "");
});
