// The server on a real socket: handshake, roles, ids, batches, slow and greedy peers (B1, B4, case 65 rpc-framing).

import assert from "node:assert/strict";
import { test } from "node:test";
import { BusbarError, isCode } from "../../schemas/errors.ts";
import { MAX_BATCH_CALLS, MAX_FRAME_BYTES, MAX_ID_TEXT_CHARS } from "../../schemas/limits.ts";
import { liveServer } from "../helpers/live-server.ts";
import { until } from "../helpers/wait.ts";

const ping = (id?: unknown) => `${JSON.stringify({ jsonrpc: "2.0", id, method: "ping", params: {} })}\n`;
const handlers = { ping: () => ({}) as never };

async function answers(server: Awaited<ReturnType<typeof liveServer>>, text: string | Buffer, count: number) {
  const raw = await server.raw();
  raw.socket.write(text);
  await until(`${count} answers`, () => raw.count() >= count);
  return raw.lines().map((line) => JSON.parse(line));
}

test("case 65 rpc-framing: ids come back exactly as sent", async (t) => {
  const server = await liveServer(t, { handlers });
  for (const id of ["é-1", "😀", "a\u2028b\u2029c", 0, -7, 2 ** 53 - 1, 1.5, "", "x".repeat(2e6)]) {
    const [answer] = await answers(server, ping(id), 1);
    assert.ok(answer.id === id && "result" in answer);
  }
  const [unsafe] = await answers(server, '{"jsonrpc":"2.0","id":12345678901234567890,"method":"ping"}\n', 1);
  assert.deepEqual([unsafe.id, unsafe.error.data.code], [null, "INVALID_REQUEST"]);
});

test("case 65 rpc-framing: garbage is answered once with id null, the good call after it works", async (t) => {
  const server = await liveServer(t, { handlers });
  const got = await answers(server, `garbage{\n${"[".repeat(5000)}\n[1]\n"x"\nnull\n${ping(7)}`, 6);
  assert.deepEqual(
    got.map((answer) => [answer.id ?? null, answer.error?.data.code ?? "ok"]),
    [
      [null, "PARSE_ERROR"],
      [null, "PARSE_ERROR"],
      [undefined, undefined],
      [null, "INVALID_REQUEST"],
      [null, "INVALID_REQUEST"],
      [7, "ok"],
    ].map(([id, code]) => (code === undefined ? [null, "ok"] : [id, code])),
  );
  assert.equal(got[2][0].error.data.code, "INVALID_REQUEST"); // a batch of one has a batch as answer
});

test("B1: batches: null inside, notifications only, empty, too many", async (t) => {
  const server = await liveServer(t, { handlers });
  const call = (id: unknown) => JSON.parse(ping(id));
  const batch = [call(1), null, call("b"), call(undefined), { jsonrpc: "1.0", id: 9, method: "ping" }];
  const [mixed] = await answers(server, `${JSON.stringify(batch)}\n`, 1);
  assert.deepEqual(
    mixed.map((each: { id: unknown; error?: { code: number } }) => [each.id, each.error?.code]),
    [
      [1, undefined],
      [null, -32600],
      ["b", undefined],
      [9, -32600],
    ],
  );
  const many = JSON.stringify(Array.from({ length: MAX_BATCH_CALLS + 1 }, (_, i) => call(i)));
  const got = await answers(
    server,
    `${JSON.stringify([call(undefined)])}\n${ping()}[]\n${many}\n${ping(1)}`,
    3,
  );
  assert.deepEqual(
    got.map((each) => each.error?.code ?? each.id),
    [-32600, -32600, 1],
  );
});

test("B1: an id as long as the frame is refused; one of the longest comes back with the error that there is no room", async (t) => {
  const text = "y".repeat(MAX_FRAME_BYTES - 2 * MAX_ID_TEXT_CHARS);
  const server = await liveServer(t, {
    handshakeMs: 60_000,
    handlers: { ping: () => ({ text }) as never },
  });
  const long = "x".repeat(MAX_ID_TEXT_CHARS);
  const escaped = long.replaceAll("x", "\u0001");
  const [whole, most, bare] = await answers(
    server,
    ping("x".repeat(MAX_FRAME_BYTES - 100)) + ping(escaped) + ping(1),
    3,
  );
  assert.deepEqual([whole.id, whole.error.data.code], [null, "INVALID_REQUEST"]);
  assert.ok(most.id === escaped && most.error.data.code === "FRAME_TOO_LARGE");
  assert.equal(bare.result.text.length, text.length);
});

