// A line server that answers what a shim asks, at once and without any state.

import { rmSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { HEARTBEAT_MS, LEASE_MS, PROTOCOL_VERSION } from "../../schemas/limits.ts";

export interface FakeBus {
  path: string;
  /** How many processes were announced, and how many were reported as ended. */
  registered: number;
  completed: number;
  close(): void;
}

export async function startFakeBus(path: string): Promise<FakeBus> {
  const connections = new Set<Socket>();
  const bus: FakeBus = {
    path,
    registered: 0,
    completed: 0,
    close: () => {
      for (const connection of connections) connection.destroy();
      server.close();
      rmSync(path, { force: true });
    },
  };
  const server = createServer((socket) => {
    connections.add(socket);
    let rest = "";
    socket.setEncoding("utf8");
    socket.on("error", () => {});
    socket.on("close", () => connections.delete(socket));
    socket.on("data", (chunk: string) => {
      const lines = (rest + chunk).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        const { id, method } = JSON.parse(line) as { id: number; method: string };
        if (method === "register") bus.registered += 1;
        if (method === "complete") bus.completed += 1;
        socket.write(`${JSON.stringify({ jsonrpc: "2.0", id, result: answer(method) })}\n`);
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  return bus;
}

function answer(method: string): unknown {
  const lease_until = new Date(Date.now() + LEASE_MS).toISOString();
  switch (method) {
    case "hello":
      return { protocol: PROTOCOL_VERSION, version: "0", role: "shim", seq: 0 };
    case "register":
      return { heartbeat_ms: HEARTBEAT_MS, lease_until };
    case "heartbeat":
      return { lease_until };
    default:
      return { accepted: true };
  }
}
