// What a collection of workspaces did, or would do: a row for each run, the totals, and what a person should look at.
// Every path is in `--json`. Pure.

import type { Palette } from "./palette.ts";
import { renderTable } from "./table.ts";
import { duration, plural } from "./time.ts";
import { hanging, oneLine, wrap } from "./width.ts";

type StayKind = "in_use" | "not_idle" | "not_harvested" | "failed";

/** What `scheduler/main --gc --json` prints. */
export interface GcAnswer {
  archived: { workspace: string; run: string; task: string; archive: string }[];
  kept: { workspace: string; run: string; task: string; kind: StayKind; why: string }[];
}

const TITLES: readonly [StayKind, string][] = [
  ["in_use", "in use"],
  ["not_idle", "not idle yet"],
  ["not_harvested", "not harvested"],
  ["failed", "failed"],
];
/** Runs with a row of their own, and workspaces that are named. */
const MAX_ROWS = 20;
const MAX_NAMED = 5;

/** `idleS`: how long a workspace is idle before it is archived. */
export function gcLines(
  { archived, kept }: GcAnswer,
  { dry, idleS }: { dry: boolean; idleS: number },
  p: Palette,
  width: number,
): string[] {
  const deed = dry ? "would archive" : "archived";
  if (archived.length + kept.length === 0) return ["no workspaces are left"];
  const runs = [...new Set([...archived, ...kept].map((one) => one.run))];
  const kinds = TITLES.filter(([kind]) => kept.some((one) => one.kind === kind));
  const row = (title: string, mine: (one: { run: string }) => boolean): string[] => [
    oneLine(title),
    String(archived.filter(mine).length),
    ...kinds.map(([kind]) => String(kept.filter((one) => one.kind === kind && mine(one)).length)),
  ];
  const rows = runs.slice(-MAX_ROWS).map((run) => row(run, (one) => one.run === run));
  const older = new Set(runs.slice(0, -MAX_ROWS));
  if (older.size > 0) rows.unshift(row(`(${plural(older.size, "older run")})`, (one) => older.has(one.run)));
  if (rows.length > 1) rows.push(row("total", () => true));
  const columns = [
    { title: "run", shrinkTo: 8 },
    ...[deed, ...kinds.map(([, title]) => title)].map((title) => ({ title, align: "right" as const })),
  ];
  const waiting = kept.some(({ kind }) => kind === "not_idle")
    ? hanging(
        `A workspace is archived when it is idle for ${duration(idleS * 1000)}; --all takes it now.`,
        width,
      )
    : [];
  return [...renderTable(columns, rows, width, p.dim), ...waiting.map(p.dim), ...namedLines(kept, p, width)];
}

/** Those that will not go by waiting. */
function namedLines(kept: GcAnswer["kept"], p: Palette, width: number): string[] {
  const odd = kept.filter(({ kind }) => kind === "not_harvested" || kind === "failed");
  const lines = odd
    .slice(0, MAX_NAMED)
    .flatMap(({ run, task, why }) => wrap(oneLine(`kept ${run}/${task}: ${why}`), width));
  const more = odd.length - MAX_NAMED;
  return [...lines, ...(more > 0 ? [`... and ${more} more: busctl gc --json`] : [])].map(p.yellow);
}
