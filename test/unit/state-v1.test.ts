// The checked-in sample of state version 1 loads for ever. It is never made anew: a version that cannot read it has
// broken the state of everybody who upgrades.

import assert from "node:assert/strict";
import { chmodSync, cpSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import { dump, openStore } from "../helpers/state.ts";
import { tempDir } from "../helpers/temp.ts";

const SAMPLE = fileURLToPath(new URL("../fixtures/state-v1", import.meta.url));
const EXPECTED: unknown = JSON.parse(readFileSync(join(SAMPLE, "expected.json"), "utf8"));

function copy(t: TestContext): string {
  const dir = join(tempDir(t), "bus");
  cpSync(SAMPLE, dir, { recursive: true });
  chmodSync(join(dir, "key"), 0o600); // git keeps no such mode
  return dir;
}

for (const [name, remove] of [
  ["from its checkpoint", ""],
  ["from its journal alone", "checkpoint"],
] as const) {
  test(`B7: state version 1 loads ${name}, its chain holds, and it can be written on`, async (t) => {
    const dir = copy(t);
    if (remove) rmSync(join(dir, remove), { recursive: true });
    const store = await openStore(dir);
    assert.deepEqual(JSON.parse(JSON.stringify(dump(store))), EXPECTED);
    assert.deepEqual(await store.verify(), { ok: true, records: store.seq, replay: { same: true } });
    await store.change({ actor: "person" }, (d) =>
      d.emit({ run: "sample" }, { type: "run.resumed", by: "me" }),
    );
    await store.close();
    const again = await openStore(dir);
    assert.equal(again.view.run("sample")?.paused, false);
    await again.close();
  });
}
