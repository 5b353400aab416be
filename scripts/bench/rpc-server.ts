// The floor and the peer of the rpc bench, each in a process of its own:
//
//   raw     writes a prepared answer for every line: what the machine and Node can do at all
//   ndjson  what one writes by hand: parse the request, stringify an answer with the file's text
//
//   node rpc-server.js raw|ndjson SOCKET FILE

import { readFileSync } from "node:fs";
import { createServer } from "node:net";

const [kind = "", path = "", file = ""] = process.argv.slice(2);
const content = readFileSync(file, "utf8");
const facts = {
  encoding: "utf8",
  oid: "0".repeat(40),
  mode: "100644",
  size: content.length,
  version: 0,
  commit: "0".repeat(40),
};
const prepared = Buffer.from(
  `${JSON.stringify({ jsonrpc: "2.0", id: 1, result: { content, ...facts, request_id: "r-1", response_time_ms: 0.1 } })}\n`,
);

let served = 0;
const server = createServer((socket) => {
  let rest = "";
  socket.on("error", () => {});
  socket.on("data", (chunk) => {
    if (kind === "raw") {
      for (const byte of chunk) if (byte === 10) socket.write(prepared);
      return;
    }
    const lines = (rest + chunk.toString("utf8")).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      const { id } = JSON.parse(line) as { id: number };
      served += 1;
      const result = { content, ...facts, request_id: `r-${served}`, response_time_ms: 0.1 };
      socket.write(`${JSON.stringify({ jsonrpc: "2.0", id, result })}\n`);
    }
  });
});
server.listen(path, () => process.stdout.write("ready\n"));
