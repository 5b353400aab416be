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

/** How many of `files` (oldest first) go, and why; `rest` is the size of those behind them, which stay. */
export function outlived(
  { keep_days, keep_bytes }: Keep,
  now: number,
  files: readonly OldFile[],
  rest: number,
): { count: number; rule: string } | undefined {
  const old =
    keep_days === undefined ? 0 : countWhile(files, (f) => now - Date.parse(f.newest) > keep_days * DAY_MS);
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

function countWhile<T>(list: readonly T[], holds: (one: T) => boolean): number {
  const end = list.findIndex((one) => !holds(one));
  return end < 0 ? list.length : end;
}
