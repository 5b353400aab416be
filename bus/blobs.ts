// Blobs by object id, in the form in which they leave: JSON text as bytes, cached by size (design section 5).
//
// 1. Cached: the same Buffer goes into every answer. 2. Being read: the same read is shared.
// 3. Else read through cat-file, checked against the id before the first byte leaves, encoded once, cached.
//
// UTF-8 goes as text; anything else, and text whose escapes would not fit into a frame, goes as base64.

import { isUtf8 } from "node:buffer";
import { BusbarError } from "../schemas/errors.ts";
import { BLOB_CACHE_BYTES, MAX_BLOB_BYTES, MAX_FRAME_BYTES } from "../schemas/limits.ts";
import { isBlob } from "./blob-hash.ts";
import { CatFile, damaged } from "./cat-file.ts";

/** A blob ready to leave. */
export interface EncodedBlob {
  /** The content as JSON text, with its quotes. */
  json: Buffer;
  encoding: "utf8" | "base64";
  size: number;
}

/** What an entry costs beside its bytes. */
const ENTRY_BYTES = 200;

export class Blobs {
  readonly #objects: Pick<CatFile, "read" | "close">;
  readonly #maxCache: number;
  readonly #cache = new Map<string, EncodedBlob>();
  readonly #reading = new Map<string, Promise<EncodedBlob>>();
  #bytes = 0;

  constructor(objects: Pick<CatFile, "read" | "close">, maxCacheBytes = BLOB_CACHE_BYTES) {
    this.#objects = objects;
    this.#maxCache = maxCacheBytes;
  }

  static of(gitDir: string): Blobs {
    return new Blobs(new CatFile(gitDir, MAX_BLOB_BYTES));
  }

  /** The blob if it is cached: then an answer needs no waiting. */
  cached(oid: string): EncodedBlob | undefined {
    const blob = this.#cache.get(oid);
    if (!blob) return undefined;
    this.#cache.delete(oid); // a Map keeps its order: the newest use goes to the end
    this.#cache.set(oid, blob);
    return blob;
  }

  /** Throws OBJECT_MISSING, OBJECT_DAMAGED, NOT_A_FILE, FILE_TOO_LARGE, GIT_TIMEOUT. */
  get(oid: string): Promise<EncodedBlob> {
    const cached = this.cached(oid);
    if (cached) return Promise.resolve(cached);
    const known = this.#reading.get(oid);
    if (known) return known;
    const reading = this.#read(oid).finally(() => this.#reading.delete(oid));
    this.#reading.set(oid, reading);
    return reading;
  }

  close(): void {
    this.#objects.close();
  }

  get cacheBytes(): number {
    return this.#bytes;
  }

  async #read(oid: string): Promise<EncodedBlob> {
    const object = await this.#objects.read(oid);
    if (object.kind === "missing")
      throw new BusbarError("OBJECT_MISSING", `object ${oid} is not in the repository; run \`git fsck\``, {
        oid,
      });
    if (object.type !== "blob")
      throw new BusbarError("NOT_A_FILE", `object ${oid} is a ${object.type}`, { oid });
    if (object.kind === "too_large")
      throw new BusbarError(
        "FILE_TOO_LARGE",
        `the file has ${object.size} bytes, at most ${MAX_BLOB_BYTES} are answered`,
        { oid, size: object.size, limit: MAX_BLOB_BYTES },
      );
    if (!(await isBlob(oid, object.bytes))) throw damaged(oid, "its bytes do not match its hash");
    const blob = encode(object.bytes);
    this.#keep(oid, blob);
    return blob;
  }

  #keep(oid: string, blob: EncodedBlob): void {
    const cost = blob.json.length + ENTRY_BYTES;
    if (cost > this.#maxCache / 2) return; // it would throw out everything else
    this.#cache.set(oid, blob);
    this.#bytes += cost;
    for (const [oldest, old] of this.#cache) {
      if (this.#bytes <= this.#maxCache) break;
      this.#cache.delete(oldest);
      this.#bytes -= old.json.length + ENTRY_BYTES;
    }
  }
}

/** What an answer holds beside the content; ids are bounded, so this is plenty. */
const ENVELOPE_BYTES = 64 * 1024;

/** JSON text of the content. Base64 adds a third at most, so that every answer fits a frame. */
export function encode(bytes: Buffer): EncodedBlob {
  if (isUtf8(bytes)) {
    const json = Buffer.from(JSON.stringify(bytes.toString("utf8")));
    if (json.length <= MAX_FRAME_BYTES - ENVELOPE_BYTES)
      return { json, encoding: "utf8", size: bytes.length };
  }
  return { json: Buffer.from(`"${bytes.toString("base64")}"`), encoding: "base64", size: bytes.length };
}
