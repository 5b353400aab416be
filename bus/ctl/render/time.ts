// Times and amounts in few characters.

/** `4.2s`, `37s`, `5m 03s`, `2h 07m`, `3d 04h`. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms) || ms < 0) return "0s";
  if (ms < 9_950) return `${(ms / 1000).toFixed(1)}s`;
  const s = Math.round(ms / 1000);
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m ${two(s % 60)}s`;
  if (s < 86_400) return `${Math.floor(s / 3600)}h ${two(Math.floor((s % 3600) / 60))}m`;
  return `${Math.floor(s / 86_400)}d ${two(Math.floor((s % 86_400) / 3600))}h`;
}

/** Cells of the longest time below a hundred days. */
export const LONGEST_TIME = "99d 23h".length;

/** Whole seconds only: for what is redrawn every second. */
export function ticking(ms: number): string {
  return ms < 9_950 ? `${Math.max(0, Math.floor(ms / 1000))}s` : duration(ms);
}

/** Time of day in the person's zone, `12:00:03`. */
export function clockTime(ms: number): string {
  const d = new Date(ms);
  return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

/** Milliseconds since 1970 of an ISO time; `otherwise` when there is none. */
export function millis(iso: string | undefined, otherwise = 0): number {
  const ms = iso === undefined ? Number.NaN : Date.parse(iso);
  return Number.isNaN(ms) ? otherwise : ms;
}

export function plural(n: number, one: string, many = `${one}s`): string {
  return `${n} ${n === 1 ? one : many}`;
}

export function bytes(n: number): string {
  if (n < 1024) return `${n} B`;
  if (n < 1024 * 1024) return `${(n / 1024).toFixed(1)} KiB`;
  return `${(n / 1024 / 1024).toFixed(1)} MiB`;
}

function two(n: number): string {
  return String(n).padStart(2, "0");
}
