// `tasks --audit`: the log, filtered by the bus; human lines, or one JSON record a line. Like `journalctl -n`: the
// last records, in the order in which things happened.

import type { JournalRecord } from "../../../schemas/events.ts";
import { showId } from "../../../schemas/ids.ts";
import { METHODS, type Params, type Result } from "../../../schemas/methods.ts";
import { nearest } from "../../../schemas/plan/nearest.ts";
import { type Address, checkId, resolveRun, resolveTask } from "../address.ts";
import { busGone } from "../connect.ts";
import { type Args, type Bus, type Ctx, usage } from "../context.ts";
import { EXIT } from "../exit-codes.ts";
import { auditHeading, auditLine } from "../render/lines.ts";

type Query = Params<"query_audit">;
type Removed = NonNullable<Result<"query_audit">["removed"]>;

const DEFAULT_LIMIT = 1_000;
/** Greetings of every client: recorded like all else, but for a person noise unless asked for by name. */
const GREETINGS: ReadonlySet<string> = new Set(["ping", "hello"]);
/** Asked for at once where some are left out. */
const SIFTED_PAGE = 1_000;
/** The bus answers at most this many at once. */
const PAGE = 5_000;

export async function audit(ctx: Ctx, args: Args, address: Address | undefined): Promise<number> {
  const query = { ...filters(args, ctx.now()) };
  const limit = args.whole("limit", 1) ?? DEFAULT_LIMIT;
  const newest = args.flag("newest");
  if (newest && args.flag("follow")) throw usage("--newest and --follow exclude each other");
  const bus = await ctx.connect();
  try {
    Object.assign(query, await about(bus, args, address));
    // Following begins now: what lies before is shown only as far as it is asked for.
    const records = args.flag("follow") && !args.has("limit") && !args.has("since") ? [] : undefined;
    const last = records ? undefined : await pages(ctx, bus, query, limit, newest);
    if (!args.flag("follow")) return EXIT.ok;
    return await followOn(ctx, bus, query, last);
  } finally {
    bus.close();
  }
}

function filters(args: Args, now: number): Query {
  const method = args.text("method");
  const actor = args.text("actor");
  if (method !== undefined) checkMethod(method);
  if (actor !== undefined) checkActor(actor);
  const request = args.text("request-id");
  const since = moment("since", args.text("since"), now);
  const until = moment("until", args.text("until"), now);
  return {
    ...(method === undefined ? {} : { method }),
    ...(actor === undefined ? {} : { actor }),
    ...(request === undefined ? {} : { request_id: request }),
    ...(since === undefined ? {} : { since }),
    ...(until === undefined ? {} : { until }),
  };
}

/** A word that no record can have is a slip: silence would read as "it never happened". */
function checkMethod(method: string): void {
  if (Object.hasOwn(METHODS, method)) return;
  const near = nearest(method, Object.keys(METHODS));
  throw usage(
    `--method: there is no method ${showId(method)}${near ? `; did you mean ${near}?` : ""}`,
    "PROTOCOL.md lists the methods; without --method the log shows what there is.",
  );
}

/** Who can be in a record: alone, or with a name behind `:` (`scheduler:HOST`, `agent:RUN/TASK#N`). */
const ALONE = ["person", "scheduler", "bus", "unknown"] as const;
const NAMED = ["scheduler", "shim", "agent"] as const;

function checkActor(actor: string): void {
  const colon = actor.indexOf(":");
  const kind = colon < 0 ? actor : actor.slice(0, colon);
  const kinds: readonly string[] = colon < 0 ? ALONE : NAMED;
  if (kinds.includes(kind)) return;
  const shape = "--actor is person, scheduler, bus, scheduler:HOST, shim:RUN/TASK#N or agent:RUN/TASK#N";
  if (colon < 0 && (kind === "shim" || kind === "agent"))
    throw usage(`--actor ${kind} needs its attempt: ${kind}:RUN/TASK#N`);
  const near = nearest(kind, [...ALONE, ...NAMED]);
  throw usage(`--actor: nobody is called ${showId(actor)}${near ? `; did you mean ${near}?` : ""}`, shape);
}

const UNITS: ReadonlyMap<string, number> = new Map([
  ["s", 1_000],
  ["m", 60_000],
  ["h", 3_600_000],
  ["d", 86_400_000],
]);

/** An ISO time, or `10m`: that long ago. Answers ISO 8601, UTC. */
export function moment(name: string, text: string | undefined, now: number): string | undefined {
  if (text === undefined) return undefined;
  const [, n, unit = ""] = /^(\d+(?:\.\d+)?)([smhd])$/.exec(text) ?? [];
  const at = n === undefined ? Date.parse(text) : now - Number(n) * (UNITS.get(unit) ?? 0);
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) {
    throw usage(`--${name} must be an ISO time (2026-01-31T12:00:00Z) or a time ago (10m, 2h, 1d)`);
  }
  return date.toISOString();
}

