// One connection of the server: bytes in, answers and notifications out, all of it bounded.
//
// 1. Bytes are cut into frames; one frame is handled at a time, and all that its handler can do without
//    waiting is done before the next one. After FRAMES_PER_TURN, or when all of them together have had
//    FRAMES_PER_LOOP, other connections have their turn; each gets one frame in, however many others are busy.
// 2. No further frame is taken while the peer is behind with reading (HIGH_WATER_BYTES) or has
//    MAX_IN_FLIGHT calls open, and then the socket is not read either: the flood waits in the sender.
// 3. What is to be sent in one turn leaves in one write: at the end of the callback that brought it about, so that
//    the answers of all calls whose records were written together leave together.
// 4. A peer that is MAX_UNSENT_BYTES behind all the same (notifications) is cut off.
// 5. So is one that has not taken a byte of what is due to it, or not gone on with a frame that it began, for
//    STALLED_PEER_MS: it holds memory and gives nothing.
// 6. What all peers together have not taken is bounded too (MAX_ALL_UNSENT_BYTES): beyond it those that have been behind for
//    longest are cut off.
// 7. A peer that ends its side gets the answers that are still due; then the connection is closed.

import type { Socket } from "node:net";
import { BusbarError } from "../../schemas/errors.ts";
import {
  MAX_ALL_UNSENT_BYTES,
  MAX_FRAME_BYTES,
  MAX_UNSENT_BYTES,
  STALLED_PEER_MS,
} from "../../schemas/limits.ts";
import { FrameSplitter, OVERSIZED, parseFrame } from "./framing.ts";
import { frameFailure, type Pieces } from "./rpc.ts";

/** About 1 ms of hot reads: nobody else waits longer for one connection's flood. */
const FRAMES_PER_TURN = 64;
/** Some milliseconds: a lone caller waits about so long beside any number of busy ones. */
const FRAMES_PER_LOOP = 128;
/** Enough to keep a fast reader busy; beyond it the peer reads first, then asks. */
const HIGH_WATER_BYTES = 1024 * 1024;
/** Calls of one peer that wait for disk or people at once. */
const MAX_IN_FLIGHT = 256;
/** Up to this size pieces are copied together into one write; beyond it a vector write is cheaper than the copy. */
const JOIN_BYTES = 64 * 1024;

export interface ConnectionHandlers {
  /** Answers one parsed frame; never rejects. */
  receive(frame: unknown): Promise<Pieces | undefined>;
  /** After the end, once. */
  closed(why: string): void;
}

export class Connection {
  readonly #socket: Socket;
  readonly #handlers: ConnectionHandlers;
  readonly #splitter = new FrameSplitter();
  readonly #flusher: Flusher;
  readonly #onClose: (() => void)[] = [];
  readonly #onRoom: (() => void)[] = [];
  #out: Pieces = [];
  #outBytes = 0;
  #inFlight = 0;
  #pumping = false;
  #paused = false;
  #ended = false;
  #gone = false;
  #why = "closed by the peer";

