// `subscribe`: first what was, then what comes, in order and without a gap.
//
// 1. Records after `from_seq` are read from the journal and sent, at the pace at which the peer reads.
// 2. When the newest durable record was sent, the live listener is put on in the same tick: nothing can come
//    between the two. 3. A live peer that does not read is cut off by its connection, and subscribes again.

import type { JournalRecord } from "../../schemas/events.ts";
import type { Parsed, Result } from "../../schemas/methods.ts";
import type { Peer, StateStore } from "../state/view.ts";

/** What a store offers for replay. */
export interface RecordSource {
  /** Durable records with a higher sequence number, in order, at least up to the newest at the call. */
  recordsAfter(seq: number, filter?: { run?: string; accesses?: boolean }): AsyncIterable<JournalRecord>;
}

/** A peer that can say when it has room; others are sent to without asking. */
type PacedPeer = Peer & { room?(): Promise<void> };

export function subscribe(
  store: StateStore & RecordSource,
  peer: PacedPeer,
  params: Parsed<"subscribe">,
): Result<"subscribe"> {
  const seq = store.seq;
  const subscription = new Subscription(store, peer, params);
  // After the answer has left: a client knows its subscription before the first event.
  setImmediate(() => subscription.start(params.from_seq ?? seq));
  return { seq };
}

class Subscription {
  readonly #store: StateStore & RecordSource;
  readonly #peer: PacedPeer;
  readonly #wanted: Parsed<"subscribe">;
  #last = 0;
  #gone = false;
  #off = () => {};

  constructor(store: StateStore & RecordSource, peer: PacedPeer, wanted: Parsed<"subscribe">) {
    this.#store = store;
    this.#peer = peer;
    this.#wanted = wanted;
    peer.onClose(() => {
      this.#gone = true;
      this.#off();
    });
  }

  async start(from: number): Promise<void> {
    this.#last = from;
    const { run, accesses } = this.#wanted;
    const filter = { ...(run === undefined ? {} : { run }), accesses: accesses ?? false };
    try {
      while (this.#last < this.#store.seq) {
        const reached = this.#store.seq; // the replay holds everything up to here, and perhaps more
        for await (const record of this.#store.recordsAfter(this.#last, filter)) {
          this.#send(record);
          await this.#peer.room?.();
          if (this.#gone) return;
        }
        this.#last = Math.max(this.#last, reached);
      }
    } catch (error) {
      this.#peer.notify("event_error", { message: String((error as Error).message) });
      return;
    }
    if (!this.#gone) this.#off = this.#store.onRecord((record) => this.#send(record));
  }

  #send(record: JournalRecord): void {
    if (record.seq <= this.#last) return;
    this.#last = record.seq;
    if (record.kind === "access" && !this.#wanted.accesses) return;
    // Events of the bus itself have no run: they are for everybody.
    if (this.#wanted.run !== undefined && record.run !== undefined && record.run !== this.#wanted.run) return;
    this.#peer.notify("event", record);
  }
}
