// What an attempt changed outside its scope. It is in no git object (a secret must not get into one), so it is shown from
// the files that the attempt left: its workspace, or the archive of it.
//
// 1. The settlement names the paths; those that the commit does not hold are looked for on the disk.
// 2. Base and left file are copied into a private directory, never through a link of the agent's, and at most
//    MAX_SHOWN_BYTES each; git compares them there. The directory goes again.
// 3. What cannot be shown is named with the reason.

import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { whyNoGrant } from "../../schemas/grantable.ts";
import { type AttemptRecord, type Run, SECRET_SUMMARY, type Task } from "../../schemas/task.ts";
import { git } from "../git/run.ts";
import { oneLine } from "./render/width.ts";

const MAX_SHOWN_BYTES = 1024 * 1024;

export interface Outside {
  /** Paths that broke the scope; none for an attempt that kept it. */
  paths: string[];
  /** All that is wrong with them is that they hold secrets. */
  secret: boolean;
  /** Where the files are that the attempt left; undefined: nowhere any more. */
  place: string | undefined;
}

/** Of an attempt that was stopped for its scope. */
export function outsideOf({ result, evidence, workspace }: AttemptRecord): Outside {
  const paths = result === "scope" ? (evidence?.paths ?? []) : [];
  const state = dirname(dirname(dirname(workspace)));
  const archive = join(state, "archive", basename(dirname(workspace)), basename(workspace), "left");
  const secret = evidence?.summary.startsWith(SECRET_SUMMARY) ?? false;
  return { paths, secret, place: [join(workspace, "work"), archive].find((dir) => existsSync(dir)) };
}

/** What a person can do about them: a grant is advised only where it changes something. */
export function grantLines(run: Run, { spec }: Task, { paths, secret }: Outside): string[] {
  if (secret) return ["they hold secrets; a grant does not help"];
  const kept = { protect: run.spec.protect, forbidden: spec.forbidden_files };
  const held = paths.flatMap((path) => {
    const why = whyNoGrant(path, kept)?.why;
    return why === undefined ? [] : [`no grant helps ${oneLine(path)}: ${why}`];
  });
  const name = `${run.run}/${spec.id}`;
  return held.length === paths.length
    ? held
    : [`to allow one: busctl grant ${name} PATH; then busctl retry ${name}`, ...held];
}

export interface OutsideDiff {
  /** As git writes it, with the options given. */
  diff: Buffer;
  /** Paths that could not be shown, and why. */
  unseen: { path: string; why: string }[];
}

/** Base against what was left, for paths that the commit does not hold. */
export async function outsideDiff(
  commonDir: string,
  base: string,
  { paths, place }: Outside,
  options: string[],
): Promise<OutsideDiff> {
  if (place === undefined)
    return { diff: Buffer.alloc(0), unseen: paths.map((path) => ({ path, why: "its workspace is gone" })) };
  const dir = mkdtempSync(join(tmpdir(), "busctl-diff-"));
  try {
    const unseen: OutsideDiff["unseen"] = [];
    for (const side of ["a", "b"]) mkdirSync(join(dir, side));
    for (const path of paths) {
      const why = takeLeft(place, path, join(dir, "b", path));
      if (why !== undefined) unseen.push({ path, why });
      else await takeBase(commonDir, base, path, join(dir, "a", path));
    }
    const words = ["diff", "--no-index", "--no-ext-diff", "--no-textconv", "--src-prefix=", "--dst-prefix="];
    const told = await git([...words, ...options, "a", "b"], {
      cwd: dir,
      encoding: "buffer",
      okExits: [0, 1],
    });
    return { diff: named(told.stdoutBuffer), unseen };
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** Of a file that is on one side only, git names that side twice; and it takes the two folders for part of the names. */
function named(diff: Buffer): Buffer {
  const text = diff
    .toString("latin1")
    // biome-ignore lint/suspicious/noControlCharactersInRegex: git's own colours
    .replace(/^((?:\x1b\[[0-9;]*m)*)diff --git ("?)[ab]\/(.+) ("?)[ab]\//gm, "$1diff --git $2a/$3 $4b/")
    .replace(/^ (?:\{a => b\}\/|\/dev\/null => b\/|a\/)(.+?)(?: => \/dev\/null)? +\| /gm, " $1 | ");
  return Buffer.from(text, "latin1");
}

async function takeBase(commonDir: string, base: string, path: string, to: string): Promise<void> {
  const entry = await git(["ls-tree", "-z", "--full-tree", base, "--", path], { gitDir: commonDir });
  const [mode = "", , oid = ""] = (entry.stdout.split("\t")[0] ?? "").split(" ");
  if (!/^1[02]0/.test(mode)) return;
  const { stdoutBuffer } = await git(["cat-file", "blob", oid], { gitDir: commonDir, encoding: "buffer" });
  mkdirSync(dirname(to), { recursive: true });
  if (mode === "120000") symlinkSync(stdoutBuffer, to);
  else writeFileSync(to, stdoutBuffer, { mode: mode === "100755" ? 0o755 : 0o644 });
}

/** Why it cannot be shown, or undefined; a path that is not there was deleted. */
function takeLeft(place: string, path: string, to: string): string | undefined {
  try {
    const top = realpathSync(place);
    const folder = realpathSync(dirname(join(top, path)));
    if (folder !== top && !folder.startsWith(`${top}/`))
      return "a folder of it is a link out of the workspace";
    const from = join(folder, basename(path));
    const stats = lstatSync(from);
    if (!stats.isFile() && !stats.isSymbolicLink()) return "it is no file";
    if (stats.size > MAX_SHOWN_BYTES)
      return `it has ${stats.size} bytes, at most ${MAX_SHOWN_BYTES} are shown`;
    mkdirSync(dirname(to), { recursive: true });
    if (stats.isSymbolicLink()) symlinkSync(readlinkSync(from, "buffer"), to);
    else {
      writeFileSync(to, readFileSync(from));
      chmodSync(to, (stats.mode & 0o111) === 0 ? 0o644 : 0o755);
    }
    return undefined;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    return `it could not be read (${code ?? String(error)})`;
  }
}
