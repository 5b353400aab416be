// A bus for the tests of its clients: it speaks the real wire (framing, hello, notifications), keeps what it was
// told, and has knobs for the next failure. It decides nothing.

import { rmSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import type { TestContext } from "node:test";
import { encodeFrame, FrameSplitter, OVERSIZED, parseFrame } from "../../bus/wire/framing.ts";
import { BusbarError, type ErrorCode, toWireError } from "../../schemas/errors.ts";

export interface FakeCall {
  method: string;
  params: Record<string, unknown>;
  role: string;
  token: string;
  /** Date.now() of its arrival. */
  at: number;
}

interface Peer {
  socket: Socket;
  role: string;
  token: string;
}

export class FakeBus {
  readonly socket: string;
  readonly calls: FakeCall[] = [];
  /** Methods whose next n calls are answered with this error. */
  readonly refusals = new Map<string, { code: ErrorCode; times: number }>();
  /** Methods whose next n calls are taken, but whose connection breaks before the answer. */
  readonly lostAnswers = new Map<string, number>();
  /** Answers wait for this. */
  answerAfterMs = 0;
  heartbeatMs = 100;
  /** Own answers by method. */
  readonly answers = new Map<string, (params: Record<string, unknown>) => unknown>();
  #server: Server | undefined;
  readonly #peers = new Set<Peer>();

  constructor(socket: string) {
    this.socket = socket;
  }

  async up(): Promise<void> {
    rmSync(this.socket, { force: true });
    this.#server = createServer({ allowHalfOpen: true }, (socket) => this.#meet(socket));
    await new Promise<void>((resolve) => this.#server?.listen(this.socket, resolve));
  }

  /** As if it had been killed: all connections break, the socket file stays. */
  async down(): Promise<void> {
    for (const peer of this.#peers) peer.socket.destroy();
    const server = this.#server;
    this.#server = undefined;
    await new Promise<void>((resolve) => (server ? server.close(() => resolve()) : resolve()));
  }

  of(method: string): FakeCall[] {
    return this.calls.filter((call) => call.method === method);
  }

  /** Notifies all connections of a role. */
  push(role: string, method: string, params: unknown): void {
    for (const peer of this.#peers)
      if (peer.role === role) peer.socket.write(encodeFrame({ jsonrpc: "2.0", method, params }));
  }

  get connections(): number {
    return this.#peers.size;
  }

  #meet(socket: Socket): void {
    const peer: Peer = { socket, role: "", token: "" };
    this.#peers.add(peer);
    const splitter = new FrameSplitter();
    socket.on("error", () => {});
    socket.on("close", () => this.#peers.delete(peer));
    socket.on("end", () => socket.end());
    socket.on("data", (chunk: Buffer) => {
      splitter.push(chunk);
      for (let frame = splitter.next(); frame !== undefined; frame = splitter.next())
        if (frame !== OVERSIZED) this.#hear(peer, parseFrame(frame) as Record<string, unknown>);
    });
  }

  #hear(peer: Peer, request: Record<string, unknown>): void {
    const method = String(request.method);
    const params = (request.params ?? {}) as Record<string, unknown>;
    if (method === "hello") {
      peer.role = String(params.role);
      peer.token = String(params.token);
    }
    this.calls.push({ method, params, role: peer.role, token: peer.token, at: Date.now() });
    const lost = this.lostAnswers.get(method) ?? 0;
    if (lost > 0) {
      this.lostAnswers.set(method, lost - 1);
      peer.socket.destroy();
      return;
    }
    const send = () =>
      peer.socket.write(encodeFrame({ jsonrpc: "2.0", id: request.id, ...this.#answer(method, params) }));
    if (this.answerAfterMs > 0) setTimeout(send, this.answerAfterMs);
    else send();
  }

  #answer(method: string, params: Record<string, unknown>): object {
    const refusal = this.refusals.get(method);
    if (refusal && refusal.times > 0) {
      refusal.times -= 1;
      return { error: toWireError(new BusbarError(refusal.code, `${method} refused by the test`)) };
    }
    const own = this.answers.get(method);
    if (own) return { result: own(params) };
    const lease_until = new Date(Date.now() + 60_000).toISOString();
    switch (method) {
      case "hello":
        return { result: { protocol: 1, version: "0", role: params.role, seq: 0 } };
      case "register":
        return { result: { heartbeat_ms: this.heartbeatMs, lease_until } };
      case "heartbeat":
        return { result: { lease_until } };
      case "complete":
        return { result: { accepted: true } };
      default:
        return { error: toWireError(new BusbarError("METHOD_NOT_FOUND", `there is no method ${method}`)) };
    }
  }
}

/** A fake bus that is up until the test ends. */
export async function fakeBus(t: TestContext, socket: string): Promise<FakeBus> {
  const bus = new FakeBus(socket);
  await bus.up();
  t.after(() => bus.down());
  return bus;
}
