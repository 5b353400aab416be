// Removes the oldest closed files of the journal that the configuration's `audit` does not keep (outlived.ts decides). Only
// packed files that lie wholly before the checkpoint; the newest file always stays.
//
// 1. What goes is proven and replayed once more, from the beginning on: a damaged journal stays as it is, and is said.
// 2. The removal is recorded in the journal itself, durable.
// 3. The new beginning (beginning.ts) takes the place of the old one, durable. From here on the proof begins there, and
//    files before it do not count.
// 4. The files go, oldest first.
// Age is measured against a time that the log bears out, not against the clock alone (borne-out.ts): one that is set far ahead
// removes nothing. A crash after 2 leaves all as it was, but for a record that will stand there twice; after 3, the next turn does the rest.

import { join } from "node:path";
import { faultPoint } from "../../schemas/fault-points.ts";
import { Base } from "./base.ts";
import { isDraft, readBeginning, writeBeginning } from "./beginning.ts";
import { type Disk, removeFile } from "./disk.ts";
import { isErrno } from "./errno.ts";
import type { Beginning, Position, Retire } from "./journal.ts";
import { parseLine, START, scan } from "./journal-scan.ts";
import type { WriterPorts } from "./journal-writer.ts";
import { type OldFile, outlived } from "./outlived.ts";
import { type Member, members, PackedFault, unpack } from "./packed.ts";
import { Rarely } from "./rarely.ts";
import { replay } from "./replay.ts";
import { indexPath, listSegments, packedPath, type Segment, segmentPath } from "./segments.ts";

interface Closed extends OldFile {
  /** Its last record. */
  last: number;
}

/** Why nothing is removed. */
class Kept extends Error {}

const NEWLINE = 10;
const FIRST_PAUSE_MS = 60_000;
const LONGEST_PAUSE_MS = 3_600_000;

export class Retention {
  #stopped = false;
  /** After a failure: the next try, by the clock that never jumps. A proof of all that goes is dear. */
  #notBefore = Number.NEGATIVE_INFINITY;
  #pause = 0;
  readonly #doubted = new Rarely();
  /** Closed files do not change. */
  readonly #known = new Map<number, Closed>();

  constructor(
    private readonly ports: WriterPorts,
    public beginning: Beginning | undefined,
  ) {}

  stop(): void {
    this.#stopped = true;
  }

