// Reads the job: one JSON line on descriptor 0 (a pipe, a socket or a file), bounded in time and size. It holds
// tokens and secrets, so it comes this way and no other, and no message repeats a part of it.

import { fstatSync, openSync, readFileSync } from "node:fs";
import { Socket } from "node:net";
import { BusbarError } from "../schemas/errors.ts";
import { idFault } from "../schemas/ids.ts";
import type { ShimJob } from "../schemas/job.ts";
import { JOB_READ_MS, MAX_JOB_BYTES } from "../schemas/limits.ts";

/** Throws USAGE with what is wrong, or TIMEOUT. Afterwards descriptor 0 is /dev/null. */
export async function readJob(): Promise<ShimJob> {
  const line = fstatSync(0).isFile() ? firstLine(readFileSync(0)) : await readLine();
  return parseJob(line);
}

function readLine(): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const input = new Socket({ fd: 0, readable: true, writable: false });
    const chunks: Buffer[] = [];
    let bytes = 0;
    const finish = (fault: BusbarError | undefined) => {
      clearTimeout(timer);
      input.removeAllListeners();
      input.on("error", () => {});
      input.once("close", () => {
        openSync("/dev/null", "r"); // takes the free number 0, so that nothing else does
        if (fault) reject(fault);
        else resolve(firstLine(Buffer.concat(chunks)));
      });
      input.destroy();
    };
    const timer = setTimeout(
      () => finish(new BusbarError("TIMEOUT", `reading the job: no line within ${JOB_READ_MS} ms`)),
      JOB_READ_MS,
    );
    input.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      bytes += chunk.length;
      if (chunk.includes(0x0a)) finish(undefined);
      else if (bytes > MAX_JOB_BYTES)
        finish(new BusbarError("USAGE", `reading the job: more than ${MAX_JOB_BYTES} bytes`));
    });
    input.once("end", () => finish(undefined));
    input.once("error", (error) => finish(new BusbarError("USAGE", `reading the job: ${error.message}`)));
  });
}

function firstLine(bytes: Buffer): Buffer {
  const end = bytes.indexOf(0x0a);
  return end < 0 ? bytes : bytes.subarray(0, end);
}

/** Checks what the shim rests on; the scheduler made the rest by the same types. */
export function parseJob(line: Buffer): ShimJob {
  let value: unknown;
  try {
    value = JSON.parse(line.toString("utf8"));
  } catch {
    throw new BusbarError("USAGE", "reading the job: standard input holds no JSON line");
  }
  const fault = jobFault(value as ShimJob | null);
  if (fault) throw new BusbarError("USAGE", `reading the job: ${fault}`);
  return value as ShimJob;
}

/** Why the value cannot be a job, naming the field but never its value. */
function jobFault(job: ShimJob | null): string | undefined {
  if (typeof job !== "object" || job === null || job.v !== 1) return "it is no job of version 1";
  if (idFault(job.ref?.run) || idFault(job.ref?.task) || !(job.ref.attempt > 0)) return "ref is wrong";
  if (job.kind !== "agent" && job.kind !== "check") return "kind is neither agent nor check";
  if (!isTexts(job.argv) || job.argv.length === 0) return "argv must be a list of texts, not empty";
  if (!isTexts([job.name, job.cwd, job.dir, job.writes_in]))
    return "name, cwd, dir and writes_in must be texts";
  const { log, outbox, done, pid } = job.files ?? {};
  if (!isTexts([log, outbox, done, pid]) || [log, outbox, done, pid].some((name) => name.includes("/")))
    return "files must name four files inside dir";
  if (!isTexts(Object.values(job.env ?? { missing: 0 }))) return "env must hold texts";
  if (!Array.isArray(job.secrets) || !job.secrets.every((s) => isTexts([s?.name, s?.value])))
    return "secrets must be a list of name and value";
  if (!(job.timeout_ms > 0) || !(job.grace_ms >= 0)) return "timeout_ms and grace_ms must be numbers";
  const { steps, wrap, writes } = job.launch ?? {};
  if (!isTexts(steps) || !isTexts(wrap) || !Array.isArray(writes))
    return "launch must hold the plan of limits";
  if (job.sandbox !== undefined && !isTexts([job.sandbox.said, ...(job.sandbox.argv ?? [1])]))
    return "sandbox must hold argv and said";
  if (job.lacking !== undefined && !isTexts(job.lacking)) return "lacking must hold texts";
  if (!isTexts([job.bus?.socket, job.bus?.shim_token])) return "bus must hold socket and shim_token";
  if (job.fault !== undefined && !isTexts([job.fault])) return "fault must be a text";
  if (job.task_socket !== undefined && !isTexts([job.task_socket, job.bus.agent_token]))
    return "a task_socket needs bus.agent_token";
  return undefined;
}

function isTexts(values: unknown): values is string[] {
  return Array.isArray(values) && values.every((value) => typeof value === "string");
}
