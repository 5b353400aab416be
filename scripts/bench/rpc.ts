// `get_file` over the socket, audit record included: alone and by 200 clients. Floor: a server that writes a prepared
// answer. Peer: what one writes by hand with JSON.parse and JSON.stringify. All in processes of their own; one client
// process drives each in turn.

import { spawn } from "node:child_process";
import { join } from "node:path";
import { makeRepo } from "../make-repo.ts";
import { type Bench, type BenchContext, interleave, type Row } from "./bench.ts";
import { type BusProcess, startBus } from "./bus-process.ts";
import type { LoadJob, LoadResult } from "./rpc-client.ts";

const SIZES = [
  { name: "100 B", path: "data/small.ts", bytes: 100 },
  { name: "10 KB", path: "data/middle.ts", bytes: 10_240 },
  { name: "1 MB", path: "data/large.ts", bytes: 1_048_576 },
] as const;
type Size = (typeof SIZES)[number];
const CLIENTS = 200;

export const rpc: Bench = {
  name: "rpc",
  about: `get_file with audit, alone and by ${CLIENTS} clients`,
  run: measure,
};

async function measure(ctx: BenchContext): Promise<Row[]> {
  const extra = new Map(SIZES.map(({ path, bytes }) => [path, sourceText(bytes)]));
  const repo = join(ctx.dir, "repo");
  const base = makeRepo({ dir: repo, files: 20, extra });
  const bus = await startBus(ctx.dir, repo, base);
  const rows: Row[] = [];
  try {
    for (const size of SIZES) rows.push(await lone(ctx, bus, repo, size));
    rows.splice(0, 0, await crowd(ctx, bus, repo));
    rows.push({ measure: "memory of the bus afterwards", unit: "MB", ours: bus.memory(), target: 100 });
  } finally {
    await bus.end();
  }
  return rows;
}

/** Source-like text with quotes, tabs and line ends to escape, of exactly that size. */
function sourceText(bytes: number): string {
  const line = 'export const part = (name: string) =>\n\tshow(name, "quoted", "\\\\ text");\n';
  return line.repeat(Math.ceil(bytes / line.length)).slice(0, bytes);
}

async function lone(ctx: BenchContext, bus: BusProcess, repo: string, size: Size): Promise<Row> {
  const m = await compare(ctx, bus, repo, size, 1, (result) => result.p50us);
  return {
    measure: `get_file ${size.name}, alone (p50)`,
    unit: "us",
    ours: m.ours,
    floor: { name: "raw echo", value: m.raw },
    peer: { name: "ndjson by hand", value: m.ndjson },
    targetRatio: 1.3,
  };
}

async function crowd(ctx: BenchContext, bus: BusProcess, repo: string): Promise<Row> {
  const m = await compare(ctx, bus, repo, SIZES[1], CLIENTS, (result) => result.perSecond);
  return {
    measure: `get_file 10 KB, ${CLIENTS} clients`,
    unit: "/s",
    ours: m.ours,
    floor: { name: "raw echo", value: m.raw },
    peer: { name: "ndjson by hand", value: m.ndjson },
    target: 50_000,
    note: "the client is a Node process on the same cores: it takes its share of them from all three",
  };
}

async function compare(
  ctx: BenchContext,
  bus: BusProcess,
  repo: string,
  size: Size,
  connections: number,
  figure: (result: LoadResult) => number,
): Promise<{ ours: number; raw: number; ndjson: number }> {
  const file = join(repo, size.path);
  const name = `${size.bytes}-${connections}.sock`;
  const raw = await startServer("raw", join(ctx.dir, `raw-${name}`), file);
  const ndjson = await startServer("ndjson", join(ctx.dir, `ndjson-${name}`), file);
  const request = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "get_file", params: { path: size.path } });
  const job = (socket: string, greeting: string): LoadJob => ({
    socket,
    greeting,
    request,
    connections,
    warmMs: 300,
    runMs: ctx.quick ? 500 : 1_500,
    minBytes: size.bytes,
  });
  try {
    return await interleave(ctx.quick ? 1 : 5, {
      ours: async () => figure(await load(job(bus.socket, greetingOf(bus)))),
      raw: async () => figure(await load(job(raw.path, ""))),
      ndjson: async () => figure(await load(job(ndjson.path, ""))),
    });
  } finally {
    raw.end();
    ndjson.end();
  }
}

function greetingOf(bus: BusProcess): string {
  const params = { protocol: { min: 1, max: 1 }, role: "agent", token: bus.agentToken, client: "bench" };
  return JSON.stringify({ jsonrpc: "2.0", id: 0, method: "hello", params });
}

const TSX = ["--import", import.meta.resolve("tsx")];

function load(job: LoadJob): Promise<LoadResult> {
  return new Promise((resolve, reject) => {
    const program = join(import.meta.dirname, "rpc-client.ts");
    const child = spawn(process.execPath, [...TSX, program], { stdio: ["pipe", "pipe", "inherit"] });
    let text = "";
    child.stdout.on("data", (chunk: Buffer) => {
      text += chunk;
    });
    child.on("error", reject);
    child.on("close", (code) =>
      code === 0
        ? resolve(JSON.parse(text) as LoadResult)
        : reject(new Error(`the client ended with ${code}`)),
    );
    child.stdin.end(JSON.stringify(job));
  });
}

function startServer(kind: string, path: string, file: string): Promise<{ path: string; end(): void }> {
  return new Promise((resolve, reject) => {
    const program = join(import.meta.dirname, "rpc-server.ts");
    const child = spawn(process.execPath, [...TSX, program, kind, path, file], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    child.on("error", reject);
    child.on("exit", (code) => reject(new Error(`the ${kind} server ended with ${code}`)));
    child.stdout.once("data", () => resolve({ path, end: () => child.kill("SIGKILL") }));
  });
}
