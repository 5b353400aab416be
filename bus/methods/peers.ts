// Which connections belong to an attempt's shims, so that they can be told to end. A cancel that finds nobody
// connected is told at the next `register` or `heartbeat` (their answers come from the same state).

import { type AttemptRef, attemptLabel } from "../../schemas/ids.ts";
import type { Peer } from "../state/view.ts";

export class AttemptPeers {
  readonly #peers = new Map<string, Set<Peer>>();

  /** Keeps the connection until it closes. */
  add(ref: AttemptRef, peer: Peer): void {
    const label = attemptLabel(ref);
    const known = this.#peers.get(label) ?? new Set();
    if (known.has(peer)) return;
    known.add(peer);
    this.#peers.set(label, known);
    peer.onClose(() => {
      known.delete(peer);
      if (known.size === 0 && this.#peers.get(label) === known) this.#peers.delete(label);
    });
  }

  /** Tells every shim of the attempt to end its process. Returns how many were told. */
  cancel(ref: AttemptRef, reason: string): number {
    const peers = this.#peers.get(attemptLabel(ref));
    for (const peer of peers ?? []) peer.notify("cancel", { reason });
    return peers?.size ?? 0;
  }

  /** Attempts with a shim connected. */
  get size(): number {
    return this.#peers.size;
  }
}
