// The patch of a task under `output/` (for people and other tools): the whole change against its base, with binary
// content, usable by `git apply` at the top of the repository (case 10).

import { mkdirSync } from "node:fs";
import { rename, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { ioError } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import { type Control, controlGit } from "./control.ts";

export interface PatchOrder {
  control: Control;
  base: string;
  commit: string;
  /** Where it goes; the directory is made. */
  file: string;
}

/** Before the first `diff --git` git skips text. */
const HEAD = (order: PatchOrder) =>
  `Change of ${order.commit} against ${order.base}.
Paths start at the top of the repository; below it \`git apply\` leaves files out without a word. So:
  git -C "$(git rev-parse --show-toplevel)" apply FILE

`;

/** Writes the patch; gives its size in bytes (0 and no file when nothing changed). */
export async function writePatch(order: PatchOrder): Promise<number> {
  const { stdoutBuffer } = await controlGit(
    order.control,
    [
      "diff-tree",
      "-p",
      "-r",
      "--binary",
      "--full-index",
      "--no-renames",
      "--no-ext-diff",
      "--no-textconv",
      "--no-color",
      "--src-prefix=a/",
      "--dst-prefix=b/",
      order.base,
      order.commit,
    ],
    { encoding: "buffer" },
  );
  if (stdoutBuffer.length === 0) return 0;
  const text = Buffer.concat([Buffer.from(HEAD(order)), stdoutBuffer]);
  try {
    faultPoint("scheduler.patch.before-make-directory");
    mkdirSync(dirname(order.file), { recursive: true, mode: 0o700 });
    faultPoint("scheduler.patch.before-write");
    await writeFile(`${order.file}.new`, text, { mode: 0o600 });
    faultPoint("scheduler.patch.before-rename");
    await rename(`${order.file}.new`, order.file);
  } catch (error) {
    faultPoint("scheduler.patch.before-clean-up");
    await rm(`${order.file}.new`, { force: true });
    throw ioError("writing the patch", order.file, error);
  }
  return text.length;
}