  /**
   * Removes what goes of the files before this place. Never fails: what could not be removed is said, stays, and is tried
   * again at an occasion after a pause that grows.
   */
  async run(before: Position, retire: Retire): Promise<void> {
    if (this.#stopped || this.ports.monotonic() < this.#notBefore) return;
    try {
      await this.#removeFiles();
      await this.#removeOutlived(before, retire);
      this.#pause = 0;
    } catch (error) {
      if (!this.#stopped) this.#later((error as Error).message);
    }
  }

  #later(why: string): void {
    this.#pause = Math.min(Math.max(FIRST_PAUSE_MS, this.#pause * 2), LONGEST_PAUSE_MS);
    this.#notBefore = this.ports.monotonic() + this.#pause;
    this.ports.log.warn("old records of the journal were not removed", {
      why,
      again_in_s: this.#pause / 1000,
    });
  }

  async #removeOutlived(before: Position, retire: Retire): Promise<void> {
    const { keep, now, record } = retire;
    const { disk, dir } = this.ports;
    const segments = await listSegments(disk, dir);
    const open = segments.findIndex(({ first, packed }) => !packed || first >= before.segment);
    const closed: Closed[] = [];
    for (const segment of segments.slice(0, Math.max(open, 0))) closed.push(await this.#look(segment));
    let rest = 0;
    for (const segment of segments.slice(closed.length)) rest += await sizeOf(disk, segment.path);
    const found = outlived(keep, now(), closed, rest) && (await this.#borneOut(closed, rest, retire));
    if (!found) return;
    const { last, newest } = closed[found.count - 1] as Closed;
    const { base, mac } = await this.#prove(last);
    const from = (this.beginning?.place.seq ?? 0) + 1;
    const { rule } = found;
    faultPoint("bus.retention.before-record");
    const at = await record({ type: "journal.removed", from, to: last, rule });
    faultPoint("bus.retention.before-beginning");
    await writeBeginning(this.ports, base, { to: last, newest, at, rule }, mac);
    this.beginning = await readBeginning(this.ports);
    if (this.beginning?.place.seq !== last)
      throw new Kept("the beginning that was written cannot be read back");
    this.ports.log.info("old records of the journal are removed", { from, to: last, rule });
    await this.#removeFiles();
  }

  /** What goes by the time that is believed. */
  async #borneOut(closed: readonly Closed[], rest: number, { keep, now, believed }: Retire) {
    const [at, wall] = [await believed(() => this.#stopped), now()];
    if (at < wall && !this.#stopped && this.#doubted.isNews("clock", this.ports.monotonic()))
      this.ports.log.warn("the clock is far ahead of the records: old ones go only as if it were", {
        at: new Date(at).toISOString(),
        clock: new Date(wall).toISOString(),
      });
    return outlived(keep, at, closed, rest);
  }

  /** Files before the beginning, and what a crash left of one that was being written. */
  async #removeFiles(): Promise<void> {
    const { disk, dir } = this.ports;
    for (const name of await disk.list(dir)) if (isDraft(name)) await removeFile(disk, join(dir, name));
    const upTo = this.beginning?.place.seq ?? 0;
    const gone = (await listSegments(disk, dir)).filter(({ first }) => first <= upTo);
    for (const { first } of gone) {
      for (const path of [segmentPath(dir, first), packedPath(dir, first), indexPath(dir, first)])
        await removeFile(disk, path);
      this.#known.delete(first);
    }
    if (gone.length === 0) return;
    faultPoint("bus.retention.before-sync-directory");
    await disk.syncDir(dir);
  }

  async #look({ first, path }: Segment): Promise<Closed> {
    const known = this.#known.get(first);
    if (known) return known;
    const { disk, dir } = this.ports;
    const file = await disk.open(path, "r");
    try {
      let newest: Member | undefined;
      for await (const member of members(file)) newest = member;
      if (!newest) throw new Kept(`${path} is empty`);
      const lines = await unpack(file, newest);
      const { seq, ts } = parseLine(lines.subarray(lines.lastIndexOf(NEWLINE, -2) + 1, -1));
      const bytes = newest.offset + newest.size + (await sizeOf(disk, indexPath(dir, first)));
      const looked = { last: seq, newest: ts, bytes };
      this.#known.set(first, looked);
      return looked;
    } catch (error) {
      throw error instanceof PackedFault
        ? new Kept(`the journal is damaged: ${path}: ${error.message}`)
        : error;
    } finally {
      await file.close();
    }
  }

  /** The state after record `until`, and its mac. */
  async #prove(until: number): Promise<{ base: Base; mac: string }> {
    const { disk, dir, key } = this.ports;
    const base = new Base();
    this.beginning?.fill(base);
    const onLine = (line: Buffer) => {
      if (this.#stopped) throw new Kept("the bus is ending");
      replay(base, parseLine(line));
    };
    const { end, damage } = await scan({
      disk,
      dir,
      key,
      from: this.beginning?.place ?? START,
      until,
      onLine,
    });
    if (damage) throw new Kept(`the journal is damaged: ${damage.file} line ${damage.line}: ${damage.why}`);
    if (end.seq !== until) throw new Kept(`it ends with record ${end.seq}, not ${until}`);
    return { base, mac: end.mac };
  }
}

async function sizeOf(disk: Disk, path: string): Promise<number> {
  try {
    const file = await disk.open(path, "r");
    return await file
      .stat()
      .then(({ size }) => size)
      .finally(() => file.close());
  } catch (error) {
    if (isErrno(error, "ENOENT")) return 0;
    throw error;
  }
}
