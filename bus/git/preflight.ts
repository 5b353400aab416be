// What is looked at before a run is submitted, so that it is refused whole or warned about, never found by an
// agent. In order: room for our refs (11), objects of a partial clone (06), submodules (01), filters (02), links
// that leave the repository (45). Nothing is changed but for objects fetched into a partial clone.

import type { RepoFacts } from "./facts.ts";
import { linkFault } from "./names.ts";
import { completeTree } from "./partial.ts";
import { refuseClash } from "./ref-clash.ts";
import { type GitOptions, git } from "./run.ts";
import { submodulesOf } from "./submodules.ts";
import { GITLINK, LINK, parseTree, showName, type TreeEntry } from "./tree.ts";

/** Names in one warning. */
const SHOWN = 5;
/** Links and attribute files read. */
const MAX_READ = 5_000;

/** Errors: REF_CLASH, OBJECTS_UNREACHABLE, SUBMODULE_MISSING. Warnings are sentences for people. */
export async function preflight(
  facts: RepoFacts,
  base: string,
  run: string,
): Promise<{ warnings: string[] }> {
  const repo: GitOptions = { gitDir: facts.commonDir };
  await refuseClash(repo, run);
  await completeTree(facts, base);
  const listed = await git(["ls-tree", "-r", "-z", "--full-tree", base], { ...repo, encoding: "buffer" });
  const entries = parseTree(listed.stdoutBuffer);
  const warnings: string[] = [];
  const links = entries.filter(({ mode }) => mode === GITLINK).map(({ name }) => showName(name));
  if (links.length > 0) {
    const found = new Set((await submodulesOf(facts, base)).map(({ path }) => path));
    const empty = links.filter((path) => !found.has(path));
    if (empty.length > 0) warnings.push(`directories of submodules that stay empty: ${some(empty)}`);
  }
  warnings.push(...(await filterWarnings(repo, entries)), ...(await linkWarnings(repo, entries)));
  return { warnings };
}

async function filterWarnings(repo: GitOptions, entries: TreeEntry[]): Promise<string[]> {
  const files = entries.filter(({ name }) => /(^|\/)\.gitattributes$/.test(name));
  const found = new Set<string>();
  for (const text of (await blobs(repo, files)).values()) {
    for (const line of text.split("\n")) {
      const [, pattern, filter] = /^\s*([^#\s]\S*)\s.*?\bfilter=(\S+)/.exec(line) ?? [];
      if (pattern !== undefined) found.add(`${pattern} (filter ${filter})`);
    }
  }
  if (found.size === 0) return [];
  return [
    `filters are not run: agents and checks get these files as git stores them (for LFS: pointers): ${some([...found])}`,
  ];
}

async function linkWarnings(repo: GitOptions, entries: TreeEntry[]): Promise<string[]> {
  const links = entries.filter(({ mode }) => mode === LINK);
  const targets = await blobs(repo, links);
  const leaving = links.flatMap(({ name, oid }) => {
    const target = targets.get(oid);
    const path = showName(name);
    return target !== undefined && linkFault(path, target) !== undefined ? [`${path} -> ${target}`] : [];
  });
  if (leaving.length === 0) return [];
  return [
    `links in the repository lead out of it; what is written through them is not seen: ${some(leaving)}`,
  ];
}

function some(names: string[]): string {
  const more = names.length - SHOWN;
  return names.slice(0, SHOWN).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

/** Contents by id (small blobs; text). */
async function blobs(repo: GitOptions, entries: TreeEntry[]): Promise<Map<string, string>> {
  const oids = [...new Set(entries.map(({ oid }) => oid))].slice(0, MAX_READ);
  const found = new Map<string, string>();
  if (oids.length === 0) return found;
  const { stdoutBuffer: out } = await git(["cat-file", "--batch"], {
    ...repo,
    input: `${oids.join("\n")}\n`,
    encoding: "buffer",
  });
  for (let at = 0; at < out.length; ) {
    const end = out.indexOf("\n", at);
    const [oid = "", type, size = "0"] = out.toString("latin1", at, end).split(" ");
    at = end + 1;
    if (type === "missing" || type === undefined) continue;
    found.set(oid, out.toString("utf8", at, at + Number(size)));
    at += Number(size) + 1;
  }
  return found;
}
