// Puts the files of a tree on the disk through an index of ours, which then knows their stat data: a later
// capture reads only what was touched since. Filters are not run: files are as the tree stores them (case 02).

import { copyFile, stat, utimes } from "node:fs/promises";
import { faultPoint } from "../schemas/fault-points.ts";
import { type Control, controlGit } from "./control.ts";
import { type GitPlace, placeGit, placeOptions } from "./place-git.ts";

/** Our index in it is made here. */
export interface Checkout extends GitPlace {
  tree: string;
}

export async function checkoutFull(control: Control, place: Checkout): Promise<void> {
  faultPoint("scheduler.checkout.before-full");
  await placeGit(control, ["read-tree", "--reset", "-u", place.tree], place);
}

/** Only `paths` are put on the disk; all others are marked as absent on purpose (skip-worktree). */
export async function checkoutSparse(
  control: Control,
  place: Checkout,
  paths: readonly string[],
): Promise<void> {
  const options = placeOptions(place);
  faultPoint("scheduler.checkout.before-sparse-index");
  await controlGit(control, ["read-tree", place.tree], options);
  const all = await controlGit(control, ["ls-files", "-z"], { ...options, encoding: "buffer" });
  faultPoint("scheduler.checkout.before-skip-all");
  await controlGit(control, ["update-index", "-z", "--skip-worktree", "--stdin"], {
    ...options,
    input: all.stdoutBuffer,
  });
  if (paths.length === 0) return;
  const present = new Set(all.stdoutBuffer.toString("utf8").split("\0"));
  const input = paths
    .filter((path) => present.has(path))
    .map((path) => `${path}\0`)
    .join("");
  faultPoint("scheduler.checkout.before-take-some");
  await controlGit(control, ["update-index", "-z", "--no-skip-worktree", "--stdin"], { ...options, input });
  faultPoint("scheduler.checkout.before-write-some");
  await controlGit(control, ["checkout-index", "-q", "-u", "-z", "--stdin"], { ...options, input });
}

/** The same stat data for the index that git in the place itself uses. */
export function giveIndex(index: string, gitDir: string): Promise<void> {
  return copyIndex(index, `${gitDir}/index`);
}

/**
 * Copies an index with its time. Git trusts the stat data of a file only when the file is older than the index, to the
 * second in most builds: under a younger copy, a change made in the second of the checkout that keeps the size
 * would not be seen.
 */
export async function copyIndex(from: string, to: string): Promise<void> {
  faultPoint("scheduler.checkout.before-give-index");
  await copyFile(from, to);
  const { atime, mtimeMs } = await stat(from);
  faultPoint("scheduler.checkout.before-date-index");
  await utimes(to, atime, new Date(Math.floor(mtimeMs)));
}