async function about(bus: Bus, args: Args, address: Address | undefined): Promise<Partial<Query>> {
  const named = args.text("run");
  if (address) {
    const run = address.run ?? (named === undefined ? undefined : checkId("run", named));
    const { task } = await resolveTask(bus, run === undefined ? address : { ...address, run });
    return { run: task.run, task: task.spec.id };
  }
  return named === undefined || named === "all" ? {} : { run: (await resolveRun(bus, named)).run };
}

/**
 * Prints the last `limit` records that match, the oldest of them first (with `newest` the newest first).
 * Answers the last sequence number; undefined when nothing matched.
 */
async function pages(
  ctx: Ctx,
  bus: Bus,
  query: Query,
  limit: number,
  newest: boolean,
): Promise<number | undefined> {
  const found: JournalRecord[] = [];
  let before: number | undefined;
  for (let left = limit; left > 0; left = limit - found.length) {
    const answer = await bus.call("query_audit", {
      ...query,
      newest: true,
      limit: Math.min(hidesGreetings(ctx, query) ? Math.max(left, SIFTED_PAGE) : left, PAGE),
      ...(before === undefined ? {} : { after_seq: before }),
    });
    found.push(...answer.records.filter((record) => isShown(ctx, query, record)).slice(0, left));
    if (answer.next === undefined) sayRemoved(ctx, query, answer.removed);
    if (answer.next === undefined || answer.records.length === 0) break;
    before = answer.next;
  }
  if (!newest) found.reverse();
  if (found.length > 0) await heading(ctx);
  for (const record of found) await show(ctx, record);
  const last = found.at(newest ? 0 : -1);
  return last?.seq;
}

/** Said where the answer reaches to the oldest record, and older ones could belong to it. */
function sayRemoved(ctx: Ctx, query: Query, removed: Removed | undefined): void {
  if (!removed || (query.since !== undefined && query.since > removed.newest)) return;
  const { to, newest, at, rule } = removed;
  ctx.io.err(
    `records 1 to ${to}, the newest of ${newest}, were removed on ${at} (${rule}) and are not searched\n`,
  );
}

function hidesGreetings(ctx: Ctx, query: Query): boolean {
  return !ctx.json && query.method === undefined && query.request_id === undefined;
}

/** An error is never left out. */
function isShown(ctx: Ctx, query: Query, record: JournalRecord): boolean {
  const greeting = record.kind === "access" && GREETINGS.has(record.method ?? "");
  return !greeting || record.access?.error !== undefined || !hidesGreetings(ctx, query);
}

/** For eyes only: what is piped on holds records and nothing else. */
async function heading(ctx: Ctx): Promise<void> {
  if (ctx.io.outTty && !ctx.json) await ctx.io.out(`${auditHeading(ctx.p, ctx.io.columns())}\n`);
}

async function show(ctx: Ctx, record: JournalRecord): Promise<void> {
  const line = ctx.json ? JSON.stringify(record) : auditLine(record, ctx.p, ctx.io.columns());
  await ctx.io.out(`${line}\n`);
}

/** Until Ctrl-C or the end of the bus. Accesses too: this is the audit log. */
async function followOn(ctx: Ctx, bus: Bus, query: Query, after: number | undefined): Promise<number> {
  const stop = new Promise<number>((resolve) => {
    ctx.onSignal("SIGINT", () => resolve(EXIT.detached));
    ctx.onSignal("SIGTERM", () => resolve(EXIT.ok));
    ctx.onSignal("SIGHUP", () => resolve(EXIT.ok));
  });
  if (after === undefined) await heading(ctx);
  bus.on("event", (record) => {
    if (matches(record, query) && isShown(ctx, query, record)) void show(ctx, record);
  });
  await bus.call("subscribe", {
    accesses: true,
    ...(query.run === undefined ? {} : { run: query.run }),
    ...(after === undefined ? {} : { from_seq: after }),
  });
  const gone = bus.closed.then(() => {
    throw busGone("the audit log");
  });
  return Promise.race([stop, gone]);
}

function matches(record: JournalRecord, query: Query): boolean {
  const same = (wanted: string | undefined, is: string | undefined) => wanted === undefined || wanted === is;
  return (
    same(query.task, record.task) &&
    same(query.method, record.method) &&
    same(query.request_id, record.request_id) &&
    same(query.actor, record.actor) &&
    (query.until === undefined || record.ts <= query.until)
  );
}
