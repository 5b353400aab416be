// Says that something is still at work, so that nobody takes a slow answer for a hang.

export interface Patience {
  /** Before the first word; a quick answer says nothing. */
  firstMs: number;
  everyMs: number;
}

const USUAL: Patience = { firstMs: 1_500, everyMs: 10_000 };

/** The result of `work`; while it takes long, `tell` gets the seconds that have gone by. */
export async function whileWaiting<T>(
  work: Promise<T>,
  tell: (seconds: number) => void,
  { firstMs, everyMs }: Patience = USUAL,
): Promise<T> {
  const begun = performance.now();
  let timer: NodeJS.Timeout;
  const say = () => {
    tell(Math.round((performance.now() - begun) / 1_000));
    timer = setTimeout(say, everyMs);
  };
  timer = setTimeout(say, firstMs);
  try {
    return await work;
  } finally {
    clearTimeout(timer);
  }
}
