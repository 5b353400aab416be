// Fuzzes the wire and the method table of a real bus: buses one after the other, on each groups of connections at once.
// Everything drawn follows from the seed; what comes between what on the way does not.

import { mkdirSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type FuzzedBus, startFuzzedBus } from "./bus.ts";
import { Random } from "./random.ts";
import { fuzzSession, type SessionResult } from "./session.ts";

/** After so many frames the bus is ended and its disk looked at: questions to the journal grow with it. */
const FRAMES_PER_BUS = 10_000;
const AT_ONCE = 12;
const FRAMES_PER_CONNECTION = 60;

export interface FuzzReport {
  frames: number;
  connections: number;
  codes: Map<string, number>;
  /** Connections that the bus ended with answers due, for a reason that its log states (a late hello). */
  cutOff: number;
  faults: string[];
  /** Streams of connections with faults. */
  bad: Buffer[];
  /** MB resident at the most, and MB of heap in use after each bus. */
  peakRss: number;
  heap: number[];
}

export async function fuzz(order: {
  frames: number;
  seed: number;
  say?(text: string): void;
}): Promise<FuzzReport> {
  const r = new Random(order.seed);
  const report: FuzzReport = {
    frames: 0,
    connections: 0,
    codes: new Map(),
    cutOff: 0,
    faults: [],
    bad: [],
    peakRss: 0,
    heap: [],
  };
  const top = realpathSync(mkdtempSync(join(tmpdir(), "bb-fuzz-")));
  const onFault = (error: unknown) => report.faults.push(`the bus fell: ${(error as Error).stack ?? error}`);
  process.on("uncaughtException", onFault);
  process.on("unhandledRejection", onFault);
  try {
    for (let n = 0; report.frames < order.frames && report.faults.length === 0; n++) {
      const dir = join(top, String(n));
      mkdirSync(dir);
      await fuzzOneBus(r.fork(), dir, Math.min(FRAMES_PER_BUS, order.frames - report.frames), report);
      rmSync(dir, { recursive: true, force: true });
      global.gc?.();
      report.heap.push(process.memoryUsage().heapUsed / 2 ** 20);
      order.say?.(`${report.frames} frames, ${report.heap.at(-1)?.toFixed(0)} MB of heap`);
    }
  } finally {
    process.off("uncaughtException", onFault);
    process.off("unhandledRejection", onFault);
    rmSync(top, { recursive: true, force: true, maxRetries: 5 });
  }
  return report;
}

async function fuzzOneBus(r: Random, dir: string, frames: number, report: FuzzReport): Promise<void> {
  const bus = await startFuzzedBus(dir);
  try {
    for (let sent = 0; sent < frames && report.faults.length === 0; ) {
      const left = frames - sent;
      sent += await fuzzGroup(r, bus, Math.min(AT_ONCE, Math.ceil(left / FRAMES_PER_CONNECTION)), report);
    }
    report.faults.push(
      ...bus.log.filter((line) => /"level":"error"/.test(line)).map((line) => `the log: ${line}`),
    );
  } finally {
    report.faults.push(...(await bus.end()));
  }
}

/** Some connections at once on a fresh run; who waits for the run itself is answered by its end. */
async function fuzzGroup(
  r: Random,
  bus: FuzzedBus,
  connections: number,
  report: FuzzReport,
): Promise<number> {
  const facts = await bus.freshFacts();
  const from = bus.log.length;
  let waiting = connections;
  let allSent = () => {};
  const onItsWay = new Promise<void>((resolve) => {
    allSent = resolve;
  });
  const order = {
    socket: bus.socket,
    facts,
    count: FRAMES_PER_CONNECTION,
    sent: () => {
      waiting -= 1;
      if (waiting === 0) allSent();
    },
  };
  const sessions = Array.from({ length: connections }, () => fuzzSession(r.fork(), order));
  const results = Promise.all(sessions);
  await Promise.race([onItsWay, results]);
  await bus.release(facts);
  for (const result of await results) add(report, result, bus.log.slice(from));
  return connections * FRAMES_PER_CONNECTION;
}

function add(report: FuzzReport, result: SessionResult, log: readonly string[]): void {
  report.frames += result.frames;
  report.connections += 1;
  report.peakRss = Math.max(report.peakRss, process.memoryUsage.rss() / 2 ** 20);
  for (const [code, times] of result.codes) report.codes.set(code, (report.codes.get(code) ?? 0) + times);
  const stated =
    result.cutOff && log.some((line) => /connection ended/.test(line) && !/closed by the peer/.test(line));
  if (stated) report.cutOff += 1;
  const faults = stated ? result.faults.filter((fault) => !fault.startsWith("not answered")) : result.faults;
  if (faults.length === 0) return;
  report.faults.push(...faults);
  report.bad.push(result.stream);
}
