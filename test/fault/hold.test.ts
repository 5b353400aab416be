// Case 70: a step whose writing fails although every place can be written (a bound of the process, a quota, room that
// came back): done again a few times, then the error is told as it is. An attempt that is stopped waits for nothing.

import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { whileUnwritable } from "../../scheduler/hold.ts";
import { BusbarError, ioError } from "../../schemas/errors.ts";
import { MemoryLog } from "../helpers/state.ts";
import { tempDir } from "../helpers/temp.ts";

function bench(t: TestContext, objects?: string) {
  const dir = tempDir(t);
  const log = new MemoryLog();
  const kit = { log, stateDir: dir, control: { gitDir: dir, objectDir: objects ?? dir } };
  const attempt = { ref: { run: "r", task: "a", attempt: 1 }, abort: new AbortController() };
  return { dir, log, kit, attempt };
}

const errno = (code: string) => Object.assign(new Error(`${code}: write`), { code });

test("case 70: EFBIG of a bound that is gone at the second try costs nothing; one that stays is told", async (t) => {
  const { dir, kit, attempt, log } = bench(t);
  let tries = 0;
  const once = async () => {
    tries += 1;
    if (tries === 1) throw ioError("writing", "index", errno("EFBIG"));
    return tries;
  };
  assert.equal(await whileUnwritable(kit, attempt, once), 2);
  let always = 0;
  const failing = whileUnwritable(kit, attempt, async () => {
    always += 1;
    throw errno("EFBIG");
  });
  await assert.rejects(failing, /EFBIG/);
  assert.equal(always, 4);
  assert.deepEqual(log.lines, []);
  assert.deepEqual(readdirSync(dir), [], "nothing is left of the looks");
});

test("case 70: what is no matter of the disk is told at once", async (t) => {
  const { kit, attempt } = bench(t);
  for (const error of [errno("EMFILE"), new BusbarError("STALE", "x", {})]) {
    let tries = 0;
    const deed = async () => {
      tries += 1;
      throw error;
    };
    await assert.rejects(whileUnwritable(kit, attempt, deed), error);
    assert.equal(tries, 1);
  }
});

test("case 70: an attempt that is stopped waits no longer", async (t) => {
  const { kit, attempt, log } = bench(t, "/nonexistent/objects");
  const waiting = whileUnwritable(kit, attempt, async () => {
    throw errno("ENOSPC");
  });
  log.error = () => attempt.abort.abort(new Error("cancelled"));
  await assert.rejects(waiting, (error: Error) => error.name === "AbortError");
});
