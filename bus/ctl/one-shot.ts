// Runs one of our programs once, in a mode that does one thing and prints what it did as one JSON object.

import { spawn } from "node:child_process";
import { BusbarError } from "../../schemas/errors.ts";
import { readStartFailure } from "../client/last-words.ts";
import type { Ctx } from "./context.ts";
import { daemonEnv, programWords } from "./launch.ts";

/** `deed` begins the message of an error: `archiving workspaces`. */
export async function oneShot<T>(
  ctx: Ctx,
  name: "busd" | "scheduler",
  words: readonly string[],
  deed: string,
): Promise<T> {
  const [program = "", ...args] = programWords(name);
  const child = spawn(program, [...args, ...words], {
    cwd: "/",
    env: daemonEnv(ctx.env),
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [out, err, code] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    new Promise<number | null>((resolve, reject) => {
      child.once("error", reject);
      child.once("close", (exit) => resolve(exit));
    }),
  ]);
  const last = out.trimEnd().split("\n").at(-1) ?? "";
  try {
    if (code === 0) return JSON.parse(last) as T;
  } catch {
    // Told below.
  }
  const said = readStartFailure(err);
  if (said) throw new BusbarError(said.code, `${deed}: ${said.message}`, said.data);
  throw new BusbarError("IO", `${deed}: the program ${name} ended with ${code ?? "a signal"}`);
}

async function text(stream: AsyncIterable<Buffer>): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts).toString("utf8");
}
