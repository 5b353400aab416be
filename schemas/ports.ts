// What comes in from the edge: time, randomness, the log. A deciding file never reaches for the real ones.

export interface Clock {
  /** Milliseconds since 1970, UTC. */
  now(): number;
  /** Milliseconds from a clock that never jumps. */
  monotonic(): number;
}

export interface Log {
  /** One line: what happened, with ids and units. */
  info(message: string, facts?: Record<string, unknown>): void;
  warn(message: string, facts?: Record<string, unknown>): void;
  error(message: string, facts?: Record<string, unknown>): void;
}

/** A number in [0, 1). */
export type Random = () => number;

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
};

/** Log lines as JSON with a UTC time; `write` is where they go (a stream's write, or a test's array). */
export function jsonLog(write: (line: string) => void, clock: Clock = systemClock): Log {
  const line =
    (level: string) =>
    (message: string, facts: Record<string, unknown> = {}) =>
      write(`${JSON.stringify({ ts: new Date(clock.now()).toISOString(), level, message, ...facts })}\n`);
  return { info: line("info"), warn: line("warn"), error: line("error") };
}
