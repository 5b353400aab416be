// One persistent `git cat-file --batch` child: object ids in, objects out, in the order asked.
//
// 1. Started at the first request; requests are written as they come and answered in order (pipelined).
// 2. `<oid> missing` is an answer; git gives it for a loose object that it cannot unpack too, so the file is
//    looked for. A blob beyond `maxBytes` is an answer too: its bytes are not waited for, the
//    child is replaced.
// 3. When the child dies, the first unanswered request is the suspect: git ends at an object that it cannot
//    read. It is asked once more in a new child; if that dies too, the object is damaged. The others are asked
//    again without suspicion.
// 4. When nothing comes for STALL_MS, the child is ended and the suspect fails with GIT_TIMEOUT.
//
// Only full object ids reach git, never a revision expression (case 45 get-file-escape).

import { type ChildProcessByStdio, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { BusbarError } from "../schemas/errors.ts";
import { isOid } from "../schemas/ids.ts";
import { gitEnvironment } from "./git/env.ts";

/** A read this slow is no read any more: a stopped process, or a network disk that is gone. */
const STALL_MS = 20_000;
/** What of git's own words is kept for a message. */
const WORDS = 400;

export type GitObject =
  | { kind: "object"; type: string; bytes: Buffer }
  | { kind: "missing" }
  | { kind: "too_large"; type: string; size: number };

interface Request {
  oid: string;
  deaths: number;
  resolve(object: GitObject): void;
  reject(error: BusbarError): void;
}

type Child = ChildProcessByStdio<Writable, Readable, Readable>;

export class CatFile {
  readonly #gitDir: string;
  readonly #maxBytes: number;
  readonly #env: NodeJS.ProcessEnv;
  #child: Child | undefined;
  #queue: Request[] = [];
  #reader: ObjectReader;
  #words = "";
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(gitDir: string, maxBytes: number, env: NodeJS.ProcessEnv = process.env) {
    this.#gitDir = gitDir;
    this.#maxBytes = maxBytes;
    // The bus never talks to a network: a partial clone's missing object is answered as missing.
    this.#env = {
      ...gitEnvironment(env),
      GIT_NO_LAZY_FETCH: "1",
      GIT_ALLOW_PROTOCOL: "none",
      GIT_DIR: gitDir,
    };
    this.#reader = new ObjectReader(maxBytes);
  }

  /** Throws OBJECT_DAMAGED, GIT_TIMEOUT, SPAWN_FAILED, SHUTTING_DOWN. */
  read(oid: string): Promise<GitObject> {
    if (!isOid(oid)) return Promise.reject(new BusbarError("NO_SUCH_FILE", "not a full object id"));
    if (this.#closed) return Promise.reject(new BusbarError("SHUTTING_DOWN", `reading object ${oid}`));
    return new Promise((resolve, reject) => {
      this.#queue.push({ oid, deaths: 0, resolve, reject });
      if (this.#child) this.#child.stdin.write(`${oid}\n`);
      else this.#start();
      if (this.#queue.length === 1) this.#watch();
    });
  }

  /** Ends the child; pending reads fail. */
  close(): void {
    this.#closed = true;
    this.#dropChild();
    for (const each of this.#queue.splice(0))
      each.reject(new BusbarError("SHUTTING_DOWN", `reading object ${each.oid}`));
  }

  /** For tests and for `ping`: the child's process id while there is one. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  #start(): void {
    this.#reader = new ObjectReader(this.#maxBytes);
    this.#words = "";
    const child: Child = spawn("git", ["cat-file", "--batch"], {
      env: this.#env,
      cwd: this.#gitDir,
      stdio: ["pipe", "pipe", "pipe"],
    });
    this.#child = child;
    const mine = () => this.#child === child;
    child.stdin.on("error", () => {}); // EPIPE: "close" follows
    child.stdout.on("data", (chunk: Buffer) => mine() && this.#take(chunk));
    child.stderr.on("data", (chunk: Buffer) => {
      this.#words = (this.#words + chunk.toString("utf8")).slice(-WORDS);
    });
    child.on("error", (error: NodeJS.ErrnoException) => mine() && this.#notStarted(error));
    child.on("close", () => mine() && this.#died());
    if (this.#queue.length > 0) child.stdin.write(this.#queue.map((each) => `${each.oid}\n`).join(""));
  }

  #take(chunk: Buffer): void {
    this.#watch();
    this.#reader.push(chunk);
    for (let object = this.#reader.next(); object; object = this.#reader.next()) {
      const request = this.#queue.shift();
      if (object.kind === "missing" && request && this.#isLoose(request.oid))
        request.reject(damaged(request.oid, "its file is there, but git cannot read it"));
      else request?.resolve(object);
      if (object.kind === "too_large") {
        this.#replace();
        break;
      }
    }
    if (this.#queue.length === 0) this.#unwatch();
  }

  #isLoose(oid: string): boolean {
    return existsSync(join(this.#gitDir, "objects", oid.slice(0, 2), oid.slice(2)));
  }

  #replace(): void {
    this.#dropChild();
    if (this.#queue.length > 0 && !this.#closed) this.#start();
  }

  #dropChild(): void {
    this.#unwatch();
    const child = this.#child;
    this.#child = undefined;
    child?.kill("SIGKILL");
  }

  #died(): void {
    this.#child = undefined;
    this.#unwatch();
    const suspect = this.#queue[0];
    if (!suspect) return; // ended from outside while idle: the next request starts another
    suspect.deaths += 1;
    if (suspect.deaths > 1) {
      this.#queue.shift();
      const words = this.#words.trim();
      suspect.reject(damaged(suspect.oid, words || "git ended while reading it"));
    }
    if (this.#queue.length === 0) return;
    this.#start();
    this.#watch();
  }

  #notStarted(error: NodeJS.ErrnoException): void {
    this.#child = undefined;
    this.#unwatch();
    for (const each of this.#queue.splice(0))
      each.reject(new BusbarError("SPAWN_FAILED", `starting git cat-file: ${error.code ?? error.message}`));
  }

  #watch(): void {
    this.#unwatch();
    this.#timer = setTimeout(() => {
      const suspect = this.#queue.shift();
      suspect?.reject(
        new BusbarError("GIT_TIMEOUT", `reading object ${suspect.oid}: nothing came for ${STALL_MS} ms`),
      );
      this.#replace();
      if (this.#queue.length > 0) this.#watch();
    }, STALL_MS);
    this.#timer.unref();
  }

  #unwatch(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}

/** For the answer: what is wrong with the object, and what a person can do. */
export function damaged(oid: string, why: string): BusbarError {
  return new BusbarError("OBJECT_DAMAGED", `object ${oid}: ${why}; run \`git fsck\``, { oid });
}

/** Parses the output of `cat-file --batch`: a header line, then as many bytes as it says, then a newline. */
class ObjectReader {
  readonly #max: number;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #header: { type: string; size: number } | undefined;

  constructor(maxBytes: number) {
    this.#max = maxBytes;
  }

  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
  }

  next(): GitObject | undefined {
    if (!this.#header) {
      const line = this.#line();
      if (line === undefined) return undefined;
      const [, type = "", size] = line.split(" ");
      if (size === undefined) return { kind: "missing" };
      this.#header = { type, size: Number(size) };
    }
    const { type, size } = this.#header;
    if (size > this.#max) return { kind: "too_large", type, size };
    if (this.#bytes < size + 1) return undefined;
    this.#header = undefined;
    return { kind: "object", type, bytes: this.#cut(size + 1).subarray(0, size) };
  }

  #line(): string | undefined {
    // A header has at most some 90 bytes, so that it is never far into the chunks.
    if (this.#chunks.length > 1 && !this.#chunks[0]!.includes(0x0a))
      this.#chunks = [Buffer.concat(this.#chunks)];
    const end = this.#chunks[0]?.indexOf(0x0a) ?? -1;
    return end < 0 ? undefined : this.#cut(end + 1).toString("latin1", 0, end);
  }

  /** The next `size` bytes, which are there. */
  #cut(size: number): Buffer {
    this.#bytes -= size;
    const first = this.#chunks[0]!;
    if (first.length > size) {
      this.#chunks[0] = first.subarray(size);
      return first.subarray(0, size);
    }
    if (first.length === size) {
      this.#chunks.shift();
      return first;
    }
    const all = Buffer.concat(this.#chunks);
    this.#chunks = all.length > size ? [all.subarray(size)] : [];
    return all.subarray(0, size);
  }
}
