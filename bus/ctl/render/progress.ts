// The live block of a run: a line with a bar, one of counts, then the running tasks. Pure: the model and the
// size of the terminal come in, lines come out; no line is wider than the terminal.

import type { Palette } from "./palette.ts";
import { paintState, type Shown, sign } from "./palette.ts";
import type { Row } from "./row.ts";
import { LONGEST_TIME, ticking } from "./time.ts";
import { cut, displayWidth, oneLine, pad } from "./width.ts";

export interface Model {
  run: string;
  rows: ReadonlyMap<string, Row>;
  paused: boolean;
  /** Where the one who paused it said so. */
  pausedWhy?: string;
  /** When the run was submitted, ms since 1970. */
  started: number;
  /** Said instead of nothing when the bus or scheduler is away. */
  trouble?: string;
}

export interface Size {
  width: number;
  height: number;
}

export type Counts = Record<Shown, number>;

const ORDER: readonly Shown[] = [
  "running",
  "landing",
  "ready",
  "retrying",
  "failed",
  "pending",
  "blocked",
  "cancelled",
];

export function countRows(rows: Iterable<Row>): Counts {
  const counts: Counts = {
    pending: 0,
    ready: 0,
    running: 0,
    landing: 0,
    merged: 0,
    failed: 0,
    retrying: 0,
    blocked: 0,
    cancelled: 0,
  };
  for (const row of rows) counts[row.shown] += 1;
  return counts;
}

/** `3 running  2 ready  1 blocked`: states that occur, but for merged. */
export function countWords(counts: Counts, p: Palette): string {
  return ORDER.filter((shown) => counts[shown] > 0)
    .map((shown) => paintState(shown, `${counts[shown]} ${shown}`, p))
    .join("  ");
}

export function bar(done: number, total: number, width: number, p: Palette): string {
  const filled = total === 0 ? 0 : Math.floor((done / total) * width);
  const [full, empty] = p.unicode ? ["█", "░"] : ["#", "-"];
  return p.green(full.repeat(filled)) + p.dim(empty.repeat(Math.max(0, width - filled)));
}

/** At most `height - 1` lines (so that the terminal never scrolls by itself), each at most `width` wide. */
export function progressFrame(model: Model, size: Size, now: number, p: Palette): string[] {
  const width = Math.max(10, size.width);
  const lines = [...headLines(model, width, now, p)];
  if (model.paused) lines.push(p.yellow(cut(`! ${pausedWords(model)}`, width)));
  if (model.trouble) lines.push(p.yellow(cut(`! ${oneLine(model.trouble)}`, width)));
  const active = [...model.rows.values()]
    .filter((row) => row.shown === "running" || row.shown === "landing")
    .sort((a, b) => a.since - b.since || (a.task < b.task ? -1 : 1));
  const room = Math.max(0, size.height - 1 - lines.length);
  const fits = active.length <= room ? active.length : Math.max(0, room - 1);
  const idWidth = Math.min(
    Math.max(8, Math.floor(width * 0.4)),
    active.slice(0, fits).reduce((w, row) => Math.max(w, displayWidth(row.task)), 8),
  );
  for (const row of active.slice(0, fits)) lines.push(taskLine(row, idWidth, width, now, p));
  if (fits < active.length && room > 0)
    lines.push(p.dim(cut(`  and ${active.length - fits} more running`, width)));
  return lines;
}

/** With what to do first: a narrow terminal cuts the end. */
export function pausedWords({ run, pausedWhy }: Pick<Model, "run" | "pausedWhy">): string {
  const why = pausedWhy === undefined ? "" : `; why: ${oneLine(pausedWhy)}`;
  return `paused, goes on with: busctl resume ${run}${why}`;
}

const MAX_BAR = 24;
const MIN_BAR = 8;

/** Name, bar, tally and time; then the counts. The bar is as long while a state comes or goes, so that it only fills. */
function headLines(model: Model, width: number, now: number, p: Palette): string[] {
  const counts = countRows(model.rows.values());
  const total = String(model.rows.size);
  const title = model.paused ? `${model.run} (paused)` : model.run;
  const tally = `${String(counts.merged).padStart(total.length)}/${total} merged`;
  const time = ticking(now - model.started);
  const words = countWords(counts, p);
  const room = Math.min(MAX_BAR, width - displayWidth(title) - tally.length - LONGEST_TIME - 6);
  const first =
    room < MIN_BAR
      ? p.bold(cut(`${title}  ${tally}  ${time}`, width))
      : `${p.bold(title)}  ${bar(counts.merged, model.rows.size, room, p)}  ${tally}  ${p.dim(time)}`;
  return words === "" ? [first] : [first, cut(words, width)];
}

function taskLine(row: Row, idWidth: number, width: number, now: number, p: Palette): string {
  const phase = row.shown === "landing" ? "landing" : row.detail;
  const time = ticking(now - row.since);
  const plainHead = `  ${pad(row.task, idWidth)}  ${pad(phase, 7)} ${pad(time, 7, "right")}`;
  if (displayWidth(plainHead) + 2 > width) {
    return `${sign(row.shown, p)} ${cut(`${row.task} ${phase} ${time}`, Math.max(1, width - 2))}`;
  }
  const attempt = row.attempt > 1 ? `  try ${row.attempt}` : "";
  const rest = `${attempt}${row.note === "" ? "" : `  ${oneLine(row.note)}`}`;
  const room = width - displayWidth(plainHead);
  return `${sign(row.shown, p)} ${plainHead.slice(2)}${p.dim(cut(rest, room))}`.trimEnd();
}
