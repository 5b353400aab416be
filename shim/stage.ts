// What the stages of the redaction have in common.

export type Sink = (bytes: Buffer) => void;

export interface Stage {
  /** `bytes` are valid only during the call; so are those given to the sink. */
  push(bytes: Buffer): void;
  /** Nothing more comes. */
  end(): void;
}

/** What stands in the place of a secret. */
export function mark(name: string): Buffer {
  return Buffer.from(`[redacted:${name}]`);
}

const NOTHING = Buffer.alloc(0);

/** A copy that may be kept. */
export function keep(bytes: Buffer): Buffer {
  return bytes.length === 0 ? NOTHING : Buffer.from(bytes);
}

/** Collects the pieces of one pass, so that the next stage gets one piece. */
export class Pieces {
  #list: Buffer[] = [];

  add(bytes: Buffer): void {
    if (bytes.length > 0) this.#list.push(bytes);
  }

  flush(sink: Sink): void {
    const list = this.#list;
    if (list.length === 0) return;
    this.#list = [];
    sink(list.length === 1 ? (list[0] as Buffer) : Buffer.concat(list));
  }
}
