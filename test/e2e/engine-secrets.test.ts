// Secrets by reference, through the real programs (issue 4.4, L6).

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { NO_ENV } from "../../schemas/task.ts";
import { engineWorld, shellTask } from "../helpers/engine.ts";

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
    shellTask("lacks", "echo out > lacks.txt", {
      retries: 0,
      env: { ...NO_ENV, secrets: { KEY: `file:${world.dir}/gone` } },
    }),
  ]);
  const { task } = await world.ended(run);
  assert.equal(task("uses").state.name, "passed", JSON.stringify(task("uses").attempts.at(-1)));
  const { evidence, result } = task("lacks").attempts[0] ?? {};
  assert.equal(result, "infra");
  assert.match(
    evidence?.summary ?? "",
    /preparing the agent: reading the secret KEY \(file:.*gone\): ENOENT/,
  );
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
