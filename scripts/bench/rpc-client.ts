// The load of the rpc bench, in a process of its own: N connections with one request in flight each, for a while.
// The job comes as one JSON line on standard input, the figures leave as one JSON line. Answers are not parsed: a line
// is a line, so that the server is what is measured.

import { readFileSync } from "node:fs";
import { connect } from "node:net";

export interface LoadJob {
  socket: string;
  connections: number;
  /** Sent once per connection before the clock runs, one line; "" for none. */
  greeting: string;
  /** Sent again and again, one line. */
  request: string;
  warmMs: number;
  runMs: number;
  /** An answer shorter than this is an error. */
  minBytes: number;
}

export interface LoadResult {
  /** All that were answered, those before the clock ran too. */
  calls: number;
  perSecond: number;
  p50us: number;
  p99us: number;
}

interface Tally {
  calls: number;
  counting: boolean;
  stopped: boolean;
  times: number[];
}

function drive(job: LoadJob, tally: Tally): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect(job.socket);
    const request = Buffer.from(`${job.request}\n`);
    let greeted = job.greeting === "";
    let bytes = 0;
    let head = "";
    let sent = 0;
    const next = () => {
      if (tally.stopped) {
        socket.end();
        return resolve();
      }
      bytes = 0;
      head = "";
      sent = performance.now();
      socket.write(request);
    };
    socket.on("error", reject);
    socket.on("connect", () => (greeted ? next() : socket.write(`${job.greeting}\n`)));
    socket.on("data", (chunk) => {
      bytes += chunk.length;
      if (head.length < 300) head += chunk.subarray(0, 300).toString("latin1");
      if (chunk.at(-1) !== 10) return;
      if (!greeted) {
        if (head.includes('"error"')) return reject(new Error(head));
        greeted = true;
        return next();
      }
      if (bytes < job.minBytes) return reject(new Error(`a short answer: ${head}`));
      tally.calls += 1;
      if (tally.counting) tally.times.push(performance.now() - sent);
      next();
    });
  });
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

async function main(): Promise<void> {
  const job = JSON.parse(readFileSync(0, "utf8")) as LoadJob;
  const tally: Tally = { calls: 0, counting: false, stopped: false, times: [] };
  const all = Promise.all(Array.from({ length: job.connections }, () => drive(job, tally)));
  const clock = async () => {
    await pause(job.warmMs);
    tally.counting = true;
    const started = performance.now();
    await pause(job.runMs);
    tally.counting = false;
    const ran = performance.now() - started;
    tally.stopped = true;
    return ran;
  };
  const [ran] = await Promise.all([clock(), all]);
  const sorted = Float64Array.from(tally.times).sort();
  const at = (q: number) => (sorted[Math.floor(q * (sorted.length - 1))] ?? Number.NaN) * 1_000;
  const perSecond = (sorted.length * 1_000) / ran;
  const result: LoadResult = { calls: tally.calls, perSecond, p50us: at(0.5), p99us: at(0.99) };
  process.stdout.write(`${JSON.stringify(result)}\n`);
}

await main();
