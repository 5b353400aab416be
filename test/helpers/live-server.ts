// A bus server in this process, on a real socket in a temporary directory, over the fake store.

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { Blobs } from "../../bus/blobs.ts";
import { CatFile } from "../../bus/cat-file.ts";
import { type ConnectOptions, connectBus } from "../../bus/client/client.ts";
import { Dispatcher, type Handlers } from "../../bus/dispatch.ts";
import { LockHold } from "../../bus/lock.ts";
import { Manifests } from "../../bus/manifests.ts";
import { readHandlers } from "../../bus/methods/reads.ts";
import { BusServer } from "../../bus/server.ts";
import { Snapshots } from "../../bus/snapshot.ts";
import { claimSocket } from "../../bus/socket.ts";
import { attemptToken, Tokens } from "../../bus/tokens.ts";
import { BusbarError } from "../../schemas/errors.ts";
import type { AttemptRef } from "../../schemas/ids.ts";
import { MAX_BLOB_BYTES } from "../../schemas/limits.ts";
import type { Role } from "../../schemas/methods.ts";
import { jsonLog, systemClock } from "../../schemas/ports.ts";
import { FakeStore } from "./fake-store.ts";
import { tempDir } from "./temp.ts";

export interface LiveServer {
  socket: string;
  store: FakeStore;
  server: BusServer;
  log: string[];
  client(role: Role, ref?: AttemptRef, more?: Partial<ConnectOptions>): ReturnType<typeof connectBus>;
  /** A bare connection that keeps what it got. */
  raw(): Promise<RawClient>;
}

export interface RawClient {
  socket: Socket;
  lines(): string[];
  /** How many lines there are; cheap. */
  count(): number;
  closed: Promise<void>;
}

/** `gitDir` makes the handlers that read; `handlers` come over them. */
export async function liveServer(
  t: TestContext,
  parts: {
    gitDir?: string;
    handlers?: Handlers;
    handshakeMs?: number;
    stallMs?: number;
    maxUnsent?: number;
  } = {},
): Promise<LiveServer> {
  const dir = tempDir(t, "srv");
  const store = new FakeStore();
  const log: string[] = [];
  const lines = jsonLog((line) => log.push(line));
  const reads = parts.gitDir === undefined ? {} : readersOf(t, store, parts.gitDir);
  const tokens = { check: (role: Role, token: string) => checked(store, role, token, dir) };
  const dispatcher = new Dispatcher({
    store,
    handlers: { ...reads, ...parts.handlers },
    tokens,
    clock: systemClock,
    log: lines,
    version: "0.0.0",
    life: "life",
  });
  const { handshakeMs, stallMs, maxUnsent } = parts;
  const server = new BusServer({
    dispatcher,
    log: lines,
    clock: systemClock,
    ...(handshakeMs ? { handshakeMs } : {}),
    ...(stallMs ? { stallMs } : {}),
    ...(maxUnsent ? { maxUnsent } : {}),
  });
  const lock = await LockHold.take(join(dir, "lock"));
  const socket = join(dir, "bus.sock");
  await claimSocket(server.server, socket, lock!);
  t.after(async () => {
    await server.close("test over", 50);
    lock!.release();
  });
  return {
    socket,
    store,
    server,
    log,
    client: async (role, ref, more) => {
      const token =
        ref && (role === "agent" || role === "shim") ? attemptToken(store.key, role, ref) : "secret";
      const client = await connectBus({ socket, role, token, client: "test", ...more });
      t.after(() => client.close());
      return client;
    },
    raw: async () => {
      const raw = connect(socket);
      t.after(() => raw.destroy());
      const chunks: Buffer[] = [];
      let count = 0;
      raw.on("error", () => {}); // "close" follows
      raw.on("data", (chunk: Buffer) => {
        chunks.push(chunk);
        for (const byte of chunk) if (byte === 0x0a) count += 1;
      });
      await once(raw, "connect");
      const all = () => Buffer.concat(chunks).toString("utf8").split("\n").slice(0, -1);
      const closed = new Promise<void>((resolve) => raw.once("close", () => resolve()));
      return { socket: raw, lines: all, count: () => count, closed };
    },
  };
}

function readersOf(t: TestContext, store: FakeStore, gitDir: string): Handlers {
  const objects = new CatFile(gitDir, MAX_BLOB_BYTES);
  const blobs = new Blobs(objects);
  t.after(() => blobs.close());
  return readHandlers({
    store,
    snapshots: new Snapshots(() => store.view),
    manifests: new Manifests(gitDir),
    blobs,
    treeOf: async () => "f".repeat(40),
    clock: systemClock,
    facts: () => ({
      name: "busbar",
      version: "0.0.0",
      protocol: 1,
      pid: process.pid,
      uptime_ms: 1,
      repo: gitDir,
      state_dir: "",
      worker: null,
    }),
  });
}

/** Real tokens for attempts; "secret" for those of people and scheduler. */
function checked(store: FakeStore, role: Role, token: string, dir: string): AttemptRef | undefined {
  if (role === "person" || role === "scheduler") {
    if (token === "secret") return undefined;
    throw new BusbarError("BAD_TOKEN", `the token is not valid for role ${role}`);
  }
  return new Tokens(dir, store.key, process.getuid?.() ?? 0).check(role, token);
}
