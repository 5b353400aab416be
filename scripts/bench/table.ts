// Figures as a table for people.

import type { Row } from "./bench.ts";

/** How often the other is better than ours (above 1: slower than it). */
export function ratio(row: Row, other: number): number {
  return row.unit === "/s" ? other / row.ours : row.ours / other;
}

/** Undefined where there is no target. */
export function reached(row: Row): boolean | undefined {
  if (row.target !== undefined) return row.unit === "/s" ? row.ours >= row.target : row.ours <= row.target;
  if (row.targetRatio !== undefined && row.floor) return ratio(row, row.floor.value) <= row.targetRatio;
  return undefined;
}

export function renderRows(rows: readonly Row[]): string {
  const head = ["measure", "ours", "floor", "x floor", "peer", "x peer", "target", "reached"];
  const body = rows.map((row) => [
    row.measure,
    figure(row.ours, row.unit),
    row.floor ? `${figure(row.floor.value, row.unit)} ${row.floor.name}` : "",
    row.floor ? ratio(row, row.floor.value).toFixed(2) : "",
    row.peer ? `${figure(row.peer.value, row.unit)} ${row.peer.name}` : "",
    row.peer ? ratio(row, row.peer.value).toFixed(2) : "",
    targetText(row),
    reachedText(row),
  ]);
  const widths = head.map((title, i) =>
    Math.max(title.length, ...body.map((cells) => (cells[i] ?? "").length)),
  );
  const line = (cells: string[]) =>
    cells
      .map((cell, i) => cell.padEnd(widths[i] ?? 0))
      .join("  ")
      .trimEnd();
  const notes = rows.filter((row) => row.note).map((row) => `  ${row.measure}: ${row.note}`);
  return [line(head), line(widths.map((w) => "-".repeat(w))), ...body.map(line), ...notes].join("\n");
}

function targetText(row: Row): string {
  if (row.target !== undefined) return `${row.unit === "/s" ? ">=" : "<="} ${figure(row.target, row.unit)}`;
  if (row.targetRatio !== undefined) return `<= ${row.targetRatio}x floor`;
  return "";
}

function reachedText(row: Row): string {
  const yes = reached(row);
  if (yes === undefined) return "";
  if (yes) return "yes";
  if (row.target !== undefined)
    return `no, ${(row.unit === "/s" ? row.target / row.ours : row.ours / row.target).toFixed(1)}x off`;
  return "no";
}

function figure(value: number, unit: Row["unit"]): string {
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  const text = value.toLocaleString("en", { maximumFractionDigits: digits });
  return unit === "/s" ? `${text}/s` : `${text} ${unit}`;
}
