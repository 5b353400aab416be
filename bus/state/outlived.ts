// Which of the oldest files of the journal the configuration does not keep any more. Pure; retention.ts removes them.

const DAY_MS = 24 * 3600_000;

/** The configuration's `audit`; what is absent sets no bound. */
export interface Keep {
  keep_days?: number | undefined;
  keep_bytes?: number | undefined;
}

export interface OldFile {
  bytes: number;
  /** When its newest record was written; ISO 8601, UTC. */
  newest: string;
}

/** How many of `files` (oldest first) go, and why; `now` is a time that is believed (borne-out.ts); `rest` is the size of those behind them, which stay. */
export function outlived(
  { keep_days, keep_bytes }: Keep,
  now: number,
  files: readonly OldFile[],
  rest: number,
): { count: number; rule: string } | undefined {
  const old =
    keep_days === undefined ? 0 : countWhile(timesOf(files, now), (at) => now - at > keep_days * DAY_MS);
  let size = files.reduce((sum, { bytes }) => sum + bytes, rest);
  const many =
    keep_bytes === undefined
      ? 0
      : countWhile(files, ({ bytes }) => {
          if (size <= keep_bytes) return false;
          size -= bytes;
          return true;
        });
  const count = Math.max(old, many);
  if (count === 0) return undefined;
  return { count, rule: old >= many ? `audit.keep_days ${keep_days}` : `audit.keep_bytes ${keep_bytes}` };
}

/**
 * When they were last written. A clock jumps, the order of the files does not: none is older than one before it; and one
 * that comes from the future is as old as the newest behind it that does not.
 */
function timesOf(files: readonly OldFile[], now: number): number[] {
  const times = files.map(({ newest }) => Date.parse(newest));
  let behind = Number.NEGATIVE_INFINITY;
  for (let i = times.length - 1; i >= 0; i--) {
    if (times[i]! <= now) behind = Math.max(behind, times[i]!);
    else times[i] = behind === Number.NEGATIVE_INFINITY ? now : behind;
  }
  for (let i = 1; i < times.length; i++) times[i] = Math.max(times[i]!, times[i - 1]!);
  return times;
}

function countWhile<T>(list: readonly T[], holds: (one: T) => boolean): number {
  const end = list.findIndex((one) => !holds(one));
  return end < 0 ? list.length : end;
}