test("B1: a batch is run in order, and its answer fits into one frame whatever its calls give", async (t) => {
  const big = "y".repeat(5 * 1024 * 1024);
  const CALLS = 8;
  let open = 0;
  const seen: unknown[] = [];
  const server = await liveServer(t, {
    handshakeMs: 60_000,
    handlers: {
      ping: async (call) => {
        open += 1;
        assert.equal(open, 1, "one call at a time");
        await new Promise((resolve) => setImmediate(resolve));
        open -= 1;
        seen.push((call.access.params as { n: number }).n);
        return { text: big } as never;
      },
    },
  });
  const call = (n: number) => ({ jsonrpc: "2.0", id: `call-${n}`, method: "ping", params: { n } });
  const raw = await server.raw();
  raw.socket.write(`${JSON.stringify(Array.from({ length: CALLS }, (_, n) => call(n)))}\n`);
  await until("the answer", () => raw.count() === 1);
  const [line = ""] = raw.lines();
  assert.ok(Buffer.byteLength(line) < MAX_FRAME_BYTES);
  const got = JSON.parse(line) as { id: string; error?: { data: { code: string } } }[];
  assert.deepEqual(
    got.map((each) => each.id),
    Array.from({ length: CALLS }, (_, n) => `call-${n}`),
  );
  assert.deepEqual(
    got.map((each) => each.error?.data.code ?? "ok"),
    ["ok", "ok", "ok", ...Array.from({ length: CALLS - 3 }, () => "FRAME_TOO_LARGE")],
  );
  assert.deepEqual(
    seen,
    Array.from({ length: CALLS }, (_, n) => n),
  );
});

test("B1: errors of the catalogue keep code and help, foreign ones say nothing but a request id", async (t) => {
  const server = await liveServer(t, {
    handlers: {
      ping: (call) => {
        if (call.requestId.endsWith("1")) throw new BusbarError("STALE", "newer state", { have: 3 });
        throw new TypeError("secret internals at /etc/x");
      },
    },
  });
  const [known, foreign] = await answers(server, ping(1) + ping(2), 2);
  assert.deepEqual([known.error.code, known.error.data.code, known.error.data.have], [1105, "STALE", 3]);
  assert.deepEqual([foreign.error.code, foreign.error.message], [-32603, "internal error"]);
  assert.equal(foreign.error.data.request_id, server.store.records[1]?.request_id);
  assert.ok(!JSON.stringify(foreign).includes("secret"));
  assert.ok(
    server.log.some(
      (line) => line.includes("secret internals") && line.includes(foreign.error.data.request_id),
    ),
  );
});

test("B1: hello: wrong token, wrong protocol, wrong params, twice as another", async (t) => {
  const server = await liveServer(t, { handlers });
  const hello = (more: object) => {
    const params = { protocol: { min: 1, max: 9 }, role: "person", token: "secret", client: "t", ...more };
    return `${JSON.stringify({ jsonrpc: "2.0", id: 1, method: "hello", params })}\n`;
  };
  const codes = async (...texts: string[]) =>
    (await answers(server, texts.join(""), texts.length)).map(
      (each) => each.error?.data.code ?? each.result.role,
    );
  assert.deepEqual(await codes(hello({ token: "no" }), hello({})), ["BAD_TOKEN", "person"]);
  assert.deepEqual(await codes(hello({ protocol: { min: 2, max: 3 } })), ["PROTOCOL_MISMATCH"]);
  assert.deepEqual(await codes(hello({ role: "root" })), ["INVALID_PARAMS"]);
  assert.deepEqual(await codes(hello({ role: "agent", token: "agent.r/t/1.00" })), ["BAD_TOKEN"]);
  assert.deepEqual(await codes(hello({}), hello({ role: "scheduler" })), ["person", "FORBIDDEN"]);
  assert.ok(!JSON.stringify(server.store.records).includes("secret"), "no token in the audit log");
});

test("B1: a peer without hello is cut off at the deadline, one with hello stays", async (t) => {
  const server = await liveServer(t, { handlers, handshakeMs: 150 });
  const greeted = await server.client("person");
  const silent = await server.raw();
  const pinging = await server.raw();
  pinging.socket.write(ping(1));
  await Promise.all([silent.closed, pinging.closed]);
  await greeted.call("ping", {});
});

test("B1: who stops within a frame or does not take its answers is cut off with the reason; who rests is not", async (t) => {
  const text = "x".repeat(4 << 20);
  const server = await liveServer(t, { handlers: { ping: () => ({ text }) as never }, stallMs: 300 });
  const resting = await server.client("person");
  const half = await server.raw();
  half.socket.write(ping(1).slice(0, 20));
  const deaf = await server.raw();
  deaf.socket.pause();
  deaf.socket.write(ping(1).repeat(5));
  await half.closed;
  const why = (words: string) => server.log.some((line) => line.includes(words));
  await until("the deaf one is cut off", () => why("reads nothing: "));
  assert.ok(why("began a frame and sent nothing more for 300 ms"));
  assert.equal(server.server.connections, 1);
  await resting.call("ping", {});
});

