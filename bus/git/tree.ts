// Git's machine formats for trees and differences, NUL-separated. Names are bytes: they are kept as
// `latin1` strings until somebody asks for text, so that a name that is not UTF-8 is not lost or confused.

export interface TreeEntry {
  mode: string;
  type: string;
  oid: string;
  /** Bytes as latin1; see `pathText`. */
  name: string;
}

/** `git ls-tree -r -z`. */
export function parseTree(output: Buffer): TreeEntry[] {
  const entries: TreeEntry[] = [];
  for (const record of splitNul(output)) {
    const tab = record.indexOf("\t");
    const [mode = "", type = "", oid = ""] = record.slice(0, tab).split(" ");
    entries.push({ mode, type, oid, name: record.slice(tab + 1) });
  }
  return entries;
}

export interface RawChange {
  oldMode: string;
  mode: string;
  oldOid: string;
  oid: string;
  status: string;
  name: string;
}

/** `--raw -z` without renames: `:old new oldoid oid S\0path\0`. */
export function parseRaw(output: Buffer): RawChange[] {
  const parts = splitNul(output);
  const changes: RawChange[] = [];
  for (let i = 0; i + 1 < parts.length; i += 2) {
    const [oldMode = "", mode = "", oldOid = "", oid = "", status = ""] = parts[i]!.slice(1).split(" ");
    changes.push({ oldMode, mode, oldOid, oid, status: status[0] ?? "", name: parts[i + 1]! });
  }
  return changes;
}

/** The records of NUL-separated output, as latin1. */
export function splitNul(output: Buffer): string[] {
  if (output.length === 0) return [];
  const parts = output.toString("latin1").split("\0");
  if (parts.at(-1) === "") parts.pop();
  return parts;
}

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The text of a name in bytes, or undefined when it is not UTF-8. */
export function pathText(name: string): string | undefined {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the ASCII range is meant
  if (/^[\x00-\x7f]*$/.test(name)) return name;
  try {
    return strict.decode(Buffer.from(name, "latin1"));
  } catch {
    return undefined;
  }
}

/** The bytes (as latin1) of a path in text. */
export function pathBytes(path: string): string {
  return Buffer.from(path, "utf8").toString("latin1");
}

/** A name that is not UTF-8 for people: foreign bytes as \xNN. */
export function showName(name: string): string {
  return (
    pathText(name) ??
    name.replace(/[^\x20-\x7e]/g, (c) => `\\x${c.charCodeAt(0).toString(16).padStart(2, "0")}`)
  );
}

export const LINK = "120000";
export const GITLINK = "160000";
export const EXECUTABLE = "100755";
export const REGULAR = "100644";
