// Finds many words in a stream of bytes in one pass (Wu and Manber): the last two bytes of a window as long as
// the shortest word say how far the window may jump. With few words most bytes are never looked at, so that plain
// output passes at more than 1 GB/s.

export interface Word {
  bytes: Buffer;
  /** What the finder's owner knows it by. */
  tag: number;
}

export interface Hit {
  at: number;
  word: Word;
}

/** Two bytes are folded into this many classes: 8 KB of table instead of 64, and hardly shorter jumps. */
const BLOCKS = 8_192;

function blockOf(first: number, second: number): number {
  return ((first << 5) ^ second) & (BLOCKS - 1);
}

export class WordFinder {
  readonly longest: number;
  readonly #shortest: number;
  readonly #jump = new Uint8Array(BLOCKS);
  /** Words by the block that ends their window, longest first. */
  readonly #byBlock = new Map<number, Word[]>();
  readonly #byFirst: Word[][] = Array.from({ length: 256 });

  /** Words of one byte are not possible. */
  constructor(words: readonly Word[]) {
    this.longest = Math.max(0, ...words.map((w) => w.bytes.length));
    this.#shortest = Math.min(...words.map((w) => w.bytes.length), 255);
    const window = this.#shortest;
    this.#jump.fill(Math.max(1, window - 1));
    for (const word of [...words].sort((a, b) => b.bytes.length - a.bytes.length)) {
      for (let end = 1; end < window; end++) {
        const block = blockOf(byteAt(word.bytes, end - 1), byteAt(word.bytes, end));
        this.#jump[block] = Math.min(byteAt(this.#jump, block), window - 1 - end);
        if (end === window - 1) push(this.#byBlock, block, word);
      }
      const first = byteAt(word.bytes, 0);
      this.#byFirst[first] = [...(this.#byFirst[first] ?? []), word];
    }
  }

  /** The first whole word that begins at or after `from`; of several that begin there, the longest. */
  next(data: Buffer, from: number): Hit | undefined {
    if (this.longest === 0) return undefined;
    const jump = this.#jump;
    const size = data.length;
    const reach = this.#shortest - 1;
    for (let i = from + reach; i < size; ) {
      const block = blockOf(data[i - 1] as number, data[i] as number);
      const step = jump[block] as number;
      if (step !== 0) {
        i += step;
        continue;
      }
      const word = this.#wordAt(data, i - reach, block);
      if (word) return { at: i - reach, word };
      i += 1;
    }
    return undefined;
  }

  /** Where a word begins that the end of `data` cuts off, or `data.length`: from there on more must be known. */
  cutOff(data: Buffer, from: number): number {
    const size = data.length;
    for (let at = Math.max(from, size - this.longest + 1); at < size; at++) {
      const words = this.#byFirst[data[at] as number];
      if (words?.some((w) => w.bytes.length > size - at && startsWith(data, at, w.bytes, size - at)))
        return at;
    }
    return size;
  }

  #wordAt(data: Buffer, at: number, block: number): Word | undefined {
    return this.#byBlock
      .get(block)
      ?.find((w) => at + w.bytes.length <= data.length && startsWith(data, at, w.bytes, w.bytes.length));
  }
}

/** Byte by byte: most differ at once, and a call into the runtime costs more than the look. */
function startsWith(data: Buffer, at: number, word: Buffer, length: number): boolean {
  for (let i = 0; i < length; i++) if (data[at + i] !== word[i]) return false;
  return true;
}

function byteAt(bytes: Uint8Array, at: number): number {
  return bytes[at] as number;
}

function push(map: Map<number, Word[]>, key: number, word: Word): void {
  const list = map.get(key);
  if (list) list.push(word);
  else map.set(key, [word]);
}
