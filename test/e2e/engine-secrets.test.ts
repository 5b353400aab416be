// Secrets by reference, through the real programs (issue 4.4, L6).

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { NO_ENV } from "../../schemas/task.ts";
import { engineWorld, shellTask } from "../helpers/engine.ts";
import { until } from "../helpers/wait.ts";

const VALUE = "zuluzulu-4711-of-the-file";

test("issue 4.4, L6: an agent gets its key from where the plan says; no check does, and no file of ours holds it", async (t) => {
  const world = await engineWorld(t);
  writeFileSync(join(world.dir, "key"), `${VALUE}\n`);
  const env = { ...NO_ENV, pass: ["W"], secrets: { KEY: `cmd:cat ${world.dir}/key` } };
  const run = await world.submit([
    shellTask("uses", 'test "$KEY" = "$(cat "$W/key")" && echo "it is $KEY" && echo out > uses.txt', {
      acceptance: [{ run: 'echo "KEY=$KEY"; test -z "$KEY"' }],
      env,
    }),
  ]);
  const { task } = await world.ended(run);
  assert.equal(task("uses").state.name, "passed", JSON.stringify(task("uses").attempts.at(-1)));
  const log = readFileSync(join(task("uses").attempts[0]?.workspace ?? "", "agent.log"), "utf8");
  assert.match(log, /it is \[redacted:KEY\]/);
  const holders = filesBelow(world.dir).filter((path) => readFileSync(path).includes(VALUE));
  assert.deepEqual(holders, [join(world.dir, "key")]);
});

function filesBelow(dir: string): string[] {
  return readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => existsSync(path));
}

const TOKEN = `ghp_${"a1B2c3D4e5".repeat(3)}abcdef`;
const OLD = `ghp_${"Z9y8X7w6V5".repeat(3)}uvwxyz`;

/** Every object of the repository and of the agents' own, as text. */
function objects(world: Awaited<ReturnType<typeof engineWorld>>): string {
  return world.git("git cat-file --batch-all-objects --batch --buffer | tr '\\0' '\\n'");
}

test("L6: what git would store is looked through: encodings, links, names; a value that is another one meanwhile", async (t) => {
  const world = await engineWorld(t);
  writeFileSync(join(world.dir, "key"), VALUE);
  const env = { ...NO_ENV, pass: ["W"], secrets: { KEY: `file:${world.dir}/key` } };
  const own = { retries: 0, acceptance: [{ run: "true" }], env, allowed_files: ["**"] };
  const run = await world.submit([
    shellTask(
      "encoded",
      'echo "*.u16 working-tree-encoding=UTF-16" > .gitattributes; printf "%s" "$KEY" | iconv -t UTF-16 > e.u16',
      own,
    ),
    shellTask("link", 'ln -s "$KEY" l', own),
    shellTask("name", 'echo x > "n-$KEY"', own),
    shellTask("rotated", 'echo other-value-of-the-file > "$W/key"; echo "$KEY" > r.txt', {
      ...own,
      depends_on: ["after"],
    }),
    shellTask("after", "until [ -e $W/first ]; do sleep 0.05; done; echo a > a.txt", {
      ...own,
      env: { ...NO_ENV, pass: ["W"] },
    }),
  ]);
  await until("the first three are through", async () => {
    const { task } = await world.state(run);
    return ["encoded", "link", "name"].every((id) => task(id).state.name === "blocked");
  });
  writeFileSync(join(world.dir, "first"), "");
  const { task } = await world.ended(run);
  const why = (id: string) => task(id).attempts[0]?.evidence?.summary;
  const it = "the value of the secret KEY";
  assert.equal(why("encoded"), `secret in the change: e.u16: line 1 holds ${it}`);
  assert.equal(why("link"), `secret in the change: l: line 1 holds ${it}`);
  assert.equal(why("name"), `secret in the change: n-[redacted:KEY]: its name holds ${it}`);
  assert.equal(why("rotated"), `secret in the change: r.txt: line 1 holds ${it}`);
  assert.doesNotMatch(objects(world), new RegExp(VALUE));
});

test("case 40 secrets-in-output, G4: a secret in a file stops the change, and gets into no object", async (t) => {
  const world = await engineWorld(
    t,
    `echo base > f.txt; echo 'old ${OLD}' > known.txt; git add -A; git commit -qm base`,
  );
  writeFileSync(join(world.dir, "key"), VALUE);
  writeFileSync(join(world.dir, "token"), TOKEN);
  const env = { ...NO_ENV, pass: ["W"], secrets: { KEY: `file:${world.dir}/key` } };
  const own = { retries: 0, acceptance: [{ run: "true" }] };
  const run = await world.submit(
    [
      shellTask(
        "value",
        'printf "one\\ntwo %s\\n" "$KEY" > value.txt; git add -A; git commit -qm "use $KEY"; echo more >> value.txt',
        { ...own, env, allowed_files: ["value.txt"] },
      ),
      shellTask("looks", '(echo "// secretlint-disable"; cat "$W/token") > looks.txt', own),
      shellTask("known", "echo more >> known.txt; echo ok > known2.txt", {
        ...own,
        allowed_files: ["known.txt", "known2.txt"],
      }),
      shellTask("data", 'mkdir fix; cat "$W/token" > fix/data.txt', { ...own, allowed_files: ["fix/"] }),
    ],
    { may_hold_secrets: ["fix/"] },
  );
  const { task } = await world.ended(run);
  const why = (id: string) => task(id).attempts[0]?.evidence?.summary;
  assert.equal(why("value"), "secret in the change: value.txt: line 2 holds the value of the secret KEY");
  assert.match(
    why("looks") ?? "",
    /^secret in the change: looks\.txt: line 2 holds what looks like a secret \(github/,
  );
  assert.doesNotMatch(JSON.stringify(task("looks")), new RegExp(TOKEN));
  for (const id of ["known", "data"])
    assert.equal(task(id).state.name, "passed", JSON.stringify(task(id).attempts));
  assert.doesNotMatch(objects(world), new RegExp(VALUE));
  // The work itself is not lost: it stands in the workspace.
  const dir = task("value").attempts[0]?.workspace ?? "";
  assert.match(readFileSync(join(dir, "work", "value.txt"), "utf8"), new RegExp(VALUE));
  assert.match(
    readFileSync(join(dir, "captured.json"), "utf8"),
    /own commits are not kept: they hold the value of the secret KEY/,
  );
});