test("B1: a frame too large fails that call only", async (t) => {
  const server = await liveServer(t, { handlers });
  const got = await answers(
    server,
    Buffer.concat([Buffer.alloc(MAX_FRAME_BYTES + 1, 0x61), Buffer.from(`\n${ping(3)}`)]),
    2,
  );
  assert.deepEqual([got[0].error.data.code, got[1].id], ["FRAME_TOO_LARGE", 3]);
});

test("B1: a peer that does not read is cut off by notifications, and others are served", async (t) => {
  const server = await liveServer(t, {
    handlers: {
      ...handlers,
      subscribe: (call) => {
        const text = "x".repeat(1 << 20);
        for (let i = 0; i < 80; i++) call.peer.notify("event", { text });
        return { seq: 0 };
      },
    },
  });
  const slow = await server.client("person");
  const other = await server.client("person");
  await assert.rejects(slow.call("subscribe", {}), (e) => isCode(e, "BUS_AWAY"));
  await other.call("ping", {});
  await until("the log says so", () => server.log.some((line) => line.includes("reads too slowly")));
});

test("B1: what all peers together leave unread is bounded: who has been behind for longest is cut off, with the reason", async (t) => {
  const text = "x".repeat(4 << 20);
  const big = { ping: () => ({ text }) as never };
  const server = await liveServer(t, { handlers: big, maxUnsent: 11 << 20 });
  const deaf: Awaited<ReturnType<typeof server.raw>>[] = [];
  const why = /reads too slowly: \d+ of \d+ bytes that all clients have not read/;
  const cutOff = () => server.log.filter((line) => why.test(line)).length;
  for (let n = 0; n < 4; n++) {
    const raw = await server.raw();
    deaf.push(raw);
    raw.socket.pause();
    raw.socket.write(ping(1));
    // Three fit no more: the kernel holds some hundred KB of each.
    await until(`peer ${n} is behind`, () => server.server.unsent > Math.min(n + 1, 2) * (3 << 20), 30_000);
    await until("the oldest go", () => cutOff() === Math.max(0, n - 1), 30_000);
  }
  assert.equal(server.server.connections, 2);
  const other = await server.client("person");
  await other.call("ping", {});
  assert.equal(cutOff(), 3, "its own answer made one too many");
  for (const one of deaf.slice(-1)) one.socket.resume();
  await until("the youngest was not cut off", () => deaf.at(-1)?.count() === 1, 30_000);
  await until("all is read", () => server.server.unsent === 0, 30_000);
});

test("B1: a flood from one connection does not starve another", async (t) => {
  const server = await liveServer(t, { handlers });
  const flood = await server.raw();
  const other = await server.client("person");
  const hello = { protocol: { min: 1, max: 1 }, role: "person", token: "secret", client: "t" };
  flood.socket.write(`${JSON.stringify({ jsonrpc: "2.0", id: 0, method: "hello", params: hello })}\n`);
  flood.socket.write(ping(1).repeat(50_000));
  const times: number[] = [];
  const start = performance.now();
  while (flood.count() < 50_001) {
    const began = performance.now();
    await other.call("ping", {});
    times.push(performance.now() - began);
  }
  assert.ok(times.length > 5, "some calls fell into the flood");
  // A starved caller would wait for about the whole flood.
  const whole = performance.now() - start;
  assert.ok(Math.max(...times) < whole / 3, `slowest ${Math.max(...times)} of ${whole} ms`);
});

test("B1: a peer that ends its side still gets its answers; half a frame has no effect", async (t) => {
  let calls = 0;
  let go = () => {};
  const gate = new Promise<void>((resolve) => {
    go = resolve;
  });
  const server = await liveServer(t, {
    handlers: {
      ping: async () => {
        calls += 1;
        await gate;
        return {} as never;
      },
    },
  });
  const raw = await server.raw();
  raw.socket.end(ping(1) + ping(2).trimEnd());
  await until("the call has arrived", () => calls === 1);
  go();
  await raw.closed;
  assert.deepEqual([calls, raw.lines().length], [1, 1]);
  await until("the connection is freed", () => server.server.connections === 0);
});

test("B1: pending calls fail with BUS_AWAY when the bus goes, with TIMEOUT when it is silent", async (t) => {
  const server = await liveServer(t, { handlers: { ping: () => new Promise<never>(() => {}) } });
  const client = await server.client("person");
  await assert.rejects(client.call("ping", {}, { timeoutMs: 30 }), (e) => isCode(e, "TIMEOUT"));
  const pending = client.call("ping", {});
  pending.catch(() => {});
  await server.server.close("bye", 10);
  await assert.rejects(pending, (e) => isCode(e, "BUS_AWAY"));
  await client.closed;
  await assert.rejects(client.call("ping", {}), (e) => isCode(e, "BUS_AWAY"));
});
