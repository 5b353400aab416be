// Redaction of a stream of bytes, in pieces of any size (L6, case 40 secrets-in-output). Two stages:
//
// 1. Declared values, in every form of schemas/secret-forms.ts. They go first: a rule of stage 2 could otherwise cut one
//    in the middle and let the rest through.
// 2. What looks like a secret (secret-rules.ts).
//
// A stage holds back only what may be the beginning of a secret that the next piece completes; `end` lets it go.
// What is held is bounded by the longest form or the reach of a rule. In the place of a secret stands
// `[redacted:NAME]`; all other bytes stay as they are.

import { MAX_FRAME_BYTES } from "../schemas/limits.ts";
import { secretForms } from "../schemas/secret-forms.ts";
import { type Hit, type Word, WordFinder } from "./find-words.ts";
import { RuleStage } from "./redact-rules.ts";
import { keep, mark, Pieces, type Sink, type Stage } from "./stage.ts";

export interface Secret {
  name: string;
  value: string;
}

/** A stage that gives redacted bytes to `sink`. */
export function redactor(secrets: readonly Secret[], sink: Sink): Stage {
  const rules = new RuleStage(sink);
  const values = new ValueStage(secrets, (bytes) => rules.push(bytes));
  return {
    push: (bytes) => values.push(bytes),
    end: () => {
      values.end();
      rules.end();
    },
  };
}

/**
 * Declared values only, in a stream of JSON frames, one a line, which stay frames. A frame is looked at once it is whole, and in
 * its strings as they are meant: JSON can write a character in many ways. What is no JSON, or longer than any frame may be,
 * is looked at as bytes. What is given to the sink may be kept, as may what is pushed when there are no secrets.
 */
export function frameRedactor(secrets: readonly Secret[], sink: Sink): Stage {
  if (secrets.length === 0) return { push: sink, end: () => {} };
  const values = new ValueStage(secrets, (bytes) => sink(Buffer.from(bytes)));
  const redacted = valueRedactor(secrets);
  const asBytes = (line: Buffer) => {
    values.push(line);
    values.end();
  };
  const frame = (line: Buffer) => {
    const clean = line.length > MAX_FRAME_BYTES ? undefined : cleanFrame(line, redacted);
    if (clean === undefined) asBytes(line);
    else sink(clean);
  };
  let held: Buffer[] = [];
  let size = 0;
  const release = (deed: (line: Buffer) => void) => {
    if (size > 0) deed(Buffer.concat(held));
    held = [];
    size = 0;
  };
  return {
    push: (bytes) => {
      let from = 0;
      for (let end = bytes.indexOf(0x0a); end >= 0; end = bytes.indexOf(0x0a, from)) {
        held.push(keep(bytes.subarray(from, end + 1)));
        size += end + 1 - from;
        release(frame);
        from = end + 1;
      }
      if (from < bytes.length) held.push(keep(bytes.subarray(from)));
      size += bytes.length - from;
      // The bus refuses it whatever it says.
      if (size > MAX_FRAME_BYTES) release(asBytes);
    },
    end: () => release(frame),
  };
}

/** The frame without secrets; as it came where it holds none; undefined: it is no JSON. */
function cleanFrame(line: Buffer, redacted: (text: string) => string): Buffer | undefined {
  let changed = false;
  const clean = (text: string) => {
    const now = redacted(text);
    changed ||= now !== text;
    return now;
  };
  const walk = (value: unknown): unknown => {
    if (typeof value === "string") return clean(value);
    if (typeof value === "number")
      return redacted(String(value)) === String(value) ? value : clean(String(value));
    if (Array.isArray(value)) return value.map(walk);
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([name, part]) => [clean(name), walk(part)]));
  };
  try {
    const frame = walk(JSON.parse(line.toString("utf8")));
    return changed ? Buffer.from(`${JSON.stringify(frame)}\n`) : line;
  } catch {
    return undefined;
  }
}

/** Of whole texts; the search is prepared once. */
function valueRedactor(secrets: readonly Secret[]): (text: string) => string {
  const parts: Buffer[] = [];
  const stage = new ValueStage(secrets, (bytes) => parts.push(Buffer.from(bytes)));
  return (text) => {
    stage.push(Buffer.from(text));
    stage.end();
    return Buffer.concat(parts.splice(0)).toString("utf8");
  };
}

/** One text, redacted: for command lines and messages. */
export function redactText(secrets: readonly Secret[], text: string): string {
  const parts: Buffer[] = [];
  const stage = redactor(secrets, (bytes) => parts.push(Buffer.from(bytes)));
  stage.push(Buffer.from(text));
  stage.end();
  return Buffer.concat(parts).toString("utf8");
}

class ValueStage implements Stage {
  readonly #finder: WordFinder;
  readonly #marks: Buffer[];
  readonly #sink: Sink;
  readonly #out = new Pieces();
  #held: Buffer = Buffer.alloc(0);

  constructor(secrets: readonly Secret[], sink: Sink) {
    const words: Word[] = [];
    secrets.forEach((secret, tag) => {
      for (const bytes of secretForms(secret.value)) words.push({ bytes, tag });
    });
    this.#finder = new WordFinder(words);
    this.#marks = secrets.map((secret) => mark(secret.name));
    this.#sink = sink;
  }

  push(bytes: Buffer): void {
    this.#run(this.#held.length > 0 ? Buffer.concat([this.#held, bytes]) : bytes, false);
  }

  end(): void {
    this.#run(this.#held, true);
  }

  #run(data: Buffer, final: boolean): void {
    let from = 0;
    let hold = final ? data.length : this.#finder.cutOff(data, 0);
    for (;;) {
      const hit = this.#finder.next(data, from);
      if (!hit || hit.at >= hold) break;
      const end = this.#extent(data, hit);
      if (hold < end) {
        hold = hit.at; // a longer or overlapping secret may begin inside this one
        break;
      }
      if (hit.at > from) this.#out.add(data.subarray(from, hit.at));
      this.#out.add(this.#marks[hit.word.tag] as Buffer);
      from = end;
    }
    if (hold > from) this.#out.add(data.subarray(from, hold));
    this.#held = keep(data.subarray(Math.max(from, hold)));
    this.#out.flush(this.#sink);
  }

  /** Where the secret ends; others that overlap it are taken as one with it. */
  #extent(data: Buffer, hit: Hit): number {
    let end = hit.at + hit.word.bytes.length;
    for (let at = hit.at + 1; at < end; at++) {
      const next = this.#finder.next(data.subarray(0, Math.min(data.length, end + this.#finder.longest)), at);
      if (!next || next.at >= end) break;
      end = Math.max(end, next.at + next.word.bytes.length);
      at = next.at;
    }
    return end;
  }
}
