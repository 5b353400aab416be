// The secret of a bus: 32 random bytes in <bus dir>/key (0600), made once. It seals the journal and signs tokens.
//
// 1. It is taken only as a plain file that belongs to whom the directory belongs to and that nobody else can read: whoever
//    knows the key can forge the journal unseen.
// 2. A key that is missing is made only where nothing is there yet that another one sealed.
// 3. A key that is whole may still be the wrong one (restored from another backup). Then every record fails, from the first:
//    that is the key's fault and not the journal's, and nothing may be taken out of the journal for it.

import { randomBytes } from "node:crypto";
import { dirname, join } from "node:path";
import { BusbarError, ioError, isCode } from "../../schemas/errors.ts";
import { faultPoint } from "../../schemas/fault-points.ts";
import { claimedMac, FIRST_MAC, follows } from "./chain.ts";
import { type Disk, type Looked, readWhole, writeWhole } from "./disk.ts";
import { isSealed } from "./durable-document.ts";
import { PackedFault } from "./packed.ts";
import { listSegments, readLines } from "./segments.ts";

const KEY_BYTES = 32;
/** Modes that a key may have. */
const CLOSED = [0o600, 0o400];

/** Reads the key, or makes it where `fresh` says that there is no journal yet that another key sealed. Throws KEY_UNUSABLE. */
export async function loadKey(disk: Disk, dir: string, fresh: boolean): Promise<Buffer> {
  const path = join(dir, "key");
  const facts = await disk.look(path);
  if (facts) checkClosed(path, facts, (await disk.look(dir))?.uid);
  const there = facts && (await readWhole(disk, path));
  const whole = there?.length === KEY_BYTES;
  if (!fresh) {
    if (whole) return there;
    throw unusable(path, there ? `has ${there.length} bytes instead of ${KEY_BYTES}` : "is missing");
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

function checkClosed(path: string, { kind, uid, mode }: Looked, owner: number | undefined): void {
  const refuse = (why: string, help: string) =>
    new BusbarError("KEY_UNUSABLE", `the key ${path} ${why}: it is not used`, { path, help });
  if (kind !== "file")
    throw refuse(
      kind === "link" ? "is a symbolic link" : "is not a file",
      "Put the key itself there: a plain file of yours with mode 0600.",
    );
  if (owner !== undefined && uid !== owner)
    throw refuse(
      `belongs to user ${uid}, its directory to user ${owner}`,
      `If you know how that came about: \`chown ${owner} '${path}'\`. If not, whoever owns it can forge the audit log.`,
    );
  if (!CLOSED.includes(mode))
    throw refuse(
      `has mode ${mode.toString(8).padStart(4, "0")} instead of 0600`,
      `\`chmod 600 '${path}'\`. Whoever could read it until now could have forged the audit log.`,
    );
}

/** Says what brings the state back; `repair` cannot, and is not named. */
function unusable(path: string, why: string): BusbarError {
  return new BusbarError(
    "KEY_UNUSABLE",
    `the key ${path} ${why}: nothing of the journal beside it can be proven without the key that sealed it; nothing was changed`,
    {
      path,
      help: `Bring that key back from a backup. If it is lost for good, move ${dirname(path)} away: the next start begins with an empty state, and says so.`,
    },
  );
}

/** Lines of each file that are looked at, and things that must all fail before the key is blamed. */
const LOOKED = 100;
const ENOUGH = 2;

/** The error of a start or a repair: where all fails from the first record on because the key is another, it says that. */
export async function orWrongKey(disk: Disk, dir: string, key: Buffer, error: unknown): Promise<unknown> {
  if (!isCode(error, "JOURNAL_DAMAGED") || error.data.seq !== 1) return error;
  return (await isWrongKey(disk, dir, key)) ? unusable(join(dir, "key"), "does not fit") : error;
}

/** One of two neighbours was sealed behind the other, in whichever order they stand now, or this one begins a journal. */
function fits(key: Buffer, previous: Buffer | undefined, line: Buffer): boolean {
  const behind = (mac: string | undefined, bytes: Buffer) =>
    mac !== undefined && follows(key, mac, bytes) !== undefined;
  if (behind(FIRST_MAC, line)) return true;
  return previous !== undefined && (behind(claimedMac(previous), line) || behind(claimedMac(line), previous));
}

/** Nothing that is there was sealed with this key, and enough was sealed with some key. */
export async function isWrongKey(disk: Disk, dir: string, key: Buffer): Promise<boolean> {
  let failed = 0;
  for (const name of ["checkpoint/_meta.json", "journal/beginning.json"]) {
    const bytes = await readWhole(disk, join(dir, name));
    const sealed = bytes && isSealed(key, bytes);
    if (sealed) return false;
    if (sealed === false) failed += 1;
  }
  for (const segment of await listSegments(disk, join(dir, "journal"))) {
    let previous: Buffer | undefined;
    let looked = 0;
    try {
      looking: for await (const page of readLines(disk, segment))
        for (const { bytes } of page) {
          if (fits(key, previous, bytes)) return false;
          if (previous && claimedMac(bytes) !== undefined) failed += 1;
          // The bytes of a page are not kept.
          previous = Buffer.from(bytes);
          if (++looked === LOOKED) break looking;
        }
    } catch (error) {
      if (!(error instanceof PackedFault)) throw error; // what cannot be read says nothing about the key
    }
  }
  return failed >= ENOUGH;
}
