// Sorts what was found touched: refused (no git object can or may hold it, or it is too much), outside the scope, or in
// scope. Sizes are the apparent ones and are judged before anything is read: a sparse file of terabytes costs nothing
// to make and hours to hash.

import { gitLikePart } from "../bus/git/names.ts";
import { pathText, showName } from "../bus/git/tree.ts";
import { MAX_ALLOWED_FILE_BYTES, MAX_CAPTURED_BYTES, MAX_CAPTURED_FILE_BYTES } from "../schemas/limits.ts";
import type { Scan, Touched } from "./capture-scan.ts";
import { hashAll, type WritePlace } from "./capture-write.ts";
import { controlGit } from "./control.ts";

export interface SortRules {
  /** Only these get into the commit. Default: all. */
  inScope?: (path: string) => boolean;
  /** Files above MAX_CAPTURED_FILE_BYTES that the spec allows by name; MAX_ALLOWED_FILE_BYTES holds for them, too. */
  allowLarge?: (path: string) => boolean;
  /** Paths (and what is below) that we put there ourselves: never part of the change. */
  exclude?: readonly string[];
}

export interface Refused {
  path: string;
  rule:
    | "not-utf8"
    | "oversize"
    | "special"
    | "nested-repository"
    | "gitlink"
    | "git-name"
    | "unaccounted"
    | "secret";
  why: string;
}

export interface Sorted {
  inside: Touched[];
  outside: Touched[];
  refused: Refused[];
}

/** `unchanged`: names of large files that are in the base with this content. */
export function sort(rules: SortRules, found: Scan, unchanged: ReadonlySet<string> = new Set()): Sorted {
  const sorted: Sorted = { inside: [], outside: [], refused: [] };
  const excluded = new Set(rules.exclude ?? []);
  const ours = (path: string) => excluded.size > 0 && withParents(path).some((part) => excluded.has(part));
  for (const item of found.touched) {
    const path = pathText(item.name);
    if (path !== undefined && ours(path)) continue;
    const refused = refusal(rules, item, path, unchanged.has(item.name));
    if (refused) sorted.refused.push(refused);
    else if (path !== undefined && (rules.inScope ?? (() => true))(path)) sorted.inside.push(item);
    else sorted.outside.push(item);
  }
  for (const name of found.nested) {
    if (ours(showName(name))) continue;
    sorted.refused.push({
      path: showName(name),
      rule: "nested-repository",
      why: "is a git repository of its own; its content cannot be part of the change",
    });
  }
  for (const name of found.gitlinks)
    sorted.refused.push({
      path: showName(name),
      rule: "gitlink",
      why: "the submodule's commit or directory changed",
    });
  return withinTotal(sorted);
}

/** A path and the directories that it is in. */
function withParents(path: string): string[] {
  const parts = path.split("/");
  return parts.map((_, n) => parts.slice(0, n + 1).join("/"));
}

function refusal(
  rules: SortRules,
  item: Touched,
  path: string | undefined,
  unchanged: boolean,
): Refused | undefined {
  if (path === undefined)
    return { path: showName(item.name), rule: "not-utf8", why: "the path is not UTF-8" };
  const part = gitLikePart(path);
  if (part !== undefined)
    return { path, rule: "git-name", why: `${JSON.stringify(part)} means .git on some file systems` };
  if (item.disk.is === "special") return { path, rule: "special", why: `is ${item.disk.what}` };
  const size = sizeOf(item);
  if (size <= MAX_CAPTURED_FILE_BYTES || unchanged) return undefined;
  if (size > MAX_ALLOWED_FILE_BYTES)
    return tooLarge(path, `has ${size} bytes; more than ${MAX_ALLOWED_FILE_BYTES} are never taken`);
  if (rules.allowLarge?.(path)) return undefined;
  const why = `has ${size} bytes; more than ${MAX_CAPTURED_FILE_BYTES} need to be allowed by name`;
  return tooLarge(path, why);
}

function tooLarge(path: string, why: string): Refused {
  return { path, rule: "oversize", why };
}

function sizeOf({ disk }: Touched): number {
  return disk.is === "file" ? disk.size : 0;
}

/** What is read in all is bounded: the largest go first, until the rest fits. */
function withinTotal(sorted: Sorted): Sorted {
  const all = [...sorted.inside, ...sorted.outside];
  let total = all.reduce((sum, item) => sum + sizeOf(item), 0);
  if (total <= MAX_CAPTURED_BYTES) return sorted;
  const said = total;
  const gone = new Set<Touched>();
  for (const item of all.sort((a, b) => sizeOf(b) - sizeOf(a))) {
    if (total <= MAX_CAPTURED_BYTES) break;
    total -= sizeOf(item);
    gone.add(item);
  }
  const refused = [...gone].map((item) =>
    tooLarge(
      showName(item.name),
      `has ${sizeOf(item)} of ${said} changed bytes; more than ${MAX_CAPTURED_BYTES} in all are never taken`,
    ),
  );
  const stays = (item: Touched) => !gone.has(item);
  return {
    inside: sorted.inside.filter(stays),
    outside: sorted.outside.filter(stays),
    refused: [...sorted.refused, ...refused],
  };
}

/** Large files that only look touched: the base has them with this size and content. Reads no more than the base has. */
export async function unchangedLarge(
  place: WritePlace,
  touched: readonly Touched[],
): Promise<ReadonlySet<string>> {
  const large = touched.filter((item) => sizeOf(item) > MAX_CAPTURED_FILE_BYTES && item.oldOid !== "");
  if (large.length === 0) return new Set();
  const { stdout } = await controlGit(place.control, ["cat-file", "--batch-check=%(objectsize)"], {
    input: large.map((item) => `${item.oldOid}\n`).join(""),
  });
  const sizes = stdout.split("\n").map(Number);
  const same = large.filter((item, n) => sizes[n] === sizeOf(item));
  const { oids } = await hashAll(place, same, false);
  return new Set(same.filter((item) => oids.get(item.name) === item.oldOid).map((item) => item.name));
}
