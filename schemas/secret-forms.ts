// The forms in which a secret value turns up in output. Each is searched for literally; what is not listed here
// (other encodings, base64 wrapped into lines, parts of a value) is not found.

/** Values and forms shorter than this are ignored: they would black out ordinary text. */
const MIN_FORM_BYTES = 4;
/** Of values beyond this only the raw text and its lines are searched for. */
const MAX_ENCODED_BYTES = 16 * 1024;
/** Lines of a value of several lines (a key file) are searched for one by one from this length. */
const MIN_LINE_CHARS = 16;
const MAX_LINES = 500;
/** One long run of the characters of encodings. */
const TELLING = /^[A-Za-z0-9+/=_-]{32,}$/;
/** A fragment of base64 below this is too common to search for. */
const MIN_BASE64_CHARS = 6;

/**
 * All forms of one value, each once. `telling`: of the single lines of a value only those that say by themselves whose
 * they are: the first line of every key file of a kind is the same.
 */
export function secretForms(value: string, lines: "all" | "telling" = "all"): Buffer[] {
  const text = value.trim();
  if (Buffer.byteLength(text) < MIN_FORM_BYTES) return [];
  const forms = new Set<string>([
    text,
    ...linesOf(text).filter((line) => lines === "all" || TELLING.test(line)),
  ]);
  const bytes = Buffer.from(text);
  if (bytes.length <= MAX_ENCODED_BYTES) {
    for (const form of [...urlForms(text), ...quotedForms(text), ...base64Forms(bytes)]) forms.add(form);
    const hex = bytes.toString("hex");
    forms.add(hex).add(hex.toUpperCase());
  }
  return [...forms].map((form) => Buffer.from(form)).filter((form) => form.length >= MIN_FORM_BYTES);
}

function linesOf(text: string): string[] {
  const lines = text.split("\n").map((line) => line.trim());
  return lines.length === 1 ? [] : lines.filter((line) => line.length >= MIN_LINE_CHARS).slice(0, MAX_LINES);
}

/** As JavaScript, Python, forms and URL parsers encode it, with capitals and without. */
function urlForms(text: string): string[] {
  const plain = encodeURIComponent(Buffer.from(text).toString()); // a lone surrogate would throw
  const strict = plain.replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
  const url = new URL("http://user@host/");
  url.password = text;
  const forms = [plain, strict, strict.replaceAll("%2F", "/"), strict.replaceAll("%20", "+"), url.password];
  return [...forms, ...forms.map((form) => form.replace(/%[0-9A-F]{2}/g, (hex) => hex.toLowerCase()))];
}

/** Inside a JSON string, with and without escaped slashes; inside single quotes of a shell. */
function quotedForms(text: string): string[] {
  const json = JSON.stringify(text).slice(1, -1);
  return [json, json.replaceAll("/", "\\/"), text.replaceAll("'", "'\\''")];
}

/**
 * base64 of a text that holds the value depends on where in a group of three bytes the value begins. Of each of
 * the three cases, the characters that only the value determines.
 */
function base64Forms(bytes: Buffer): string[] {
  const forms: string[] = [];
  for (const before of [0, 1, 2]) {
    const text = Buffer.concat([Buffer.alloc(before), bytes]).toString("base64");
    const stable = text.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6));
    if (stable.length < MIN_BASE64_CHARS) continue;
    forms.push(stable, stable.replaceAll("+", "-").replaceAll("/", "_"));
  }
  return forms;
}
