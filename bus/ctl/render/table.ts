// Tables as text. Columns are as wide as their content; where the terminal is too narrow the columns that
// may shrink do so, the widest first, and in the end the line is cut.

import { cut, displayWidth, pad } from "./width.ts";

export interface Column {
  title: string;
  align?: "left" | "right";
  /** May be cut down to this many cells; absent: never cut. */
  shrinkTo?: number;
}

export interface Cell {
  text: string;
  /** Colours; applied after the text has its width. */
  paint?: (text: string) => string;
}

const GAP = "  ";

/** Lines without line ends. `width` Infinity: nothing is cut. */
export function renderTable(
  columns: readonly Column[],
  rows: readonly (readonly (Cell | string)[])[],
  width: number,
  paintTitle: (text: string) => string = (text) => text,
): string[] {
  const cells = rows.map((row) => row.map((c): Cell => (typeof c === "string" ? { text: c } : c)));
  const widths = columns.map((column, i) =>
    cells.reduce((w, row) => Math.max(w, displayWidth(row[i]?.text ?? "")), displayWidth(column.title)),
  );
  shrink(columns, widths, width);
  const line = (parts: (readonly [string, ((t: string) => string) | undefined])[]): string => {
    let left = width;
    const out: string[] = [];
    for (const [i, [text, paint]] of parts.entries()) {
      if (left <= 0) break;
      const last = i === parts.length - 1;
      const align = columns[i]?.align ?? "left";
      const own = Math.min(widths[i] ?? 0, left);
      const filled = last && align === "left" ? cut(text, own) : pad(text, own, align);
      out.push(paint ? paint(filled) : filled);
      left -= own + GAP.length;
    }
    return out.join(GAP).trimEnd();
  };
  const titles = columns.some((c) => c.title !== "")
    ? [line(columns.map((c) => [c.title, paintTitle] as const))]
    : [];
  return [
    ...titles,
    ...cells.map((row) => line(columns.map((_, i) => [row[i]?.text ?? "", row[i]?.paint] as const))),
  ];
}

function shrink(columns: readonly Column[], widths: number[], width: number): void {
  const total = () => widths.reduce((sum, w) => sum + w, 0) + GAP.length * (widths.length - 1);
  while (total() > width) {
    let widest = -1;
    for (const [i, column] of columns.entries()) {
      const w = widths[i] ?? 0;
      if (column.shrinkTo !== undefined && w > column.shrinkTo && w > (widths[widest] ?? 0)) widest = i;
    }
    if (widest < 0) return;
    widths[widest] = (widths[widest] ?? 0) - 1;
  }
}
