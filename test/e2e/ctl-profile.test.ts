// Own agent profiles: what `busctl plan` says about one that is missing, and that one from the configuration works.

import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { makeWorld } from "../helpers/world.ts";

test("P1: a profile that is missing is refused with the way to define it; defined so, it gets prompt, model and arguments", async (t) => {
  const w = makeWorld(t);
  const task = {
    id: "a",
    goal: "write the word zebra",
    agent: { use: "codex", model: "big one", args: ["x y"] },
    allowed_files: ["*.txt"],
    acceptance: ["grep -q zebra a.txt", "test \"$(cat b.txt)\" = 'big one|x y'"],
  };
  const file = w.plan([task]);
  const refused = await w.busctl(["plan", file]);
  assert.equal(refused.code, 2);
  const said = refused.out.replace(/\s+/g, " ");
  assert.match(said, /there is no agent "codex"/);
  assert.match(
    said,
    /~\/\.config\/busbar\/config\.yaml: agents: \{codex: \{command: '\.\.\. "\$BUSBAR_PROMPT"'\}\}/,
  );

  const dir = join(w.env.HOME ?? "", ".config", "busbar");
  mkdirSync(dir, { recursive: true });
  writeFileSync(
    join(dir, "config.yaml"),
    `agents:
  codex:
    command: |
      f() { grep -o 'write the word zebra' "$BUSBAR_PROMPT" > a.txt; printf '%s|%s' "$BUSBAR_MODEL" "$1" > b.txt; }; f
`,
  );
  assert.equal((await w.busctl(["plan", file])).code, 0);
  const ran = await w.run([task]);
  assert.equal(ran.code, 0, ran.out + ran.err);
  assert.equal(w.git("show", "busbar/r:a.txt"), "write the word zebra");
});

test("W7: an agent may make a repository of its own and commit there: its home has an identity, and none of the user's", async (t) => {
  const w = makeWorld(t);
  w.sh('git config --file "$HOME/.gitconfig" user.name somebody');
  const agent = w.agent(
    "a",
    `d=$(mktemp -d); git init -q $d/own; cd $d/own; git commit -q --allow-empty -m one
     git log -1 --format='%an <%ae> %D' > "$OLDPWD/a.txt"`,
  );
  const ran = await w.run([{ id: "a", command: agent }]);
  assert.equal(ran.code, 0, ran.out + ran.err);
  assert.equal(w.git("show", "busbar/r:a.txt"), "busbar agent <agent@busbar.invalid> HEAD -> main");
});
