// Random and mutated frames against a real bus: no crash, no unbounded memory, every call answered by an error of the
// catalogue or a result, and afterwards a journal that verifies and gives the same state again.
//
//   npm run fuzz                                  100,000 frames
//   npm run fuzz -- --frames 1000000 --seed 7     the long form
//
// test/fuzz/wire.test.ts runs a share of it. The streams of a connection that showed a fault are kept, and named.

import { randomInt } from "node:crypto";
import { writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { fuzz } from "./fuzz.ts";

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: { frames: { type: "string", default: "100000" }, seed: { type: "string" } },
  });
  const frames = Number(values.frames);
  const seed = values.seed === undefined ? randomInt(2 ** 31) : Number(values.seed);
  if (!Number.isSafeInteger(frames) || frames < 1 || !Number.isSafeInteger(seed)) {
    console.error("usage: npm run fuzz -- [--frames N] [--seed S]");
    process.exitCode = 2;
    return;
  }
  console.log(`${frames} frames, seed ${seed}`);
  const started = performance.now();
  const report = await fuzz({ frames, seed, say: (text) => console.error(text) });
  const seconds = (performance.now() - started) / 1_000;
  console.log(
    `${report.frames} frames on ${report.connections} connections (${report.cutOff} cut off for a stated reason) in ${seconds.toFixed(0)} s; ` +
      `at most ${report.peakRss.toFixed(0)} MB resident (both ends), heap ${report.heap[0]?.toFixed(0)} -> ${report.heap.at(-1)?.toFixed(0)} MB`,
  );
  const codes = [...report.codes].sort(([, a], [, b]) => b - a);
  console.log(codes.map(([code, times]) => `${code} ${times}`).join(", "));
  for (const fault of report.faults.slice(0, 20)) console.log(`FAULT: ${fault}`);
  for (const [i, stream] of report.bad.slice(0, 5).entries()) {
    const path = join(tmpdir(), `busbar-fuzz-${seed}-${i}.bin`);
    writeFileSync(path, stream);
    console.log(`what was sent: ${path}`);
  }
  console.log(report.faults.length > 0 ? `${report.faults.length} fault(s), seed ${seed}` : "no fault");
  process.exitCode = report.faults.length > 0 ? 1 : 0;
}

await main();
