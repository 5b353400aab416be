// A share of the wire fuzz (issue: nothing that comes in harms the bus): random and mutated frames against a real bus.
// The long form is `npm run fuzz -- --frames 1000000`; BUSBAR_FUZZ_FRAMES and BUSBAR_FUZZ_SEED change this one.

import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { test } from "node:test";
import { dueAnswers, readAnswer } from "../../scripts/fuzz/expect.ts";
import { fuzz } from "../../scripts/fuzz/fuzz.ts";

const FRAMES = Number(process.env.BUSBAR_FUZZ_FRAMES ?? 6_000);
const SEED = Number(process.env.BUSBAR_FUZZ_SEED ?? randomInt(2 ** 31));
/** Both ends in one process, with frames of 16 MiB on the way. */
const MAX_RSS_MB = 700;

test("B1: random and mutated frames: no crash, bounded memory, every call answered, the state whole", async (t) => {
  const report = await fuzz({ frames: FRAMES, seed: SEED });
  t.diagnostic(`seed ${SEED}: ${report.frames} frames, ${report.peakRss.toFixed(0)} MB at the most`);
  assert.deepEqual(report.faults.slice(0, 5), [], `seed ${SEED}`);
  assert.ok(report.frames >= FRAMES);
  assert.ok(report.peakRss < MAX_RSS_MB, `${report.peakRss} MB`);
  // The fuzz is worth something only while it also gets through to the handlers.
  assert.ok(
    (report.codes.get("ok") ?? 0) > FRAMES / 20,
    `${report.codes.get("ok")} calls were answered well`,
  );
  assert.ok(report.codes.size >= 12, [...report.codes.keys()].join());
});

test("B1: the fuzz sees an answer that is missing, and one that must not leave the bus", () => {
  const ping = '{"jsonrpc":"2.0","id":7,"method":"ping"}';
  const stream = `${ping}\n[${ping},null,{"jsonrpc":"2.0","method":"ping"}]\n\r\n{\n[]\n{"id":"x"}\n${ping}`;
  assert.deepEqual(dueAnswers(Buffer.from(stream)), ["7", "[7,null]", "null", "null", '"x"']);
  const faults = (answer: unknown) => readAnswer(Buffer.from(JSON.stringify(answer))).faults.length;
  const error = (data: object, code = -32603) => ({
    jsonrpc: "2.0",
    id: 1,
    error: { code, message: "m", data },
  });
  assert.equal(faults({ jsonrpc: "2.0", id: 1, result: null }), 0);
  assert.ok(faults({ jsonrpc: "2.0", id: 1 }) > 0);
  assert.ok(faults(error({ code: "INTERNAL" })) > 0, "a fault of the bus");
  assert.ok(faults(error({ code: "E_OWN" })) > 0, "no code of the catalogue");
  assert.ok(
    faults(error({ code: "STALE", help: "Newer state exists; read it again." }, 1)) > 0,
    "a wrong number",
  );
  assert.ok(faults({ jsonrpc: "2.0", method: "ping", params: {} }) > 0, "a call from the bus");
});
