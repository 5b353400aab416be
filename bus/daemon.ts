// The life of a bus, from the lock to the last byte. The order is the protocol:
//
// Start: 1. private directories, 2. the locks of repository and state, before anything is written (case 63 two-daemons), 3. the state,
// 4. server and socket, 5. the endpoint file, so that it never names a socket nobody listens at.
// Life:  a slow look whether lock and socket are still ours; if not, somebody took them away by hand and
//        another bus may start: stop serving. Idle: no clients and no live tasks for so long: end.
// End:   1. no more connections, 2. what is queued leaves, 3. the state is closed, 4. our own socket and endpoint
//        go (never another's), 5. the lock goes last.

import { rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { BusbarError } from "../schemas/errors.ts";
import type { JournalRecord } from "../schemas/events.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import { taskKey } from "../schemas/ids.ts";
import { MAX_BLOB_BYTES } from "../schemas/limits.ts";
import type { Ping } from "../schemas/methods.ts";
import type { Clock, Log } from "../schemas/ports.ts";
import { Blobs } from "./blobs.ts";
import { CatFile } from "./cat-file.ts";
import { pingBus } from "./client/find.ts";
import { isSameProcess, ownIdentity } from "./client/identity.ts";
import { Dispatcher, type Handlers } from "./dispatch.ts";
import { LockHold } from "./lock.ts";
import { Manifests } from "./manifests.ts";
import { liveTasks, readHandlers } from "./methods/reads.ts";
import type { RecordSource } from "./methods/subscribe.ts";
import {
  type BusPaths,
  type Endpoint,
  endpointOf,
  makeDirectories,
  readEndpoint,
  writeEndpoint,
} from "./paths.ts";
import { BusServer } from "./server.ts";
import { Snapshots } from "./snapshot.ts";
import { type ClaimedSocket, claimSocket } from "./socket.ts";
import { Rarely } from "./state/rarely.ts";
import type { StateStore } from "./state/view.ts";
import { nonceIn, Tokens } from "./tokens.ts";

/** How long a lock that seems held is asked for again: clients take it for an instant to see whether it is. */
const LOCK_PATIENCE_MS = 2_000;
const LOCK_AGAIN_MS = 50;
/** How soon a bus notices that its lock or socket was taken away. */
const GUARD_MS = 1_000;
/** What the scheduler gets to cancel its agents (TERM, grace, KILL, settle) before the bus ends without it. */
const SHUTDOWN_CANCEL_MS = 30_000;
/** Longer than a check takes to end that hears no TERM; the scheduler goes as soon as it has. */
const SHUTDOWN_LEAVE_MS = 20_000;

/** The store as a daemon needs it. */
export interface DaemonStore extends StateStore, RecordSource {
  /** The secret that tokens are made from. */
  readonly key: Buffer;
  /** Records before `seq`, newest first. */
  recordsBefore(seq: number): AsyncIterable<JournalRecord>;
  close(): Promise<void>;
}

export interface DaemonParts<S extends DaemonStore> {
  paths: BusPaths;
  uid: number;
  version: string;
  clock: Clock;
  log: Log;
  /** Begins every request id of this life. */
  life: string;
  idleExitMs: number;
  /** Clients at once; undefined: as many as come. */
  maxConnections?: number | undefined;
  openStore(dir: string): Promise<S>;
  /** The handlers that change state, and what goes on by itself; those that only read are made here. */
  methods(store: S): ChangeMethods;
}

export interface ChangeMethods {
  handlers: Handlers;
  /** The registered scheduler, for `ping`. */
  worker(): Pick<Ping, "worker" | "limits" | "sandbox">;
  /** Cancels every attempt that runs. */
  cancelRunning(by: string): Promise<void>;
  /** Called before the store is closed. */
  stop(): void;
}

export interface Daemon {
  readonly socket: string;
  readonly server: BusServer;
  /** Fulfilled with the reason once everything is closed. */
  readonly ended: Promise<string>;
  /** Ends gracefully; the first reason wins. */
  stop(why: string): Promise<string>;
  /** Ends because of a signal: whoever watches is told that it is on purpose. What runs goes on. */
  obey(signal: string): Promise<string>;
}

/** Throws ALREADY_RUNNING, BUS_NOT_ANSWERING, and what directories, state and socket may throw. */
export async function startDaemon<S extends DaemonStore>(parts: DaemonParts<S>): Promise<Daemon> {
  const { paths, uid } = parts;
  makeDirectories(paths, uid);
  const lock = await takeLock(paths);
  const stateLock = await takeStateLock(paths).catch((error: unknown) => {
    lock.release();
    throw error;
  });
  const life = new Life(parts, lock, stateLock);
  try {
    await life.begin();
    return life;
  } catch (error) {
    await life.stop("could not start");
    throw error;
  }
}

/** The lock, or who has it. */
async function takeLock(paths: BusPaths): Promise<LockHold> {
  const end = performance.now() + LOCK_PATIENCE_MS;
  for (;;) {
    const lock = await LockHold.take(paths.lock);
    if (lock) return lock;
    const endpoint = endpointOf(paths.common);
    const left = end - performance.now();
    const ping = endpoint && (await pingBus(endpoint.socket, Math.max(left, LOCK_AGAIN_MS)));
    if (ping)
      throw new BusbarError("ALREADY_RUNNING", `a bus runs already for ${paths.common} (pid ${ping.pid})`, {
        pid: ping.pid,
        socket: endpoint.socket,
      });
    if (performance.now() >= end) throw notAnswering(paths, endpoint);
    await pause(LOCK_AGAIN_MS);
  }
}

/** The state is ours alone too: a bus that lost its repository (moved, replaced) goes on for a moment. */
async function takeStateLock({ state, stateLock }: BusPaths): Promise<LockHold> {
  const end = performance.now() + LOCK_PATIENCE_MS;
  for (;;) {
    const lock = await LockHold.take(stateLock);
    if (lock) return lock;
    if (performance.now() >= end)
      throw new BusbarError("STATE_IN_USE", `opening the state ${state}: another bus holds ${stateLock}`, {
        lock: stateLock,
      });
    await pause(LOCK_AGAIN_MS);
  }
}

function notAnswering(paths: BusPaths, endpoint: Endpoint | null): BusbarError {
  const pid = endpoint && isSameProcess(endpoint) ? endpoint.pid : undefined;
  const who = pid === undefined ? "another process" : `pid ${pid}`;
  return new BusbarError("BUS_NOT_ANSWERING", `not answering, ${who} holds the lock ${paths.lock}`, {
    lock: paths.lock,
    ...(pid === undefined ? {} : { pid }),
  });
}

class Life<S extends DaemonStore> implements Daemon {
  readonly ended: Promise<string>;
  readonly #parts: DaemonParts<S>;
  readonly #lock: LockHold;
  readonly #stateLock: LockHold;
  readonly #started: number;
  readonly #timers: NodeJS.Timeout[] = [];
  #end!: (why: string) => void;
  #why: string | undefined;
  #store: S | undefined;
  #methods: ChangeMethods | undefined;
  /** A disk that refuses does so at every look. */
  readonly #failing = new Rarely();
  #blobs: Blobs | undefined;
  #server: BusServer | undefined;
  #claimed: ClaimedSocket | undefined;
  #endpoint: Endpoint | undefined;

  constructor(parts: DaemonParts<S>, lock: LockHold, stateLock: LockHold) {
    this.#parts = parts;
    this.#lock = lock;
    this.#stateLock = stateLock;
    this.#started = parts.clock.monotonic();
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
  }

  get socket(): string {
    return this.#parts.paths.socket;
  }

  get server(): BusServer {
    return this.#server!;
  }

  async begin(): Promise<void> {
    const { paths, clock, log, version, life, uid } = this.#parts;
    const store = await this.#parts.openStore(join(paths.state, "bus"));
    this.#store = store;
    this.#methods = this.#parts.methods(store);
    const handlers = { ...this.#methods.handlers, ...this.#readers(store), ...this.#ending() };
    const tokens = new Tokens(paths.tokens, store.key, uid, (ref) => nonceIn(store.view)(ref));
    const dispatcher = new Dispatcher({ store, handlers, tokens, clock, log, version, life });
    const { maxConnections } = this.#parts;
    this.#server = new BusServer({
      dispatcher,
      log,
      clock,
      ...(maxConnections !== undefined && { maxConnections }),
    });
    this.#claimed = await claimSocket(this.#server.server, paths.socket, this.#lock);
    this.#endpoint = {
      v: 1,
      socket: paths.socket,
      state_dir: paths.state,
      runtime_dir: paths.runtime,
      ...ownIdentity(),
    };
    writeEndpoint(paths.endpoint, this.#endpoint);
    this.#watch(store);
    log.info("ready", {
      socket: paths.socket,
      repo: paths.common,
      pid: process.pid,
      version,
      seq: store.seq,
    });
  }

  stop(why: string): Promise<string> {
    if (this.#why === undefined) {
      this.#why = why;
      void this.#close(why).catch((error: unknown) => {
        this.#parts.log.error("the end was not clean", { error: String(error) });
        this.#end(why);
      });
    }
    return this.ended;
  }

  obey(signal: string): Promise<string> {
    this.#server?.notify("person", "shutdown", { leave_running: true, by: signal });
    return this.stop(signal);
  }

  async #close(why: string): Promise<void> {
    const { paths, log } = this.#parts;
    log.info("ending", { why });
    for (const timer of this.#timers) clearInterval(timer);
    await this.#server?.close(why);
    this.#blobs?.close();
    this.#methods?.stop();
    // Without the lock the state may belong to another bus already: not one more byte is written.
    if (this.#stateLock.stillOurs()) await this.#store?.close();
    this.#claimed?.remove();
    const there = readEndpoint(paths.endpoint);
    const { pid, start_time } = this.#endpoint ?? {};
    if (there && there.pid === pid && there.start_time === start_time) {
      faultPoint("bus.end.before-remove-endpoint");
      rmSync(paths.endpoint, { force: true });
    }
    this.#stateLock.release();
    this.#lock.release();
    this.#end(why);
  }

  #readers(store: S): Handlers {
    const { paths, clock, log } = this.#parts;
    const objects = new CatFile(paths.common, MAX_BLOB_BYTES);
    this.#blobs = new Blobs(objects);
    const snapshots = new Snapshots(() => store.view);
    store.onRecord(({ event, run, task }) => {
      if (event?.type === "task.claimed" && run !== undefined && task !== undefined)
        snapshots.forget(run, task);
    });
    snapshots.restoring = restorePins(store, snapshots)
      .catch((error: unknown) =>
        log.warn("pinned versions of running attempts could not be restored", { error: String(error) }),
      )
      .finally(() => {
        snapshots.restoring = undefined;
      });
    return readHandlers({
      store,
      snapshots,
      manifests: new Manifests(paths.common),
      blobs: this.#blobs,
      treeOf: (commit) => treeOf(objects, commit),
      clock,
      facts: () => this.#facts(),
    });
  }

  #facts(): Omit<Ping, "live_tasks" | "degraded" | "former"> {
    const { paths, version, clock } = this.#parts;
    return {
      name: "busbar",
      version,
      protocol: 1,
      pid: process.pid,
      uptime_ms: Math.round(clock.monotonic() - this.#started),
      repo: paths.common,
      state_dir: paths.state,
      ...(this.#methods?.worker() ?? { worker: null }),
    };
  }

  #ending(): Handlers {
    return {
      shutdown: (call, params) => {
        this.#parts.log.info("asked to end", { request_id: call.requestId, by: call.actor, ...params });
        void this.#shutdown(params.leave_running, call.actor, `shutdown by ${call.actor}`);
        return { ok: true };
      },
    };
  }

  /** What runs is cancelled (or left), scheduler and shims settle and go first; then the bus. */
  async #shutdown(leaveRunning: boolean, by: string, why: string): Promise<void> {
    const end = performance.now() + (leaveRunning ? SHUTDOWN_LEAVE_MS : SHUTDOWN_CANCEL_MS);
    const server = this.#server!;
    // From here on the scheduler claims nothing more; a claim on its way is cancelled by the next look.
    for (const role of ["scheduler", "person"] as const)
      server.notify(role, "shutdown", { leave_running: leaveRunning, by });
    const busy = () => server.count("scheduler") + (leaveRunning ? 0 : server.count("shim")) > 0;
    do {
      if (!leaveRunning) await this.#cancelRunning(by);
      await pause(LOCK_AGAIN_MS); // and the answer leaves
    } while (busy() && performance.now() < end);
    await this.stop(why);
  }

  async #cancelRunning(by: string): Promise<void> {
    try {
      await this.#methods?.cancelRunning(by);
    } catch (error) {
      if (this.#failing.isNews(String(error), this.#parts.clock.monotonic()))
        this.#parts.log.error("running attempts could not be cancelled; tried until the end", {
          error: String(error),
        });
    }
  }

  #watch(store: S): void {
    const { idleExitMs, clock } = this.#parts;
    const guard = setInterval(() => {
      if (this.#lock.stillOurs() && this.#stateLock.stillOurs() && this.#claimed?.stillOurs()) return;
      this.#parts.log.error("lock or socket was taken away; another bus may start, so this one ends");
      void this.stop("lock or socket lost");
    }, GUARD_MS);
    let busy = clock.monotonic();
    const idle = setInterval(
      () => {
        const now = clock.monotonic();
        const quiet = this.#server!.quietMs();
        if (quiet === 0 || liveTasks(store) > 0) busy = now;
        else busy = Math.max(busy, now - quiet);
        if (now - busy < idleExitMs) return;
        clearInterval(idle);
        void this.#shutdown(true, "bus", `idle for ${Math.round(now - busy)} ms`);
      },
      Math.min(Math.max(idleExitMs / 4, 20), 5_000),
    );
    this.#timers.push(guard, idle);
  }
}

/** The versions that running attempts were shown before a restart are theirs to the end. */
async function restorePins(store: DaemonStore, snapshots: Snapshots): Promise<void> {
  const claims = new Set<string>();
  for (const run of store.view.runs())
    for (const task of store.view.tasks(run.run))
      if (task.state.name === "running") claims.add(taskKey(run.run, task.spec.id));
  if (claims.size === 0) return;
  // Newest first, back to the oldest claim of those that run: the journal may be long, an attempt is not.
  for await (const record of store.recordsBefore(store.seq + 1)) {
    snapshots.restore(record);
    const { event, run, task } = record;
    if (event?.type === "task.claimed" && run !== undefined && task !== undefined)
      claims.delete(taskKey(run, task));
    if (claims.size === 0) return;
  }
}

async function treeOf(objects: CatFile, commit: string): Promise<string> {
  const object = await objects.read(commit);
  const tree = object.kind === "object" ? /^tree ([0-9a-f]+)\n/.exec(object.bytes.toString("latin1")) : null;
  if (!tree) throw new BusbarError("OBJECT_MISSING", `commit ${commit} cannot be read; run \`git fsck\``);
  return tree[1]!;
}
