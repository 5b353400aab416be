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
