// `logs`: the log of an attempt's agent or of one of its checks, as it stands on disk, whole or its end, once
// or until the attempt has ended (-f).

import { existsSync, readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { BusbarError } from "../../../schemas/errors.ts";
import { showId } from "../../../schemas/ids.ts";
import { nearest } from "../../../schemas/plan/nearest.ts";
import type { AttemptRecord, Task } from "../../../schemas/task.ts";
import { parseAddress, resolveTask } from "../address.ts";
import { busGone } from "../connect.ts";
import { type Args, type Bus, type Ctx, usage } from "../context.ts";
import { pause } from "../daemons.ts";
import { EXIT } from "../exit-codes.ts";
import { LogFile, TerminalLog } from "../log-file.ts";

const LOOK_AGAIN_MS = 100;

interface Wish {
  attempt: number | undefined;
  check: string | undefined;
  tail: number | undefined;
  follow: boolean;
}

export async function run(ctx: Ctx, args: Args): Promise<number> {
  if (ctx.json) throw usage("a log has no JSON form; without --json its bytes come as they are");
  const address = parseAddress(args.word(0) ?? "");
  const wish: Wish = {
    attempt: args.whole("attempt", 1),
    check: args.text("check"),
    tail: args.whole("tail", 0),
    follow: args.flag("follow"),
  };
  const bus = await ctx.connect();
  try {
    const { task } = await resolveTask(bus, address);
    const news = new News(bus, task);
    if (wish.follow) await news.begin();
    const attempt = await findAttempt(ctx, news, wish);
    if (attempt === "left") return EXIT.detached;
    return await show(ctx, news, attempt, wish);
  } finally {
    bus.close();
  }
}

/** The task as the bus knows it, asked for again only after something happened to it. */
class News {
  #stale = false;
  #gone = false;
  readonly #bus: Bus;
  task: Task;

  constructor(bus: Bus, task: Task) {
    this.#bus = bus;
    this.task = task;
  }

  async begin(): Promise<void> {
    const { run } = this.task;
    this.#bus.on("event", (record) => {
      if (record.task === this.task.spec.id) this.#stale = true;
    });
    void this.#bus.closed.then(() => {
      this.#gone = true;
    });
    await this.#bus.call("subscribe", { run });
    this.#stale = true;
  }

  async current(): Promise<Task> {
    if (this.#gone) throw busGone(`the log of ${this.task.run}/${this.task.spec.id}`);
    if (this.#stale) {
      this.#stale = false;
      const of = { run: this.task.run, task: this.task.spec.id };
      this.task = (await this.#bus.call("get_task", of)).task;
    }
    return this.task;
  }
}

/** With -f a task that has not begun is waited for. */
async function findAttempt(ctx: Ctx, news: News, wish: Wish): Promise<AttemptRecord | "left"> {
  const left = leaving(ctx);
  for (;;) {
    const task = await news.current();
    const wanted = wish.attempt;
    const found =
      wanted === undefined ? task.attempts.at(-1) : task.attempts.find((a) => a.attempt === wanted);
    if (found) return found;
    const name = `${task.run}/${task.spec.id}`;
    if (wanted !== undefined && !wish.follow) {
      throw new BusbarError("NO_SUCH_TASK", `${name} has no attempt ${wanted}`, {
        help: `\`busctl tasks --task ${name}\` lists its attempts.`,
      });
    }
    if (!wish.follow || isOver(task)) {
      throw new BusbarError("NO_SUCH_FILE", `${name} has not begun (${task.state.name})`, {
        help: "Give -f to wait for it.",
      });
    }
    if ((await Promise.race([left, pause(LOOK_AGAIN_MS)])) === "left") return "left";
  }
}

function isOver(task: Task): boolean {
  return task.state.name === "blocked" || task.state.name === "cancelled" || task.state.name === "passed";
}

function leaving(ctx: Ctx): Promise<"left"> {
  return new Promise((resolve) => {
    ctx.onSignal("SIGINT", () => resolve("left"));
    ctx.onSignal("SIGTERM", () => resolve("left"));
  });
}

async function show(ctx: Ctx, news: News, attempt: AttemptRecord, wish: Wish): Promise<number> {
  const left = leaving(ctx);
  const terminal = ctx.io.outTty ? new TerminalLog() : undefined;
  let file: LogFile | undefined;
  try {
    for (;;) {
      // Asked before the read: what is written until the end is then read for certain.
      const over = !wish.follow || hasEnded(await news.current(), attempt.attempt, wish.check);
      file ??= open(attempt, wish, over);
      for (let piece = file?.next(); piece; piece = file?.next()) {
        await ctx.io.out(terminal ? terminal.take(piece) : piece);
      }
      if (terminal) await ctx.io.out(terminal.flush());
      if (over) {
        if (file?.isEmpty()) ctx.io.err(`${emptiness(attempt, wish)}\n`);
        return EXIT.ok;
      }
      if ((await Promise.race([left, pause(LOOK_AGAIN_MS)])) === "left") return EXIT.detached;
    }
  } finally {
    file?.close();
  }
}

/** Silence could as well be a mistake of ours. */
function emptiness({ attempt, ended }: AttemptRecord, { check }: Wish): string {
  const whose = check === undefined ? "the agent's log" : `the log of check ${showId(check)}`;
  return `${whose} of attempt ${attempt} is empty: nothing was printed${ended || check !== undefined ? "" : " yet"}`;
}

function hasEnded(task: Task, attempt: number, check: string | undefined): boolean {
  const record = task.attempts.find((one) => one.attempt === attempt);
  if (!record || record.ended) return true;
  const { state } = task;
  if (state.name !== "running" || state.attempt !== attempt) return true;
  return check === undefined && (state.phase === "capture" || state.phase === "prove");
}

/** undefined: not there yet, and it may still come. */
function open(attempt: AttemptRecord, wish: Wish, over: boolean): LogFile | undefined {
  const dir = attemptDir(attempt);
  const path = dir && (wish.check === undefined ? join(dir, "agent.log") : checkLog(dir, wish.check));
  if (path && existsSync(path)) {
    const file = new LogFile(path);
    if (wish.tail !== undefined) file.tail(wish.tail);
    return file;
  }
  if (!over) return undefined;
  if (!dir || wish.check === undefined) {
    throw new BusbarError("NO_SUCH_FILE", `attempt ${attempt.attempt} has no log at ${attempt.workspace}`, {
      help: "It was removed by hand, or the attempt ended before its agent was started; `busctl tasks --task` says how.",
    });
  }
  const known = [...new Set(attempt.verdicts.map((one) => one.check))];
  const near = nearest(wish.check, known);
  const hint = near && near !== wish.check ? `; did you mean ${near}?` : "";
  throw new BusbarError(
    "NO_SUCH_FILE",
    `attempt ${attempt.attempt} has no log of a check ${showId(wish.check)}${hint}`,
    {
      help: known.length > 0 ? `Its checks: ${known.join(", ")}.` : "No check has run on it.",
    },
  );
}

/**
 * The attempt's directory, or what `busctl gc` made of it: `<state>/runs/<run>/<name>` is archived as
 * `<state>/archive/<run>/<name>`.
 */
function attemptDir({ workspace }: AttemptRecord): string | undefined {
  const run = dirname(workspace);
  const archived = join(dirname(dirname(run)), "archive", basename(run), basename(workspace));
  return [workspace, archived].find((dir) => existsSync(join(dir, "context.json")));
}

/** `checks/<n>-<name>.log`; of several the newest. */
function checkLog(dir: string, name: string): string | undefined {
  const slug = name
    .replace(/[^A-Za-z0-9_.-]+/g, "-")
    .replace(/^[-.]+/, "")
    .slice(0, 60);
  const found = list(join(dir, "checks"))
    .map((file) => /^(\d+)-(.*)\.log$/.exec(file))
    .filter((match) => match !== null && (match[2] === slug || match[2] === name))
    .sort((a, b) => Number(a?.[1]) - Number(b?.[1]));
  const last = found.at(-1)?.[0];
  return last === undefined ? undefined : join(dir, "checks", last);
}

function list(dir: string): string[] {
  try {
    return readdirSync(dir);
  } catch {
    return [];
  }
}
