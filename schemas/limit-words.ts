// Limits in words for people. The shim uses this file: it imports nothing.

import type { Limits } from "./limit-spec.ts";

const SIZES: ReadonlySet<string> = new Set([
  "memory",
  "io_read",
  "io_write",
  "disk",
  "fsize",
  "core",
  "data",
  "address_space",
]);

/** One limit with its unit, `memory 1 GiB`, `cpu 90 s`. */
export function limitWords(name: string, value: number): string {
  if (name === "cpu_s" || name === "cpu_total_s") return `${name.slice(0, -2)} ${value} s`;
  const unit = name.startsWith("io_") ? "/s" : "";
  return `${name} ${SIZES.has(name) ? sizeWords(value) : value}${unit}`;
}

/** All that are asked for, on one line. */
export function limitsLine(limits: Limits): string {
  const said = (Object.entries(limits) as [string, number | boolean][]).flatMap(([name, value]) =>
    typeof value === "number" ? [limitWords(name, value)] : value ? [name] : [],
  );
  return said.join(", ");
}

/** `1 GiB`, `91.6 MiB`. */
export function sizeWords(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(1, bytes)) / 10)));
  return `${Number((bytes / 1024 ** power).toFixed(1))} ${units[power]}`;
}
