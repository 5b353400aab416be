// The program `bus-shim`. Without arguments: reads a job from standard input and runs it (shim.ts). `call METHOD
// [JSON]`: one request to the bus of the attempt it is called in. Imports nothing but Node's own modules and a
// few files of ours: one of these runs for every agent.

import { armFaults } from "../bus/client/fault.ts";
import { connectThin } from "../bus/client/thin.ts";
import { jsonLog, systemClock } from "../schemas/ports.ts";
import { callMode } from "./call.ts";
import { readJob } from "./job.ts";
import { runJob } from "./shim.ts";

const USAGE =
  "usage: bus-shim            (a job as one JSON line on standard input)\n       bus-shim call METHOD [JSON_PARAMS]\n";

async function main(args: readonly string[]): Promise<number> {
  const err = (text: string) => void process.stderr.write(text);
  if (args[0] === "call")
    return callMode(args.slice(1), process.env.BUSBAR_SOCKET, (text) => void process.stdout.write(text), err);
  if (args.length > 0) {
    err(USAGE);
    return 2;
  }
  const log = jsonLog(err);
  process.stderr.on("error", () => {}); // the scheduler that reads it may be gone
  // Ctrl-C in a terminal and its closing never reach an agent (L1).
  process.on("SIGINT", () => {});
  process.on("SIGHUP", () => {});
  // Whatever goes wrong in here, the process is not left alone: the error is said and the shim goes on.
  process.on("uncaughtException", (error) => log.error("a fault of the shim", { why: error.stack }));
  try {
    const cancel = new AbortController();
    process.on("SIGTERM", () => cancel.abort("SIGTERM to the shim"));
    const job = await readJob();
    armFaults(job.fault);
    return await runJob(job, {
      cancel: cancel.signal,
      connect: connectThin,
      log,
      clock: systemClock,
      random: Math.random,
    });
  } catch (error) {
    log.error((error as Error).message);
    return 2;
  }
}

void main(process.argv.slice(2)).then((code) => {
  process.exitCode = code;
  // Nothing that is still open may keep the shim; what was written has to get out first.
  process.stdout.write("", () => process.stderr.write("", () => process.exit()));
});
