// Redaction of a stream of bytes, in pieces of any size (L6, case 40 secrets-in-output). Two stages:
//
// 1. Declared values, in every form of schemas/secret-forms.ts. They go first: a rule of stage 2 could otherwise cut one
//    in the middle and let the rest through.
// 2. What looks like a secret (secret-rules.ts).
//
// A stage holds back only what may be the beginning of a secret that the next piece completes; `end` lets it go.
// What is held is bounded by the longest form or the reach of a rule. In the place of a secret stands
// `[redacted:NAME]`; all other bytes stay as they are.

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
 * Declared values only, in a stream of lines that must keep their form (JSON frames): nothing of a line is held back
 * beyond its end. What is given to the sink may be kept, as may what is pushed when there are no secrets.
 */
export function lineRedactor(secrets: readonly Secret[], sink: Sink): Stage {
  if (secrets.length === 0) return { push: sink, end: () => {} };
  const values = new ValueStage(secrets, (bytes) => sink(Buffer.from(bytes)));
  return {
    push: (bytes) => {
      const end = bytes.lastIndexOf(0x0a) + 1;
      if (end > 0) {
        values.push(bytes.subarray(0, end));
        values.end();
      }
      if (end < bytes.length) values.push(bytes.subarray(end));
    },
    end: () => values.end(),
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
