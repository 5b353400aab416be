// A repository that was run before with another state: said by whoever starts the bus.

import type { Ping } from "../../../schemas/answers.ts";
import type { Palette } from "./palette.ts";
import { harmless } from "./width.ts";

/** Two lines: what is known, and what to do. */
export function formerLines(p: Palette, former: Ping["former"]): string[] {
  if (!former) return [];
  return [`${p.yellow("warning:")} ${harmless(former.why)}`, `  ${p.dim("->")} ${harmless(former.help)}`];
}
