// Texts and quantities of what a person may write, as shapes: each says in words what is wrong with a value.

import { z } from "zod";
import { MAX_TIMEOUT_S, MIN_TIMEOUT_S } from "../limits.ts";
import { DURATION_PATTERN, durationSeconds, SIZE_PATTERN, sizeBytes } from "./units.ts";

/** A text for which `fault` knows nothing; `pattern` is what the published schema shows of it. */
export function checked(fault: (value: string) => string | undefined, pattern?: string): z.ZodString {
  const schema = z.string().superRefine((value, ctx) => {
    const message = fault(value);
    if (message) ctx.addIssue({ code: "custom", message });
  });
  return pattern ? schema.meta({ pattern }) : schema;
}

const TOO_SHORT = `is less than ${MIN_TIMEOUT_S}s, within which nothing is even started; write ${MIN_TIMEOUT_S}s or more`;

export const Duration = z
  .union([
    z
      .number()
      .max(MAX_TIMEOUT_S)
      .superRefine((seconds, ctx) => {
        if (seconds < MIN_TIMEOUT_S) ctx.addIssue({ code: "custom", message: TOO_SHORT });
      })
      .meta({ minimum: MIN_TIMEOUT_S }),
    checked((s) => {
      const seconds = durationSeconds(s);
      if (seconds === undefined) return "is not a duration; write 90, 90s, 10m or 1h30m";
      if (seconds < MIN_TIMEOUT_S) return TOO_SHORT;
      return seconds > MAX_TIMEOUT_S ? `is more than ${MAX_TIMEOUT_S / 3600}h` : undefined;
    }, DURATION_PATTERN),
  ])
  .meta({ title: "duration" });

export const Size = z
  .union([
    z.int().positive(),
    checked((s) => (sizeBytes(s) ? undefined : "is not a size; write 512M or 1G"), SIZE_PATTERN),
  ])
  .meta({ title: "size" });
