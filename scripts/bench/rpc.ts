// `get_file` over the socket, audit record included: alone and by 200 clients. Floor: a server that writes a prepared
// answer. Peer: what one writes by hand with JSON.parse and JSON.stringify. All in processes of their own; one client
// process drives each in turn.

import { spawn } from "node:child_process";
import { join } from "node:path";
import { readProc } from "../../shim/proc.ts";
import { makeRepo } from "../make-repo.ts";
import { type Bench, type BenchContext, interleave, median, type Row } from "./bench.ts";
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
    rows.splice(0, 0, ...(await crowd(ctx, bus, repo)), await beside(ctx, bus, repo));
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
  const m = await compare(ctx, bus, repo, size, async (server, job) => load(server, job(1)));
  return row(`get_file ${size.name}, alone (p50)`, "us", m.p50us, { targetRatio: 1.3 });
}

/** The rate, and what a call costs the server: the second does not depend on who else uses the cores. */
async function crowd(ctx: BenchContext, bus: BusProcess, repo: string): Promise<Row[]> {
  const m = await compare(ctx, bus, repo, SIZES[1], async (server, job) => load(server, job(CLIENTS)));
  const what = `get_file 10 KB, ${CLIENTS} clients`;
  const note = "the client is a Node process on the same cores: it takes its share of them from all three";
  return [
    row(what, "/s", m.perSecond, { target: 50_000, note }),
    row(`${what}, CPU of the server a call`, "us", m.cpuUs, { target: 16 }),
  ];
}

/** A second client process with one call at a time, while the first keeps the bus busy. */
async function beside(ctx: BenchContext, bus: BusProcess, repo: string): Promise<Row> {
  const m = await compare(ctx, bus, repo, SIZES[1], async (server, job) => {
    const busy = load(server, { ...job(CLIENTS), runMs: 2 * job(1).runMs });
    const [alone] = await Promise.all([load(server, job(1)), busy]);
    return alone;
  });
  return row(`get_file 10 KB, one caller beside ${CLIENTS} busy ones (p99)`, "us", m.p99us);
}

interface Server {
  pid: number;
  path: string;
  /** Sent once per connection. */
  greeting: string;
}

type Figures = LoadResult & { cpuUs: number };
type Three = Record<"ours" | "raw" | "ndjson", number>;

function row(measure: string, unit: Row["unit"], m: Three, more: Partial<Row> = {}): Row {
  const floor = { name: "raw echo", value: m.raw };
  return { measure, unit, ours: m.ours, floor, peer: { name: "ndjson by hand", value: m.ndjson }, ...more };
}

/** So that each has a socket of its own. */
let servers = 0;

/** Medians of every figure, the three servers in turn. */
async function compare(
  ctx: BenchContext,
  bus: BusProcess,
  repo: string,
  size: Size,
  drive: (server: Server, job: (connections: number) => Job) => Promise<Figures>,
): Promise<Record<keyof Figures, Three>> {
  const file = join(repo, size.path);
  servers += 1;
  const raw = await startServer("raw", join(ctx.dir, `raw-${servers}.sock`), file);
  const ndjson = await startServer("ndjson", join(ctx.dir, `ndjson-${servers}.sock`), file);
  const request = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "get_file", params: { path: size.path } });
  const runMs = ctx.quick ? 500 : 1_500;
  const job = (connections: number): Job => ({
    request,
    connections,
    warmMs: 300,
    runMs,
    minBytes: size.bytes,
  });
  const ours: Server = { pid: bus.pid, path: bus.socket, greeting: greetingOf(bus) };
  const taken = { ours: [] as Figures[], raw: [] as Figures[], ndjson: [] as Figures[] };
  const noted = async (name: keyof Three, server: Server) => {
    taken[name].push(await drive(server, job));
    return 0;
  };
  try {
    await interleave(ctx.quick ? 1 : 5, {
      ours: () => noted("ours", ours),
      raw: () => noted("raw", raw),
      ndjson: () => noted("ndjson", ndjson),
    });
  } finally {
    raw.end();
    ndjson.end();
  }
  const medians = (figure: keyof Figures): Three => ({
    ours: median(taken.ours.map((each) => each[figure])),
    raw: median(taken.raw.map((each) => each[figure])),
    ndjson: median(taken.ndjson.map((each) => each[figure])),
  });
  const [calls, perSecond, p50us] = [medians("calls"), medians("perSecond"), medians("p50us")];
  return { calls, perSecond, p50us, p99us: medians("p99us"), cpuUs: medians("cpuUs") };
}

function greetingOf(bus: BusProcess): string {
  const params = { protocol: { min: 1, max: 1 }, role: "agent", token: bus.agentToken, client: "bench" };
  return JSON.stringify({ jsonrpc: "2.0", id: 0, method: "hello", params });
}

const TSX = ["--import", import.meta.resolve("tsx")];

type Job = Omit<LoadJob, "socket" | "greeting">;

async function load(server: Server, job: Job): Promise<Figures> {
  const cpuMs = () => readProc(server.pid)?.cpuMs ?? Number.NaN;
  const before = cpuMs();
  const result = await client({ ...job, socket: server.path, greeting: server.greeting });
  return { ...result, cpuUs: ((cpuMs() - before) * 1_000) / result.calls };
}

function client(job: LoadJob): Promise<LoadResult> {
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

function startServer(kind: string, path: string, file: string): Promise<Server & { end(): void }> {
  return new Promise((resolve, reject) => {
    const program = join(import.meta.dirname, "rpc-server.ts");
    const child = spawn(process.execPath, [...TSX, program, kind, path, file], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    child.on("error", reject);
    child.on("exit", (code) => reject(new Error(`the ${kind} server ended with ${code}`)));
    const server = { pid: child.pid as number, path, greeting: "", end: () => child.kill("SIGKILL") };
    child.stdout.once("data", () => resolve(server));
  });
}
