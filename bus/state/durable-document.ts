// A JSON document on the disk: lowdb's adapter, made durable and sliced. Unique temporary file, fsync, rename, fsync of the
// directory. The last member is its mac by the bus's key: a byte that was changed makes it unreadable, not another state.
// Documents of older versions have none. The text is made in slices, each a few milliseconds.

import { createHmac, type Hmac } from "node:crypto";
import { basename, dirname, join } from "node:path";
import type { Adapter } from "lowdb";
import { BusbarError, ioError } from "../../schemas/errors.ts";
import { faultPoint } from "../../schemas/fault-points.ts";
import { STATE_VERSION } from "../../schemas/limits.ts";
import { type Disk, readWhole, writeAll } from "./disk.ts";

/** How long one slice of stringify may hold the loop. */
const SLICE_MS = 2;
/** Text gathered before it is handed to the disk. */
const WRITE_CHARS = 1024 * 1024;

export interface DocumentPorts {
  disk: Disk;
  dir: string;
  key: Buffer;
  monotonic(): number;
}

/** lowdb's adapter, made durable and sliced. `lists` names the members that are long arrays. */
export class DurableFile<T extends { v?: number }> implements Adapter<T> {
  constructor(
    private readonly ports: DocumentPorts,
    private readonly path: string,
    private readonly lists: readonly (keyof T & string)[],
    private readonly seal: "always" | "or older" = "or older",
  ) {}

  async read(): Promise<T | null> {
    const bytes = await readWhole(this.ports.disk, this.path);
    if (!bytes) return null;
    const doc = JSON.parse(bytes.toString("utf8")) as T;
    checkVersion(doc.v ?? 0, this.ports.dir); // first: a newer version may seal in another way
    this.prove(bytes);
    return doc;
  }

  private prove(bytes: Buffer): void {
    const sealed = isSealed(this.ports.key, bytes);
    if (sealed === false) throw new Error(`${this.path} was changed: its mac does not match`);
    if (sealed === undefined && this.seal === "always") throw new Error(`${this.path} has no mac at its end`);
  }

  async write(data: T): Promise<void> {
    const { disk } = this.ports;
    const dir = dirname(this.path);
    const temporary = join(dir, `.${basename(this.path)}.${process.pid}-${tempCount++}.tmp`);
    try {
      faultPoint("bus.checkpoint.before-open");
      const file = await disk.open(temporary, "wx", 0o600);
      try {
        let position = 0;
        const put = async (text: string, hmac?: Hmac) => {
          const bytes = Buffer.from(text, "utf8");
          hmac?.update(bytes);
          faultPoint("bus.checkpoint.before-write");
          await writeAll(file, bytes, position);
          position += bytes.length;
        };
        const hmac = createHmac("sha256", this.ports.key);
        for await (const text of this.slices(data)) await put(text, hmac);
        await put(`,"mac":"${macOf(hmac)}"}\n`);
        faultPoint("bus.checkpoint.before-sync");
        await file.sync();
      } finally {
        await file.close();
      }
      faultPoint("bus.checkpoint.before-rename");
      await disk.rename(temporary, this.path);
      faultPoint("bus.checkpoint.before-sync-directory");
      await disk.syncDir(dir);
    } catch (error) {
      faultPoint("bus.checkpoint.before-clean-up");
      await disk.unlink(temporary).catch(() => {});
      throw ioError("writing the checkpoint", this.path, error, "STORAGE");
    }
  }

  /** The text without its last brace. */
  private async *slices(data: T): AsyncGenerator<string> {
    const small = Object.fromEntries(Object.entries(data).filter(([k]) => !this.isList(k)));
    let text = JSON.stringify(small).slice(0, -1);
    let began = this.ports.monotonic();
    for (const name of this.lists) {
      text += `,${JSON.stringify(name)}:[`;
      const items = data[name] as unknown[];
      for (let i = 0; i < items.length; i++) {
        text += `${i === 0 ? "\n" : ",\n"}${JSON.stringify(items[i])}`;
        if (this.ports.monotonic() - began < SLICE_MS) continue;
        if (text.length > WRITE_CHARS) {
          yield text;
          text = "";
        } else await new Promise((resolve) => setImmediate(resolve));
        began = this.ports.monotonic();
      }
      text += "]";
    }
    yield text;
  }

  private isList(key: string): boolean {
    return (this.lists as readonly string[]).includes(key);
  }
}
let tempCount = 0;

const SEAL = /^,"mac":"([0-9a-f]{32})"\}\n$/;
const SEAL_LENGTH = ',"mac":""}\n'.length + 32;

/** Whether this key sealed a document as it is; undefined where it bears no mac. */
export function isSealed(key: Buffer, bytes: Buffer): boolean | undefined {
  const claimed = SEAL.exec(bytes.toString("latin1", Math.max(0, bytes.length - SEAL_LENGTH)))?.[1];
  if (claimed === undefined) return undefined;
  const text = bytes.subarray(0, bytes.length - SEAL_LENGTH);
  return macOf(createHmac("sha256", key).update(text)) === claimed;
}

function macOf(hmac: Hmac): string {
  return hmac.digest("hex").slice(0, 32);
}

function checkVersion(v: number, dir: string): void {
  if (v > STATE_VERSION) {
    throw new BusbarError("STATE_TOO_NEW", `${dir} was written in version ${v}; this is ${STATE_VERSION}`, {
      version: v,
      known: STATE_VERSION,
    });
  }
}
