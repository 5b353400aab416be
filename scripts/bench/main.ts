// The benches: figures of ours beside the floor of the machine and the best peer, taken in the same run.
//
//   npm run bench                  all of them
//   npm run bench -- rpc blobs     these
//   npm run bench -- --quick       fewer rounds
//   npm run bench -- --json        one JSON document
//
// Nothing here runs in CI: figures of a shared machine prove nothing. Read the ratios.

import { cpus, loadavg, totalmem } from "node:os";
import { parseArgs } from "node:util";
import { audit } from "./audit.ts";
import { type Bench, type Row, withDir } from "./bench.ts";
import { blobs } from "./blobs.ts";
import { capture } from "./capture.ts";
import { dispatch } from "./dispatch.ts";
import { recovery } from "./recovery.ts";
import { rpc } from "./rpc.ts";
import { sandbox } from "./sandbox.ts";
import { shim } from "./shim.ts";
import { state } from "./state.ts";
import { reached, renderRows } from "./table.ts";
import { workspaces } from "./workspaces.ts";

const BENCHES: readonly Bench[] = [
  rpc,
  blobs,
  state,
  recovery,
  audit,
  workspaces,
  capture,
  shim,
  sandbox,
  dispatch,
];

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { json: { type: "boolean", default: false }, quick: { type: "boolean", default: false } },
  });
  const unknown = positionals.filter((name) => !BENCHES.some((bench) => bench.name === name));
  if (unknown.length > 0) {
    console.error(
      `no bench ${unknown.join(", ")}; there are ${BENCHES.map((bench) => bench.name).join(", ")}`,
    );
    process.exitCode = 2;
    return;
  }
  const say = (text: string) => console.error(text);
  say(machine());
  const results: { bench: string; rows: Row[] }[] = [];
  for (const bench of BENCHES) {
    if (positionals.length > 0 && !positionals.includes(bench.name)) continue;
    say(`\n${bench.name}: ${bench.about}`);
    const rows = await withDir((dir) => bench.run({ dir, quick: values.quick, say }));
    results.push({ bench: bench.name, rows });
    if (!values.json) console.log(renderRows(rows));
  }
  if (values.json) {
    const list = results.map(({ bench, rows }) => ({
      bench,
      rows: rows.map((row) => ({ ...row, reached: reached(row) ?? null })),
    }));
    console.log(JSON.stringify({ machine: machine(), node: process.versions.node, results: list }, null, 2));
  }
}

function machine(): string {
  const [cpu] = cpus();
  return `${cpus().length} x ${cpu?.model.trim()}, ${Math.round(totalmem() / 2 ** 30)} GiB, load ${loadavg()[0]?.toFixed(1)}, Node ${process.versions.node}`;
}

await main();
