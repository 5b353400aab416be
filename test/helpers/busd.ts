// Starts the real busd on a repository, with state and sockets in the test's directory, and ends it.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { type BusClient, connectBus } from "../../bus/client/client.ts";
import { readToken } from "../../bus/client/find.ts";
import { inCommonDir, readEndpoint, realCommonDir } from "../../bus/paths.ts";

const BUSD = fileURLToPath(new URL("../../bus/busd.ts", import.meta.url));
const TSX = import.meta.resolve("tsx");

export interface Started {
  child: ChildProcess;
  /** Fulfilled with the socket that `ready` named, or undefined when it ended before. */
  ready: Promise<string | undefined>;
  /** Exit code (or signal) and what it said on stderr. */
  ended: Promise<{ exit: number | string; stderr: string }>;
}

/** `dir` holds state and runtime directories; `env` comes over the rest. */
export function startBusd(
  t: TestContext,
  common: string,
  dir: string,
  env: Record<string, string> = {},
  args: string[] = [],
): Started {
  const child = spawn(process.execPath, ["--import", TSX, BUSD, "--repo", common, ...args], {
    env: {
      PATH: process.env.PATH,
      HOME: dir,
      BUSBAR_STATE_DIR: join(dir, "state"),
      BUSBAR_RUNTIME_DIR: join(dir, "run"),
      ...env,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let stdout = "";
  let stderr = "";
  child.stderr.on("data", (chunk: Buffer) => {
    stderr += chunk.toString("utf8");
  });
  const ended = once(child, "exit").then(([code, signal]) => ({ exit: code ?? signal, stderr }));
  const ready = new Promise<string | undefined>((resolve) => {
    child.stdout.on("data", (chunk: Buffer) => {
      stdout += chunk.toString("utf8");
      const line = /^ready (.*)\n/.exec(stdout);
      if (line) resolve(line[1]);
    });
    void ended.then(() => resolve(undefined));
  });
  t.after(async () => {
    child.kill("SIGCONT");
    child.kill("SIGKILL");
    await ended;
  });
  return { child, ready, ended };
}

/** A person's connection, found as every client finds it: through the repository. */
export async function personOf(t: TestContext, common: string): Promise<BusClient> {
  const endpoint = readEndpoint(inCommonDir(realCommonDir(common)).endpoint);
  if (!endpoint) throw new Error(`no endpoint in ${common}`);
  const token = readToken(endpoint, "person");
  const client = await connectBus({ socket: endpoint.socket, role: "person", token, client: "test" });
  t.after(() => client.close());
  return client;
}
