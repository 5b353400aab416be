// Reads secrets at the moment a process is started that needs them (L6): they stand in no plan, journal or file of ours,
// and go to the shim on its standard input.
//
// 1. `env:NAME`: of where the scheduler runs. `file:PATH`: a regular file. `cmd:COMMAND`: what a shell prints, asked
//    from where the scheduler runs, with its environment, without a terminal; its last line end is not part of it.
// 2. All are bounded in size, a command in time; of a command that does not end nothing of its group is left.
// 3. What a command printed is kept in memory for a minute: two hundred agents must not ask a password manager two
//    hundred times. A failure is not kept.
// 4. An empty value is a failure: an agent that starts without its key fails later and says less.

import { readFileSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { execa } from "execa";
import { BusbarError } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import { MAX_SECRET_BYTES, SECRET_COMMAND_MS, SECRET_KEPT_MS } from "../schemas/limits.ts";
import type { Clock } from "../schemas/ports.ts";
import type { EnvSpec } from "../schemas/task.ts";
import type { HostEnv, SecretValues } from "./environment.ts";

export interface SecretSourcesOptions {
  host: HostEnv;
  /** Where commands run. */
  cwd: string;
  clock: Pick<Clock, "monotonic">;
  commandMs?: number;
}

interface Kept {
  value: Promise<string>;
  until: number;
}

export class SecretSources {
  readonly #options: SecretSourcesOptions;
  readonly #kept = new Map<string, Kept>();

  constructor(options: SecretSourcesOptions) {
    this.#options = options;
  }

  /** The values of all sources that the specs name. Rejects with SECRET_UNAVAILABLE, which holds no value. */
  async read(specs: readonly Pick<EnvSpec, "secrets">[], signal?: AbortSignal): Promise<SecretValues> {
    const values = new Map<string, string>();
    for (const spec of specs)
      for (const [name, source] of Object.entries(spec.secrets ?? {})) {
        if (values.has(source)) continue;
        signal?.throwIfAborted();
        values.set(source, await this.#read(name, source));
      }
    return values;
  }

  async #read(name: string, source: string): Promise<string> {
    const at = source.indexOf(":");
    const where = source.slice(at + 1);
    const unavailable = (why: string) =>
      new BusbarError("SECRET_UNAVAILABLE", `reading the secret ${name} (${source}): ${why}`, {
        name,
        source,
      });
    const value = await this.#ask(source.slice(0, at), where, unavailable);
    if (Buffer.byteLength(value) > MAX_SECRET_BYTES)
      throw unavailable(`it has more than ${MAX_SECRET_BYTES} bytes`);
    if (value.includes("\0")) throw unavailable("it holds a NUL byte, which no variable can hold");
    if (value === "") throw unavailable("it is empty");
    return value;
  }

  async #ask(kind: string, where: string, unavailable: (why: string) => BusbarError): Promise<string> {
    if (kind === "env") {
      const value = this.#options.host[where];
      if (value === undefined) throw unavailable("there is no such variable where the scheduler runs");
      return value;
    }
    if (kind === "file") return fileText(where, unavailable);
    return await this.#command(where, unavailable);
  }

  #command(command: string, unavailable: (why: string) => BusbarError): Promise<string> {
    const now = this.#options.clock.monotonic();
    const kept = this.#kept.get(command);
    if (kept && kept.until > now) return kept.value;
    const value = commandText(command, this.#options).catch((error: Error) => {
      this.#kept.delete(command);
      throw unavailable(error.message);
    });
    this.#kept.set(command, { value, until: now + SECRET_KEPT_MS });
    return value;
  }
}

function fileText(path: string, unavailable: (why: string) => BusbarError): string {
  const full = path.startsWith("~/") ? join(homedir(), path.slice(2)) : path;
  try {
    // A pipe or device could hold the scheduler for ever.
    const stats = statSync(full);
    if (!stats.isFile()) throw unavailable("it is no regular file");
    if (stats.size > MAX_SECRET_BYTES) throw unavailable(`it has more than ${MAX_SECRET_BYTES} bytes`);
    return withoutLineEnd(readFileSync(full, "utf8"));
  } catch (error) {
    if (error instanceof BusbarError) throw error;
    throw unavailable((error as NodeJS.ErrnoException).code ?? String(error));
  }
}

/** Rejects with why; nothing of what was printed is part of it. */
async function commandText(command: string, options: SecretSourcesOptions): Promise<string> {
  const limit = options.commandMs ?? SECRET_COMMAND_MS;
  // `timeout` bounds it also when nobody is left to: the scheduler may be killed while it runs.
  const bound = String(Math.ceil(limit / 1000) + 1);
  faultPoint("scheduler.secrets.before-command");
  const child = execa("timeout", ["--kill-after=1", bound, "/bin/sh", "-c", command], {
    cwd: options.cwd,
    env: { ...options.host },
    extendEnv: false,
    detached: true,
    stdin: "ignore",
    stderr: "ignore",
    stripFinalNewline: false,
    maxBuffer: MAX_SECRET_BYTES + 2,
    reject: false,
  });
  const endGroup = () => signalGroup(child.pid);
  // What it leaves behind would hold its output open.
  child.once("exit", endGroup);
  const over = new AbortController();
  const late = delay(limit, "late" as const, { signal: over.signal }).catch(() => "late" as const);
  const result = await Promise.race([child, late]);
  over.abort();
  endGroup();
  if (result === "late") {
    child.stdout?.destroy();
    child.unref();
    throw new Error(`it did not end within ${limit} ms`);
  }
  if (result.isMaxBuffer) throw new Error(`it printed more than ${MAX_SECRET_BYTES} bytes`);
  if (result.exitCode !== 0)
    throw new Error(result.exitCode === undefined ? "it was ended by a signal" : `exit ${result.exitCode}`);
  return withoutLineEnd(result.stdout);
}

function withoutLineEnd(text: string): string {
  return text.replace(/\r?\n$/, "");
}

function signalGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    faultPoint("scheduler.secrets.before-end-group");
    process.kill(-pid, "SIGKILL");
  } catch {
    // ESRCH: nobody is left, which is what was wanted.
  }
}
