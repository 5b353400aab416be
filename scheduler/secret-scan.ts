// What looks like a key, or is one that we gave to the agent, stops a change before it is in any object of the repository
// (L6, G4, case 40 secrets-in-output).
//
// 1. What is looked through is what would land: blobs as git made them of the files (an attribute may have changed their
//    encoding), targets of links, names.
// 2. Looks: a kept library of rules (secretlint), for text. Its comments that switch it off are not obeyed: the agent
//    could write them.
// 3. Values that the attempt was given, in every form of schemas/secret-forms.ts, in any file.
// 4. What the base holds in the same file is no finding: only a change can be stopped.
// 5. A text is looked through in pieces that overlap by more than any secret is long, so that each hold of the loop is
//    bounded. What touches the end of a piece is left to the next one.
// 6. A finding names file, line and kind, never the secret.

import { createHash } from "node:crypto";
import { lintSource } from "@secretlint/core";
import { creator } from "@secretlint/secretlint-rule-preset-recommend";
import { secretForms } from "../schemas/secret-forms.ts";
import { type Control, controlGit } from "./control.ts";
import type { Secret } from "./environment.ts";

export interface ScanRules {
  /** Values that must not appear, each with the name that is told. */
  secrets: readonly Secret[];
  /** Files that may hold what only looks like a secret: test data. */
  mayLook?: (path: string) => boolean;
}

/** What is about to become part of a commit. */
export interface Scanned {
  path: string;
  oldOid: string | null;
  oid: string | null;
  /** About the blob's. */
  size: number;
}

export interface Leak {
  path: string;
  /** "line 3 holds ..." */
  why: string;
}

interface Finding {
  line: number;
  what: string;
  /** What makes it the same as another. Never told. */
  key: string;
}

const PIECE_BYTES = 256 * 1024;
/** Longer than the private keys that are in use. */
const OVERLAP_BYTES = 8 * 1024;
/** Blobs that are read in one call. */
const BATCH_BYTES = 32 * 1024 * 1024;
/** A larger file, which the plan must allow by its name, is not looked through. */
const MAX_SCANNED_BYTES = 256 * 1024 * 1024;
const CONFIG = {
  rules: [{ id: "@secretlint/secretlint-rule-preset-recommend", rule: creator }],
};

/** The first finding of each change that has one. */
export async function leaksIn(
  control: Control,
  changes: readonly Scanned[],
  rules: ScanRules,
): Promise<Leak[]> {
  const leaks: Leak[] = [];
  const forms = formsOf(rules);
  for (const batch of batches(changes)) {
    const named = batch.filter(({ path }) => nameIn(path, forms) !== undefined);
    for (const { path } of named) leaks.push({ path, why: `its name holds ${nameIn(path, forms)}` });
    const rest = batch.filter((change) => !named.includes(change));
    const blobs = await readBlobs(
      control,
      rest.map(({ oid }) => oid ?? ""),
    );
    for (const [n, change] of rest.entries()) {
      const wanted = { forms, looks: !(rules.mayLook?.(change.path) ?? false) };
      const found = await inText(blobs[n] as Buffer, wanted);
      if (found.length === 0) continue;
      const before = change.oldOid === null ? [] : await readBlobs(control, [change.oldOid]);
      const known = new Set((await inText(before[0] ?? NOTHING, wanted)).map(({ key }) => key));
      const first = found.find(({ key }) => !known.has(key));
      if (first) leaks.push({ path: change.path, why: `line ${first.line} holds ${first.what}` });
    }
  }
  return leaks;
}

/** The first finding in a text of any length; only values where some files may hold what looks like a secret. */
export async function leakInText(
  text: string,
  rules: ScanRules,
): Promise<Pick<Finding, "line" | "what"> | undefined> {
  const wanted = { forms: formsOf(rules), looks: !rules.mayLook };
  const [first] = await inText(Buffer.from(text), wanted);
  return first && { line: first.line, what: first.what };
}

/** A text that people are told, without values: names of files, above all. */
export function withoutValues(text: string, { secrets }: Pick<ScanRules, "secrets">): string {
  let clean = text;
  for (const { name, value } of secrets)
    for (const form of secretForms(value))
      clean = clean.replaceAll(form.toString("utf8"), `[redacted:${name}]`);
  return clean;
}

