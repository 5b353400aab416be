// The server of the control socket: accepts, greets with a deadline, hands frames to the dispatcher, and knows
// who is connected. It owns no path: bus/socket.ts claims one for it.

import { createServer, type Server, type Socket } from "node:net";
import { HANDSHAKE_TIMEOUT_MS } from "../schemas/limits.ts";
import type { Notifications, Role } from "../schemas/methods.ts";
import type { Clock, Log } from "../schemas/ports.ts";
import { type Dispatcher, type Session, strangerSession } from "./dispatch.ts";
import type { Peer } from "./state/view.ts";
import { Connection, type ConnectionHandlers, Flusher } from "./wire/connection.ts";
import { notification } from "./wire/rpc.ts";

export interface ServerParts {
  dispatcher: Dispatcher;
  log: Log;
  clock: Clock;
  /** Connections beyond so many are closed as they come. */
  maxConnections?: number;
  handshakeMs?: number;
  stallMs?: number;
  /** Bytes that all clients together may leave unread. */
  maxUnsent?: number;
}

/** The peer of a connection; `room` is for those who send much (replay for subscribers). */
export interface ServerPeer extends Peer {
  /** Fulfilled when the peer has taken what it was sent, or is gone. */
  room(): Promise<void>;
}

export class BusServer {
  readonly server: Server;
  readonly #parts: ServerParts;
  readonly #flusher: Flusher;
  readonly #open = new Map<Connection, Session>();
  #quietSince: number;
  #turnedAway = 0;

  constructor(parts: ServerParts) {
    this.#parts = parts;
    this.#flusher = new Flusher(parts.maxUnsent);
    this.#quietSince = parts.clock.monotonic();
    // Half-open on purpose: a peer that ends its side still gets the answers that are due.
    this.server = createServer({ allowHalfOpen: true }, (socket) => this.accept(socket));
    if (parts.maxConnections !== undefined) this.server.maxConnections = parts.maxConnections;
    this.server.on("drop", () => this.#turnAway());
    this.server.on("error", (error) => parts.log.error("the server socket failed", { error: String(error) }));
  }

  /** Serves one connection; also for tests without a socket file. */
  accept(socket: Socket): void {
    const session: Session = strangerSession({ notify: () => {}, onClose: () => {} });
    const handlers: ConnectionHandlers = {
      receive: (frame) => this.#parts.dispatcher.rpc.receive(frame, session),
      closed: (why) => this.#closed(connection, session, why, deadline),
    };
    const connection = new Connection(socket, this.#flusher, handlers, this.#parts.stallMs);
    session.peer = peerOf(connection);
    this.#open.set(connection, session);
    const ms = this.#parts.handshakeMs ?? HANDSHAKE_TIMEOUT_MS;
    const deadline = setTimeout(() => {
      if (!session.greeted) connection.destroy(`no hello within ${ms} ms`);
    }, ms);
    deadline.unref();
  }

  /** Milliseconds without any client; 0 while there is one. The scheduler belongs to the house. */
  quietMs(): number {
    const clients = this.#open.size - this.count("scheduler");
    return clients > 0 ? 0 : this.#parts.clock.monotonic() - this.#quietSince;
  }

  get connections(): number {
    return this.#open.size;
  }

  /** Bytes that all clients together have not taken yet. */
  get unsent(): number {
    return [...this.#open.keys()].reduce((sum, { unsent }) => sum + unsent, 0);
  }

  /** Tells every peer of a role. Returns how many there are. */
  notify<N extends keyof Notifications>(role: Role, name: N, params: Notifications[N]): number {
    let told = 0;
    for (const session of this.#open.values()) {
      if (!session.greeted || session.role !== role) continue;
      session.peer.notify(name, params);
      told += 1;
    }
    return told;
  }

  count(role: Role): number {
    return [...this.#open.values()].filter((session) => session.greeted && session.role === role).length;
  }

  /** Stops accepting and ends every connection once its queued answers are sent; at most `graceMs`. */
  async close(why: string, graceMs = 500): Promise<void> {
    const wasListening = this.server.listening;
    const closed = new Promise<void>((resolve) => this.server.close(() => resolve()));
    for (const connection of this.#open.keys()) connection.end(why);
    const timer = setTimeout(() => {
      for (const connection of this.#open.keys()) connection.destroy(why);
    }, graceMs);
    if (wasListening) await closed; // a server that never listened does not call back
    clearTimeout(timer);
  }

  /** Said once, until there is room again: a crowd must not fill the log. */
  #turnAway(): void {
    this.#turnedAway += 1;
    if (this.#turnedAway > 1) return;
    const { log, maxConnections } = this.#parts;
    log.warn("no descriptors are left for more clients; who comes is turned away", { maxConnections });
  }

  #roomAgain(): void {
    const { log, maxConnections } = this.#parts;
    if (this.#turnedAway === 0 || this.#open.size > (maxConnections ?? 0) / 2) return;
    log.info("there is room for clients again", { turned_away: this.#turnedAway });
    this.#turnedAway = 0;
  }

  #closed(connection: Connection, session: Session, why: string, deadline: NodeJS.Timeout): void {
    clearTimeout(deadline);
    this.#open.delete(connection);
    this.#roomAgain();
    if (session.role !== "scheduler") this.#quietSince = this.#parts.clock.monotonic();
    if (session.greeted || why !== "closed by the peer")
      this.#parts.log.info("connection ended", { actor: session.actor, client: session.client, why });
  }
}

function peerOf(connection: Connection): ServerPeer {
  return {
    notify: (method, params) => connection.send([notification(method, params)]),
    onClose: (fn) => connection.onClose(fn),
    room: () => connection.room(),
  };
}
