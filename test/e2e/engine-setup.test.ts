// The set-up of the gate: it runs in each workspace and in each clean place, and what it leaves is no change of the
// agent's.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Gate } from "../../schemas/task.ts";
import { engineWorld, shellTask } from "../helpers/engine.ts";

const SETUP =
  "echo node_modules/ > .gitignore; echo base > lock.txt; echo base > f.txt; git add -A; git commit -qm base";
const gate = {
  setup: [
    { run: "mkdir -p node_modules/dep; echo dep > node_modules/dep/i.js; echo locked >> lock.txt", key: [] },
  ],
  shallow: [],
  middle: [],
  deep: [],
} satisfies Partial<Gate> as unknown as Gate;
const hasSetup = "test -f node_modules/dep/i.js && grep -qx locked lock.txt";
// A check runs on exactly the tree that would land: what the set-up put beside it stays, its edits of the tree do not.
const hasFiles = "test -f node_modules/dep/i.js && ! grep -qx locked lock.txt";

test("S6: what the set-up of the gate writes is there for agents and checks, and is no part of the change", async (t) => {
  const world = await engineWorld(t, SETUP);
  const run = await world.submit(
    [
      shellTask("uses", `${hasSetup} && echo out > out.txt`, {
        allowed_files: ["out.txt"],
        acceptance: [{ run: `${hasFiles} && test -f out.txt` }],
      }),
      shellTask("edits", "echo mine >> lock.txt", { allowed_files: ["out2.txt"] }),
    ],
    { gate },
  );
  const { task } = await world.ended(run);
  const uses = task("uses");
  assert.equal(uses.state.name, "passed", JSON.stringify(uses.attempts.at(-1)));
  assert.equal(world.git("git diff --name-only main busbar/r"), "out.txt");
  // A file that the agent itself changed after the set-up counts.
  const edits = task("edits").attempts.at(-1);
  assert.equal(edits?.result, "scope");
  assert.deepEqual(edits?.evidence?.paths, ["lock.txt"]);
});

test("W8: files of the checkout that are in no commit come along, and are no part of a change or of a kept set-up", async (t) => {
  const world = await engineWorld(
    t,
    "echo .env > .gitignore; echo made >> .gitignore; echo base > f.txt; git add -A; git commit -qm base; echo KEY=1 > .env; mkdir -p local/d; echo l > local/d/l",
  );
  const there = "grep -qx KEY=1 .env && test -f local/d/l";
  const own = { allowed_files: ["*.txt", "local/"], acceptance: [{ run: there }], retries: 0 };
  const run = await world.submit(
    [
      shellTask("uses", `${there} && echo "$BUSBAR_UNIQUE" > uses.txt`, own),
      shellTask("again", `${there} && test -f made/x && echo "$BUSBAR_UNIQUE" > again.txt`, {
        ...own,
        depends_on: ["uses"],
      }),
      shellTask("edits", "echo more >> local/d/l", own),
    ],
    {
      copy: [".env", "local"],
      gate: {
        ...gate,
        setup: [
          { run: `${there} && echo x >> "$W/setups" && mkdir made && touch made/x`, key: [".gitignore"] },
        ],
      },
    },
  );
  const { task } = await world.ended(run);
  for (const id of ["uses", "again", "edits"])
    assert.equal(task(id).state.name, "passed", JSON.stringify(task(id).attempts.at(-1)));
  assert.equal(world.git("git diff --name-only main busbar/r"), "again.txt\nlocal/d/l\nuses.txt");
  const names = ["uses", "again"].map((id) => world.git(`git show busbar/r:${id}.txt`));
  assert.match(names[0] ?? "", /^busbar_[0-9a-f]{12}$/);
  assert.notEqual(names[0], names[1]);
});
