// How wide text is on a terminal, and how to cut and fill it. Escape sequences count nothing, combining
// marks count nothing, East Asian wide characters and emoji count two. Width is passed in everywhere.

// biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences are what is looked for
const ESCAPES = /\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;
const ASCII = /^[\x20-\x7e]*$/;
const ZERO = /^[\p{Mn}\p{Me}\p{Cf}]+$/u;
const EMOJI = /\p{Emoji_Presentation}|️/u;
const segmenter = new Intl.Segmenter("en", { granularity: "grapheme" });

/** First and last code point of the ranges that terminals draw two cells wide. */
const WIDE: readonly (readonly [number, number])[] = [
  [0x1100, 0x115f],
  [0x2e80, 0x303e],
  [0x3041, 0x33ff],
  [0x3400, 0x4dbf],
  [0x4e00, 0x9fff],
  [0xa000, 0xa4cf],
  [0xa960, 0xa97f],
  [0xac00, 0xd7a3],
  [0xf900, 0xfaff],
  [0xfe30, 0xfe6f],
  [0xff00, 0xff60],
  [0xffe0, 0xffe6],
  [0x1f300, 0x1f64f],
  [0x1f900, 0x1f9ff],
  [0x20000, 0x3fffd],
];

function graphemeWidth(grapheme: string): number {
  if (ZERO.test(grapheme)) return 0;
  if (EMOJI.test(grapheme)) return 2;
  const point = grapheme.codePointAt(0) ?? 0;
  if (point < 0x20 || (point >= 0x7f && point < 0xa0)) return 0;
  return WIDE.some(([from, to]) => point >= from && point <= to) ? 2 : 1;
}

/** Cells that `text` takes on one line of a terminal. */
export function displayWidth(text: string): number {
  if (ASCII.test(text)) return text.length;
  const bare = text.replace(ESCAPES, "");
  if (ASCII.test(bare)) return bare.length;
  let width = 0;
  for (const { segment } of segmenter.segment(bare)) width += graphemeWidth(segment);
  return width;
}

/** `text` without escapes, cut to `width` cells; what was cut shows as `…`. */
export function cut(text: string, width: number): string {
  if (displayWidth(text) <= width) return text;
  if (width <= 0) return "";
  let kept = "";
  let used = 0;
  for (const { segment } of segmenter.segment(text.replace(ESCAPES, ""))) {
    const w = graphemeWidth(segment);
    if (used + w > width - 1) break;
    kept += segment;
    used += w;
  }
  return `${kept}…`;
}

/**
 * `text` broken between words into lines of at most `width` cells; a word that is wider is broken in itself. Of more
 * than `most` lines the last one ends with `…`.
 */
export function wrap(text: string, width: number, most = Number.POSITIVE_INFINITY): string[] {
  if (displayWidth(text) <= width || width < 10) return [text];
  const lines: string[] = [];
  let rest = text;
  while (rest !== "" && lines.length < most) {
    if (displayWidth(rest) <= width || lines.length === most - 1) {
      lines.push(cut(rest, width));
      break;
    }
    // Two cells more than fit: it is cut for certain, and the mark of the cut goes.
    const head = cut(`${rest}xx`, width + 1).slice(0, -1);
    const space = head.lastIndexOf(" ");
    const at = rest[head.length] === " " ? head.length : space > 0 ? space : Math.max(1, head.length);
    lines.push(rest.slice(0, at).trimEnd());
    rest = rest.slice(at).trimStart();
  }
  return lines;
}

/** `text` broken between words; every line but the first is set in by two cells. */
export function hanging(text: string, width: number): string[] {
  const [first = "", ...more] = wrap(text, width - 2);
  return displayWidth(text) <= width ? [text] : [first, ...more.map((line) => `  ${line}`)];
}

/** `text` filled with spaces to `width` cells, or cut to it. */
export function pad(text: string, width: number, align: "left" | "right" = "left"): string {
  const fitting = cut(text, width);
  const fill = " ".repeat(Math.max(0, width - displayWidth(fitting)));
  return align === "left" ? fitting + fill : fill + fitting;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is made harmless
const UNSAFE = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/**
 * Text from outside made harmless for a terminal: control and direction characters are shown as `\xNN` or
 * `\uNNNN`. Line ends and tabs stay.
 */
export function harmless(text: string): string {
  return text.replace(UNSAFE, (c) => {
    const code = c.charCodeAt(0);
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16)}`;
  });
}

/** Harmless and on one line: every run of white space is one space. */
export function oneLine(text: string): string {
  return harmless(text.replace(/\s+/g, " ").trim());
}
