// The secret of a bus: 32 random bytes in <bus dir>/key (0600), made once. It seals the journal and signs tokens.

import { randomBytes } from "node:crypto";
import { dirname, join } from "node:path";
import { BusbarError, ioError } from "../../schemas/errors.ts";
import { faultPoint } from "../../schemas/fault-points.ts";
import { type Disk, readWhole, writeWhole } from "./disk.ts";

const KEY_BYTES = 32;

/** Reads the key, or makes it where `fresh` says that there is no journal yet that another key sealed. */
export async function loadKey(disk: Disk, dir: string, fresh: boolean): Promise<Buffer> {
  const path = join(dir, "key");
  const there = await readWhole(disk, path);
  const whole = there?.length === KEY_BYTES;
  if (!fresh) {
    if (whole) return there;
    const why = there ? `has ${there.length} bytes instead of ${KEY_BYTES}` : "is missing";
    throw new BusbarError(
      "JOURNAL_DAMAGED",
      `the key ${path} ${why}; without it the journal beside it cannot be proven. Restore the key from a backup, or move the whole directory away to begin anew.`,
      { file: path },
    );
  }
  // A first start may have ended before the key was durable: it is made so before anything is sealed with it.
  const key = whole ? there : randomBytes(KEY_BYTES);
  const draft = `${path}.tmp`;
  try {
    faultPoint("bus.key.before-write");
    await writeWhole(disk, draft, key);
    faultPoint("bus.key.before-rename");
    await disk.rename(draft, path);
    for (const each of [dir, dirname(dir)]) {
      faultPoint("bus.key.before-sync-directory");
      await disk.syncDir(each);
    }
  } catch (error) {
    throw ioError("writing the key", path, error, "STORAGE");
  }
  return key;
}
