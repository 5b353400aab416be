// The nearest right word for a wrong one.

/** Edits (insert, delete, replace, swap of neighbours) from one word to another; `bound` + 1 when it is more. */
export function distance(a: string, b: string, bound = Number.POSITIVE_INFINITY): number {
  if (Math.abs(a.length - b.length) > bound) return bound + 1;
  let before: number[] = [];
  let above = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const same = a[i - 1] === b[j - 1];
      let cost = Math.min((above[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (above[j - 1] ?? 0) + (same ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        cost = Math.min(cost, (before[j - 2] ?? 0) + 1);
      row.push(cost);
    }
    if (Math.min(...row) > bound) return bound + 1;
    before = above;
    above = row;
  }
  return above[b.length] ?? 0;
}

/** `dependsOn`, `Depends-On` and `depends on` are one word to a person. */
function fold(word: string): string {
  return word
    .trim()
    .toLowerCase()
    .replace(/[\s_-]+/g, "");
}

/** The candidate that was most likely meant, or undefined when none is near. Words longer than 200 have none. */
export function nearest(word: string, candidates: Iterable<string>): string | undefined {
  if (word.length > 200) return undefined;
  const folded = fold(word);
  let best: string | undefined;
  let least = Math.max(1, Math.floor(folded.length / 3)) + 1;
  let begun: string | undefined;
  for (const candidate of candidates) {
    const other = fold(candidate);
    if (other === folded) return candidate;
    if (folded.length >= 3 && other.startsWith(folded)) begun ??= candidate; // `mem` for `memory`
    const d = distance(folded, other, least - 1);
    if (d < least) {
      least = d;
      best = candidate;
    }
  }
  return best ?? begun;
}

/** A hint for a message, or undefined. */
export function didYouMean(word: string, candidates: Iterable<string>): string | undefined {
  const near = nearest(word, candidates);
  return near === undefined ? undefined : `did you mean ${JSON.stringify(near)}?`;
}
