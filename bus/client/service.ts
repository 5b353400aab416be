// What systemd is told of a daemon that runs as one of its services (scripts/systemd): that it is ready, and from then on,
// where the unit asks for it, that its loop still turns. Without systemd nothing is done.
//
// Node cannot send a datagram to a Unix socket, so systemd-notify(1) says it; the units have `NotifyAccess=all`. It is asked
// for three times within the time that systemd waits, and never twice at once.

import { spawn } from "node:child_process";
import { faultPoint } from "../../schemas/fault-points.ts";

const PROGRAM = "systemd-notify";
const PINGS_IN_TIME = 3;
const USEC_PER_MS = 1_000;

export interface ServiceEdge {
  env: Readonly<Record<string, string | undefined>>;
  /** Says one word to systemd; fulfilled when it is said, or cannot be. */
  tell(word: string): Promise<void>;
  every(ms: number, deed: () => void): void;
}

/** Says that we are ready, now; and that we live, from now on. */
export function tellReady(edge: ServiceEdge = thisService()): void {
  if (!edge.env.NOTIFY_SOCKET) return;
  void edge.tell("READY=1");
  const usec = Number(edge.env.WATCHDOG_USEC ?? 0);
  if (!(usec > 0)) return;
  let telling = false;
  edge.every(Math.floor(usec / USEC_PER_MS / PINGS_IN_TIME), () => {
    if (telling) return;
    telling = true;
    void edge.tell("WATCHDOG=1").finally(() => {
      telling = false;
    });
  });
}

function thisService(): ServiceEdge {
  const { NOTIFY_SOCKET, PATH } = process.env;
  return {
    env: process.env,
    tell: (word) =>
      new Promise((resolve) => {
        faultPoint("shared.service.before-tell");
        const child = spawn(PROGRAM, [word], { stdio: "ignore", env: { NOTIFY_SOCKET, PATH } });
        // Who is not told restarts us: that shows, and in the journal.
        child.once("error", () => resolve());
        child.once("close", () => resolve());
      }),
    every: (ms, deed) => void setInterval(deed, ms).unref(),
  };
}