  constructor(socket: Socket, flusher: Flusher, handlers: ConnectionHandlers, stallMs = STALLED_PEER_MS) {
    this.#socket = socket;
    this.#flusher = flusher;
    this.#handlers = handlers;
    socket.on("error", (error: NodeJS.ErrnoException) => {
      this.#why = error.code ?? "socket error"; // "close" follows
    });
    socket.on("data", (chunk: Buffer) => {
      this.#splitter.push(chunk);
      if (this.#stalled()) this.#pause();
      else this.#pump();
    });
    socket.on("drain", () => {
      flusher.caughtUp(this);
      this.#roomAgain();
    });
    socket.on("end", () => {
      this.#ended = true;
      this.#finishIfIdle();
    });
    socket.on("close", () => this.#close());
    // Node counts what the kernel took of a write in progress as a sign of life.
    socket.setTimeout(stallMs, () => this.#silent(stallMs));
  }

  /** Bytes that the peer has not taken yet. */
  get unsent(): number {
    return this.#outBytes + this.#socket.writableLength;
  }

  /** Queues text for the peer; leaves at the end of the turn. */
  send(pieces: Pieces): void {
    if (this.#gone) return;
    if (this.unsent > MAX_UNSENT_BYTES) {
      this.destroy(`reads too slowly: ${this.unsent} bytes unsent`);
      return;
    }
    for (const piece of pieces) {
      this.#out.push(piece);
      this.#outBytes += piece.length;
    }
    this.#flusher.add(this);
  }

  /** Called by the flusher. */
  flush(): void {
    if (this.#out.length === 0 || this.#gone) return;
    const out = this.#out;
    this.#out = [];
    this.#outBytes = 0;
    if (!this.#flusher.joiner.write(this.#socket, out)) {
      this.#socket.cork();
      for (const piece of out) this.#socket.write(piece);
      this.#socket.uncork();
    }
    this.#finishIfIdle();
    if (!this.#stalled()) this.#roomAgain();
  }

  onClose(fn: () => void): void {
    if (this.#gone) fn();
    else this.#onClose.push(fn);
  }

  /** Fulfilled when the peer is not behind, or gone. */
  room(): Promise<void> {
    if (this.#gone || this.unsent <= HIGH_WATER_BYTES) return Promise.resolve();
    return new Promise((resolve) => this.#onRoom.push(resolve));
  }

  /** Ends at once; `why` goes into the log. */
  destroy(why: string): void {
    if (this.#gone) return;
    this.#why = why;
    this.#socket.destroy();
  }

  /** Sends what is queued, then ends. */
  end(why: string): void {
    if (this.#gone) return;
    this.#why = why;
    this.flush();
    this.#socket.end();
    this.#socket.resume();
  }

  /** Nothing went in or out for `ms`: a rest between two calls, or a peer that stopped in the middle. */
  #silent(ms: number): void {
    if (this.unsent > 0) this.destroy(`reads nothing: ${this.unsent} bytes unsent for ${ms} ms`);
    else if (this.#splitter.pendingBytes > 0 && this.#inFlight === 0)
      this.destroy(`began a frame and sent nothing more for ${ms} ms`);
  }

  #stalled(): boolean {
    return this.#inFlight >= MAX_IN_FLIGHT || this.unsent > HIGH_WATER_BYTES;
  }

  #pump(): void {
    if (this.#pumping || this.#gone) return;
    this.#pumping = true;
    this.#step(FRAMES_PER_TURN);
  }

  /** Handles one frame, lets it run as far as it can without waiting, and goes on to the next. */
  #step(left: number): void {
    if (this.#gone || this.#stalled()) {
      this.#rest();
      return;
    }
    if (left === 0 || (left < FRAMES_PER_TURN && !this.#flusher.turn.take())) {
      this.#pause();
      setImmediate(() => this.#step(FRAMES_PER_TURN));
      return;
    }
    const frame = this.#splitter.next();
    if (frame !== undefined) this.#handle(frame);
    if (this.#splitter.hasInput) queueMicrotask(() => process.nextTick(() => this.#step(left - 1)));
    else this.#rest();
  }

  #rest(): void {
    this.#pumping = false;
    if (this.#gone) return;
    if (this.#splitter.hasInput) this.#pause();
    else this.#resume();
    this.#finishIfIdle();
  }

  #handle(frame: Buffer | typeof OVERSIZED): void {
    let value: unknown;
    try {
      if (frame === OVERSIZED) throw tooLarge();
      value = parseFrame(frame);
    } catch (error) {
      this.send(frameFailure(error as BusbarError));
      return;
    }
    this.#inFlight += 1;
    this.#handlers.receive(value).then((pieces) => {
      this.#inFlight -= 1;
      if (pieces) this.send(pieces);
      else this.#finishIfIdle();
      if (this.#inFlight === MAX_IN_FLIGHT - 1) this.#roomAgain();
    });
  }

  #pause(): void {
    if (this.#paused) return;
    this.#paused = true;
    this.#socket.pause();
  }

  #resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.#socket.resume();
  }

  #roomAgain(): void {
    if (this.#gone || this.#stalled()) return;
    for (const resolve of this.#onRoom.splice(0)) resolve();
    if (this.#splitter.hasInput) this.#pump();
    else if (!this.#pumping) this.#resume();
  }

  #finishIfIdle(): void {
    if (!this.#ended || this.#gone || this.#inFlight > 0 || this.#out.length > 0) return;
    if (!this.#splitter.hasInput) this.#socket.end();
  }

  #close(): void {
    if (this.#gone) return;
    this.#gone = true;
    this.#flusher.caughtUp(this);
    this.#out = [];
    this.#outBytes = 0;
    for (const fn of this.#onClose.splice(0)) fn();
    for (const resolve of this.#onRoom.splice(0)) resolve();
    this.#handlers.closed(this.#why);
  }
}

function tooLarge(): BusbarError {
  return new BusbarError("FRAME_TOO_LARGE", `a message may have at most ${MAX_FRAME_BYTES} bytes`, {
    limit: MAX_FRAME_BYTES,
  });
}

/** Writes small pieces as one, through a buffer that is used again unless the kernel did not take all of it at once. */
class Joiner {
  #buffer: Buffer | undefined;

  /** False when they are too many bytes for it. */
  write(socket: Socket, pieces: Pieces): boolean {
    let bound = 0;
    for (const piece of pieces) bound += typeof piece === "string" ? piece.length * 3 : piece.length;
    if (bound > JOIN_BYTES) return false;
    this.#buffer ??= Buffer.allocUnsafeSlow(JOIN_BYTES);
    const buffer = this.#buffer;
    let at = 0;
    for (const piece of pieces)
      at += typeof piece === "string" ? buffer.write(piece, at) : piece.copy(buffer, at);
    socket.write(buffer.subarray(0, at));
    if (socket.writableLength > 0) this.#buffer = undefined; // the socket holds on to it
    return true;
  }
}

/** Counts the frames of all connections until the loop has been round once. */
class LoopTurn {
  #left = FRAMES_PER_LOOP;
  #renewing = false;

  /** False when there are none left for now. */
  take(): boolean {
    if (this.#left === 0) return false;
    this.#left -= 1;
    if (this.#renewing) return true;
    this.#renewing = true;
    setImmediate(() => {
      this.#renewing = false;
      this.#left = FRAMES_PER_LOOP;
    });
    return true;
  }
}

/**
 * What the connections of a server share: whose turn it is, and those that have something to send. They write when all
 * that was ready to run has run: nextTick comes after the microtasks, in which the answers of a turn are made.
 */
export class Flusher {
  readonly turn = new LoopTurn();
  readonly joiner = new Joiner();
  readonly #maxUnsent: number;
  /** Whose peers have not taken all; who has been behind for longest stands first. */
  readonly #behind = new Set<Connection>();
  #dirty = new Set<Connection>();
  #scheduled = false;

  constructor(maxUnsent = MAX_ALL_UNSENT_BYTES) {
    this.#maxUnsent = maxUnsent;
  }

  add(connection: Connection): void {
    this.#dirty.add(connection);
    if (this.#scheduled) return;
    this.#scheduled = true;
    process.nextTick(() => {
      this.#scheduled = false;
      const dirty = this.#dirty;
      this.#dirty = new Set();
      for (const each of dirty) each.flush();
      for (const each of dirty) if (each.unsent > 0) this.#behind.add(each);
      this.#bound();
    });
  }

  /** Its peer has taken all, or is gone. */
  caughtUp(connection: Connection): void {
    this.#behind.delete(connection);
  }

  #bound(): void {
    let all = 0;
    for (const each of this.#behind) all += each.unsent;
    for (const each of this.#behind) {
      if (all <= this.#maxUnsent) return;
      const { unsent } = each;
      this.#behind.delete(each);
      each.destroy(`reads too slowly: ${unsent} of ${all} bytes that all clients have not read`);
      all -= unsent;
    }
  }
}
