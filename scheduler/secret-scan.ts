// What looks like a key, or is one that we gave to the agent, stops a change before it is in any object (L6, G4,
// case 40 secrets-in-output).
//
// 1. Looks: a kept library of rules (secretlint), for text. Its comments that switch it off are not obeyed: the agent
//    could write them.
// 2. Values that the attempt was given, in every form of schemas/secret-forms.ts, in any file.
// 3. What the base holds in the same file is no finding: only a change can be stopped.
// 4. Files are read in pieces that overlap, so that memory and each hold of the loop are bounded.
// 5. A finding names file, line and kind, never the secret.

import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { lintSource } from "@secretlint/core";
import { creator } from "@secretlint/secretlint-rule-preset-recommend";
import { showName } from "../bus/git/tree.ts";
import { secretForms } from "../schemas/secret-forms.ts";
import type { Touched } from "./capture-scan.ts";
import { type Control, controlGit } from "./control.ts";
import type { Secret } from "./environment.ts";
import { nameIn } from "./on-disk.ts";

export interface ScanRules {
  /** Values that must not appear, each with the name that is told. */
  secrets: readonly Secret[];
  /** Files that may hold what only looks like a secret: test data. */
  mayLook?: (path: string) => boolean;
}

export interface Leak {
  /** Bytes of the path as latin1. */
  name: string;
  line: number;
  /** Completes "line 3 holds ...". */
  what: string;
}

interface Finding {
  line: number;
  what: string;
  /** What makes it the same as another: kind and text. Never told. */
  key: string;
}

const PIECE_BYTES = 256 * 1024;
/** Longer than the private keys that are in use. */
const OVERLAP_BYTES = 8 * 1024;
/** Of one file; the first of them is told. */
const MAX_FINDINGS = 20;
const CONFIG = {
  rules: [{ id: "@secretlint/secretlint-rule-preset-recommend", rule: creator }],
};

/** The first finding of each file that has one. */
export async function leaksIn(
  place: { control: Control; work: string },
  items: readonly Touched[],
  rules: ScanRules,
): Promise<Leak[]> {
  const leaks: Leak[] = [];
  const forms = formsOf(rules);
  for (const item of items) {
    if (item.disk.is !== "file") continue;
    const looks = !(rules.mayLook?.(showName(item.name)) ?? false);
    const found = await inFile(nameIn(place.work, item.name), { forms, looks });
    if (found.length === 0) continue;
    const before = item.oldOid === "" ? [] : await inBase(place.control, item.oldOid, { forms, looks });
    const known = new Set(before.map(({ key }) => key));
    const first = found.find(({ key }) => !known.has(key));
    if (first) leaks.push({ name: item.name, line: first.line, what: first.what });
  }
  return leaks;
}

/** The first finding in a text of any length; only values where some files may hold what looks like a secret. */
export async function leakInText(text: string, rules: ScanRules): Promise<Omit<Leak, "name"> | undefined> {
  const [first] = await inPieces(piecesOf(Buffer.from(text)), {
    forms: formsOf(rules),
    looks: !rules.mayLook,
  });
  return first && { line: first.line, what: first.what };
}

interface Wanted {
  forms: { name: string; bytes: Buffer }[];
  looks: boolean;
}

function formsOf({ secrets }: ScanRules): Wanted["forms"] {
  return secrets.flatMap(({ name, value }) => secretForms(value).map((bytes) => ({ name, bytes })));
}

async function inFile(path: Buffer, wanted: Wanted): Promise<Finding[]> {
  // The agent may still be at work: what was a file a moment ago may be a pipe now.
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(
    () => undefined,
  );
  if (!file) return []; // gone or closed meanwhile: git will say so
  try {
    return (await file.stat()).isFile() ? await inPieces(readPieces(file), wanted) : [];
  } finally {
    await file.close();
  }
}

/** Asked only for files in which something was found. */
async function inBase(control: Control, oid: string, wanted: Wanted): Promise<Finding[]> {
  const { stdoutBuffer } = await controlGit(control, ["cat-file", "blob", oid], { encoding: "buffer" });
  return await inPieces(piecesOf(stdoutBuffer), wanted);
}

async function* readPieces(file: Awaited<ReturnType<typeof open>>): AsyncGenerator<Buffer> {
  for (let at = 0; ; ) {
    const piece = Buffer.alloc(PIECE_BYTES);
    const { bytesRead } = await file.read(piece, 0, PIECE_BYTES, at);
    if (bytesRead === 0) return;
    at += bytesRead;
    yield piece.subarray(0, bytesRead);
  }
}

function* piecesOf(bytes: Buffer): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) yield bytes.subarray(at, at + PIECE_BYTES);
}

async function inPieces(
  pieces: AsyncIterable<Buffer> | Iterable<Buffer>,
  wanted: Wanted,
): Promise<Finding[]> {
  const found = new Map<string, Finding>();
  let tail: Buffer = Buffer.alloc(0);
  let line = 1;
  let text: boolean | undefined;
  for await (const piece of pieces) {
    text ??= !piece.subarray(0, 8_000).includes(0);
    const data = Buffer.concat([tail, piece]);
    for (const finding of await inPiece(data, wanted, text && wanted.looks))
      if (!found.has(finding.key)) found.set(finding.key, { ...finding, line: finding.line + line - 1 });
    if (found.size >= MAX_FINDINGS) break;
    const rest = Math.max(0, data.length - OVERLAP_BYTES);
    line += lineEnds(data, rest);
    tail = data.subarray(rest);
  }
  return [...found.values()].sort((a, b) => a.line - b.line);
}

async function inPiece(data: Buffer, { forms }: Wanted, looks: boolean): Promise<Finding[]> {
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
    const kind = `${ruleId.replace(/^.*secretlint-rule-/, "")}: ${messageId}`;
    const key = `${kind} ${content.slice(...range)}`;
    found.push({ line: loc.start.line, what: `what looks like a secret (${kind})`, key });
  }
  return found;
}

function lineEnds(data: Buffer, before: number): number {
  let count = 0;
  for (let at = data.indexOf(0x0a); at >= 0 && at < before; at = data.indexOf(0x0a, at + 1)) count += 1;
  return count;
}
