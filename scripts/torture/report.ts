// What the torture says at its end. Pure.

import { FAULT_POINTS, type FaultPoint } from "../../schemas/fault-points.ts";
import { outOfReach } from "./out-of-reach.ts";
import { type Tally, total } from "./torture.ts";

const COLUMN = 24;

/** Points that some plan has to come by, and none did. */
export function neverReached({ points }: Tally): FaultPoint[] {
  return FAULT_POINTS.filter((name) => !points.passed.has(name) && outOfReach(name) === undefined);
}

export function reportOf(tally: Tally, { seed, ms }: { seed: number; ms: number }): string[] {
  const { plans, starts, violations } = tally;
  const color = violations.length > 0 ? "RED" : "GREEN";
  const count = violations.length === 1 ? "1 violation" : `${violations.length} violations`;
  return [
    `${color}  seed ${seed}: ${total(tally)} kills in ${plans} plans, ${starts} starts, ${minutes(ms)}`,
    "",
    ...killLines(tally),
    "",
    ...pointLines(tally),
    awayLine(tally.recoveries),
    "",
    violations.length === 0 ? "no violations" : `${count}:`,
    ...violations.map((one) => `  ${one}`),
  ];
}

/** By program, at random moments and at points. */
function killLines(tally: Tally): string[] {
  const rows = new Map<string, { random: number; point: number }>();
  for (const [target, n] of tally.kills) {
    const isPoint = isFaultPoint(target);
    const key = isPoint ? (target.split(".")[0] ?? "") : target;
    const row = rows.get(key) ?? { random: 0, point: 0 };
    row[isPoint ? "point" : "random"] += n;
    rows.set(key, row);
  }
  const sorted = [...rows].sort(([a], [b]) => (a < b ? -1 : 1));
  const sum = (kind: "random" | "point") => sorted.reduce((all, [, row]) => all + row[kind], 0);
  const line = (name: string, random: number | string, point: number | string) =>
    `  ${name.padEnd(COLUMN)}${String(random).padStart(8)}${String(point).padStart(8)}`;
  return [
    line("killed", "random", "point"),
    ...sorted.map(([name, row]) => line(name, row.random || "-", row.point || "-")),
    line("together", sum("random"), sum("point")),
  ];
}

function isFaultPoint(target: string): boolean {
  return (FAULT_POINTS as readonly string[]).includes(target);
}

/** All points with their kills; those not reached with the reason and the test that makes up for it. */
function pointLines({ points }: Tally): string[] {
  const reached = FAULT_POINTS.filter((name) => points.passed.has(name)).length;
  const lines = FAULT_POINTS.map((name) => {
    const kills = points.kills.get(name);
    if (kills !== undefined) return `  ${String(kills).padStart(4)}  ${name}`;
    if (points.passed.has(name)) return `     -  ${name}: passed`;
    const why = outOfReach(name);
    const words = why === undefined ? "NOT REACHED" : `needs ${why.needs}: ${why.test}`;
    return `     -  ${name}: ${words}`;
  });
  return [
    ...lines,
    "",
    `points: ${reached} of ${FAULT_POINTS.length} reached, ${points.kills.size} killed at`,
  ];
}

function awayLine(recoveries: readonly number[]): string {
  if (recoveries.length === 0) return "bus away: never";
  const sorted = [...recoveries].sort((a, b) => a - b);
  const at = (i: number) => `${((sorted[i] ?? 0) / 1000).toFixed(1)} s`;
  const middle = at(Math.floor((sorted.length - 1) / 2));
  return `bus away: ${sorted.length} times, median ${middle}, worst ${at(sorted.length - 1)}`;
}

function minutes(ms: number): string {
  const s = Math.round(ms / 1000);
  return `${Math.floor(s / 60)}m ${String(s % 60).padStart(2, "0")}s`;
}
