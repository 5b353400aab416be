// Waiting in tests: for a condition, with a bound, never for a time.

/** Fulfilled with the first truthy value of `fn`; rejects after `ms`, naming what was waited for. */
export async function until<T>(
  what: string,
  fn: () => T | Promise<T>,
  ms = 60_000,
): Promise<Exclude<T, undefined | null | false | 0 | "">> {
  const end = performance.now() + ms;
  for (;;) {
    const value = await fn();
    if (value) return value as Exclude<T, undefined | null | false | 0 | "">;
    if (performance.now() > end) throw new Error(`waited ${ms} ms in vain for: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