const NOTHING = Buffer.alloc(0);

interface Wanted {
  forms: { name: string; bytes: Buffer }[];
  looks: boolean;
}

function formsOf({ secrets }: ScanRules): Wanted["forms"] {
  return secrets.flatMap(({ name, value }) =>
    secretForms(value, "telling").map((bytes) => ({ name, bytes })),
  );
}

function nameIn(path: string, forms: Wanted["forms"]): string | undefined {
  const bytes = Buffer.from(path);
  const form = forms.find((one) => bytes.includes(one.bytes));
  return form && `the value of the secret ${form.name}`;
}

function batches(changes: readonly Scanned[]): Scanned[][] {
  const all: Scanned[][] = [];
  let left = 0;
  for (const change of changes) {
    if (change.oid === null || change.size > MAX_SCANNED_BYTES) continue;
    if (left < change.size || all.length === 0) {
      all.push([]);
      left = BATCH_BYTES;
    }
    all.at(-1)?.push(change);
    left -= change.size;
  }
  return all;
}

/** In the order asked. */
async function readBlobs(control: Control, oids: readonly string[]): Promise<Buffer[]> {
  if (oids.length === 0) return [];
  const { stdoutBuffer: out } = await controlGit(control, ["cat-file", "--batch"], {
    input: oids.map((oid) => `${oid}\n`).join(""),
    encoding: "buffer",
  });
  const blobs: Buffer[] = [];
  for (let at = 0; blobs.length < oids.length; ) {
    const end = out.indexOf(0x0a, at);
    const size = Number(out.toString("latin1", at, end).split(" ")[2]);
    blobs.push(out.subarray(end + 1, end + 1 + size));
    at = end + 1 + size + 1;
  }
  return blobs;
}

async function inText(data: Buffer, wanted: Wanted): Promise<Finding[]> {
  const found = new Map<string, Finding>();
  const looks = wanted.looks && !data.subarray(0, 8_000).includes(0);
  const overlap = Math.max(OVERLAP_BYTES, ...wanted.forms.map(({ bytes }) => bytes.length));
  for (let from = 0, line = 1; from < data.length; ) {
    const end = Math.min(data.length, from + PIECE_BYTES + overlap);
    const piece = { data: data.subarray(from, end), isFirst: from === 0, isLast: end === data.length };
    for (const finding of await inPiece(piece, { ...wanted, looks }))
      if (!found.has(finding.key)) found.set(finding.key, { ...finding, line: finding.line + line - 1 });
    if (piece.isLast) break;
    line += lineEnds(piece.data, PIECE_BYTES);
    from += PIECE_BYTES;
  }
  return [...found.values()].sort((a, b) => a.line - b.line);
}

async function inPiece(
  { data, isFirst, isLast }: { data: Buffer; isFirst: boolean; isLast: boolean },
  { forms, looks }: Wanted,
): Promise<Finding[]> {
  const found: Finding[] = [];
  for (const { name, bytes } of forms) {
    const at = data.indexOf(bytes);
    if (at < 0) continue;
    const key = `value ${name}`;
    found.push({ line: lineEnds(data, at) + 1, what: `the value of the secret ${name}`, key });
  }
  if (!looks) return found;
  const content = data.toString("utf8").replaceAll("secretlint-disable", "secretlint_disable");
  const { messages } = await lintSource({
    source: { filePath: "change", content, ext: "", contentType: "text" },
    options: { config: CONFIG, noPhysicFilePath: true },
  });
  for (const { ruleId, messageId, range, loc } of messages) {
    const [start, end] = range;
    // The piece before or after this one has it whole.
    if ((start === 0 && !isFirst) || (end >= content.length && !isLast)) continue;
    const kind = `${ruleId.replace(/^.*secretlint-rule-/, "")}: ${messageId}`;
    const key = createHash("sha256")
      .update(`${kind} ${content.slice(start, end)}`)
      .digest("base64");
    found.push({ line: loc.start.line, what: `what looks like a secret (${kind})`, key });
  }
  return found;
}

function lineEnds(data: Buffer, before: number): number {
  let count = 0;
  for (let at = data.indexOf(0x0a); at >= 0 && at < before; at = data.indexOf(0x0a, at + 1)) count += 1;
  return count;
}
