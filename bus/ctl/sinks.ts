// Where the watch of a run is shown: a live block on a terminal, one line per change elsewhere, JSON lines
// with --json.

import type { JournalRecord } from "../../schemas/events.ts";
import type { Ctx } from "./context.ts";
import { LiveBlock } from "./live.ts";
import { changeJson, changeLine, stateLine } from "./render/lines.ts";
import { type Model, pausedWords, progressFrame } from "./render/progress.ts";
import { isResting } from "./render/row.ts";
import { duration } from "./render/time.ts";
import type { Sink } from "./watch.ts";

export interface EndingSink extends Sink {
  end(): void;
}

/** `fresh`: the run was submitted just now, so that what happened before the watch is news too. */
export function sinkFor(ctx: Ctx, fresh: boolean): EndingSink {
  if (ctx.json) return jsonSink(ctx);
  return ctx.io.outTty && ctx.env.TERM !== "dumb" ? liveSink(ctx, fresh) : plainSink(ctx, fresh);
}

function jsonSink(ctx: Ctx): EndingSink {
  const line = (value: unknown) => void ctx.io.out(`${JSON.stringify(value)}\n`);
  let trouble: string | undefined;
  return {
    begin: (model) => {
      line({
        type: "tasks",
        run: model.run,
        tasks: [...model.rows.values()].map((row) => ({
          task: row.task,
          state: row.shown,
          wave: row.wave,
          attempt: row.attempt || null,
          detail: row.detail || null,
        })),
      });
    },
    record: (record) => {
      const value = changeJson(record);
      if (value) line(value);
    },
    trouble: (model) => {
      if (model.trouble !== trouble) line({ type: "trouble", message: model.trouble ?? null });
      trouble = model.trouble;
    },
    back: (awayMs) => line({ type: "away", ms: Math.round(awayMs) }),
    end: () => {},
  };
}

/** What the person is told when the bus is back. */
function backWords(awayMs: number): string {
  return `! the bus was away ${duration(awayMs)}; went on`;
}

/** What is already under way when the watch begins. */
function opening(ctx: Ctx, model: Model, fresh: boolean, width: number): string[] {
  const rows = [...model.rows.values()].filter((row) => row.shown !== "pending" && row.shown !== "ready");
  return rows.filter((row) => fresh || !isResting(row.shown)).map((row) => stateLine(row, ctx.p, width));
}

function plainSink(ctx: Ctx, fresh: boolean): EndingSink {
  let trouble: string | undefined;
  const write = (...lines: string[]) => {
    if (lines.length > 0) void ctx.io.out(`${lines.join("\n")}\n`);
  };
  return {
    begin: (model, first) => {
      if (!first) return;
      write(...opening(ctx, model, fresh, Number.POSITIVE_INFINITY));
      if (model.paused) write(`! ${pausedWords(model)}`);
    },
    record: (record) => {
      const line = changeLine(record, ctx.p, Number.POSITIVE_INFINITY);
      if (line !== undefined) write(line);
    },
    trouble: (model) => {
      if (model.trouble !== undefined && model.trouble !== trouble) write(`! ${model.trouble}`);
      trouble = model.trouble;
    },
    back: (awayMs) => write(backWords(awayMs)),
    end: () => {},
  };
}

/** Often enough for a clock that counts seconds, seldom enough not to flicker. */
const REDRAW_MS = 200;

/** Changes that stay on the screen; the others are seen in the block. */
const KEPT: ReadonlySet<string> = new Set([
  "task.landed",
  "task.failed",
  "task.blocked",
  "task.cancelled",
  "task.retry_asked",
  "task.approved",
  "task.rejected",
  "run.paused",
  "run.resumed",
  "run.tasks_added",
]);

function liveSink(ctx: Ctx, _fresh: boolean): EndingSink {
  const block = new LiveBlock(ctx.io);
  let model: Model | undefined;
  const draw = () => {
    if (!model) return;
    const size = { width: ctx.io.columns() - 1, height: ctx.io.rows() };
    block.draw(progressFrame(model, size, ctx.now(), ctx.p));
  };
  const timer = setInterval(draw, REDRAW_MS);
  const offResize = ctx.io.onResize(draw);
  const take = (next: Model) => {
    model = next;
  };
  return {
    begin: (next) => {
      take(next);
      draw();
    },
    record: (record: JournalRecord, next) => {
      take(next);
      const line = KEPT.has(record.event?.type ?? "")
        ? changeLine(record, ctx.p, ctx.io.columns() - 1)
        : undefined;
      if (line !== undefined) block.print(line);
    },
    trouble: take,
    back: (awayMs) => block.print(ctx.p.yellow(backWords(awayMs))),
    end: () => {
      clearInterval(timer);
      offResize();
      block.end();
    },
  };
}
