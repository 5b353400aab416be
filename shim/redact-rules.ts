// Stage 2 of the redaction: what looks like a secret. At each trigger its rule is asked, with one of three answers:
// no; yes from here to there; or "more must be known", and the bytes from the trigger on are held back. A secret
// that reaches the end of what is known is marked at once and its rest swallowed as it comes.

import { type Word, WordFinder } from "./find-words.ts";
import { SECRET_RULES, type SecretRule } from "./secret-rules.ts";
import { keep, mark, Pieces, type Sink, type Stage } from "./stage.ts";

/** A private key that does not end within this is let go on: it was none. */
const MAX_BLOCK_BYTES = 64 * 1024;
const DASHES = Buffer.from("-----");
/** Enough to recognise the end of a block across pieces. */
const BLOCK_OVERLAP = 128;

const TRIGGERS: Word[] = SECRET_RULES.flatMap((rule, tag) =>
  rule.triggers.map((text) => ({ bytes: Buffer.from(text), tag })),
);

type Answer = "no" | "more" | { from: number; to: number };

export class RuleStage implements Stage {
  readonly #finder = new WordFinder(TRIGGERS);
  readonly #sink: Sink;
  readonly #out = new Pieces();
  #held: Buffer = Buffer.alloc(0);
  /** The byte before `#held`. */
  #before = 0x0a;
  /** The rule whose secret is not over yet. */
  #open: { rule: SecretRule; left: number } | undefined;

  constructor(sink: Sink) {
    this.#sink = sink;
  }

  push(bytes: Buffer): void {
    this.#run(this.#held.length > 0 ? Buffer.concat([this.#held, bytes]) : bytes, false);
  }

  end(): void {
    this.#run(this.#held, true);
  }

  #run(data: Buffer, final: boolean): void {
    let from = this.#swallow(data, 0, final);
    let hold = data.length;
    for (let at = from; this.#open === undefined; ) {
      const hit = this.#finder.next(data, at);
      if (!hit) {
        if (!final) hold = this.#finder.cutOff(data, Math.max(from, at));
        break;
      }
      const rule = SECRET_RULES[hit.word.tag] as SecretRule;
      const answer = this.#ask(rule, data, hit.at, final);
      if (answer === "more") {
        hold = hit.at;
        break;
      }
      at = hit.at + 1;
      if (answer === "no") continue;
      this.#emit(data, from, answer.from);
      this.#out.add(mark(rule.name));
      this.#open = isOpen(rule, answer.to, data) ? { rule, left: MAX_BLOCK_BYTES } : undefined;
      from = at = this.#swallow(data, answer.to, final);
    }
    if (this.#open === undefined) this.#emit(data, from, hold);
    else hold = from;
    if (hold > 0) this.#before = data[hold - 1] as number;
    this.#held = keep(data.subarray(hold));
    this.#out.flush(this.#sink);
  }

  #emit(data: Buffer, from: number, to: number): void {
    if (to > from) this.#out.add(data.subarray(from, to));
  }

  #ask(rule: SecretRule, data: Buffer, at: number, final: boolean): Answer {
    if (rule.boundary && isWordByte(at > 0 ? (data[at - 1] as number) : this.#before)) return "no";
    const text = data.toString("latin1", at, Math.min(data.length, at + rule.reach));
    const undecided = !final && text.length < rule.reach && !rule.settled.test(text);
    if (rule.whole && undecided) return "more";
    rule.shape.lastIndex = 0;
    const found = rule.shape.exec(text)?.indices?.[1];
    if (found) return { from: at + found[0], to: at + found[1] };
    return undecided ? "more" : "no";
  }

  /** Skips the rest of an open secret; where it goes on after that. */
  #swallow(data: Buffer, from: number, final: boolean): number {
    if (this.#open === undefined) return from;
    const { rule } = this.#open;
    const end = rule.until === undefined ? runEnd(rule.more, data, from) : blockEnd(rule.until, data, from);
    if (end !== undefined) {
      this.#open = undefined;
      return end;
    }
    const next =
      rule.until === undefined || final ? data.length : Math.max(from, data.length - BLOCK_OVERLAP);
    this.#open.left -= next - from;
    if (rule.until !== undefined && this.#open.left <= 0) this.#open = undefined;
    return next;
  }
}

function isOpen(rule: SecretRule, to: number, data: Buffer): boolean {
  return (
    rule.until !== undefined || (to < data.length && rule.more.test(charAt(data, to))) || to === data.length
  );
}

/** First byte that does not belong to a run of such characters; undefined when all do. */
function runEnd(more: RegExp, data: Buffer, from: number): number | undefined {
  for (let at = from; at < data.length; at++) if (!more.test(charAt(data, at))) return at;
  return undefined;
}

function blockEnd(word: string, data: Buffer, from: number): number | undefined {
  const at = data.indexOf(word, from, "latin1");
  const dashes = at < 0 ? -1 : data.indexOf(DASHES, at + word.length);
  return dashes < 0 ? undefined : dashes + DASHES.length;
}

function charAt(data: Buffer, at: number): string {
  return String.fromCharCode(data[at] as number);
}

function isWordByte(byte: number): boolean {
  return (
    (byte >= 0x30 && byte <= 0x39) ||
    (byte >= 0x41 && byte <= 0x5a) ||
    (byte >= 0x61 && byte <= 0x7a) ||
    byte === 0x5f
  );
}
