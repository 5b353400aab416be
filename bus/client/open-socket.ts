// A connection to a socket of ours. The kernel lets only so many wait to be accepted (511 at the bus); who comes beyond
// gets EAGAIN at once, from a bus that lives and has much to do: so it is tried again, with growing pauses, within the
// bound. ECONNREFUSED and ENOENT say that nobody listens there, which no waiting changes; whoever starts a bus asks again.

import { connect, type Socket } from "node:net";
import { BusbarError } from "../../schemas/errors.ts";

const FIRST_PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 500;

/** Connected, without a listener of ours. Throws BUS_AWAY (nobody there, or a queue that stayed full), TIMEOUT. */
export async function openSocket(path: string, timeoutMs: number): Promise<Socket> {
  const end = performance.now() + timeoutMs;
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
    try {
      return await openOnce(path, end - performance.now(), timeoutMs);
    } catch (error) {
      // Half of it by chance: those that were turned away together do not come back together.
      const ms = pause * (0.5 + Math.random());
      if (!isQueueFull(error) || performance.now() + ms >= end) throw error;
      await new Promise((resolve) => setTimeout(resolve, ms)); // the shim's bundle takes few modules of Node
    }
  }
}

function isQueueFull(error: unknown): boolean {
  return error instanceof BusbarError && error.data.errno === "EAGAIN";
}

function openOnce(path: string, leftMs: number, timeoutMs: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(path);
    const timer = setTimeout(() => {
      reject(new BusbarError("TIMEOUT", `connecting to ${path}: no answer within ${timeoutMs} ms`));
      socket.destroy();
    }, leftMs);
    const onError = ({ code }: NodeJS.ErrnoException) => {
      clearTimeout(timer);
      const facts = { socket: path, errno: code };
      reject(new BusbarError("BUS_AWAY", `connecting to ${path}: ${code ?? "failed"}`, facts));
    };
    socket.on("error", onError);
    socket.once("connect", () => {
      clearTimeout(timer);
      socket.off("error", onError);
      resolve(socket);
    });
  });
}
