// A moment in a question to the audit log.

import { z } from "zod";

/** What is no time would match nothing, and read as "it never happened". */
export const AuditTime = z
  .string()
  .max(40)
  .refine((text) => !Number.isNaN(Date.parse(text)), "not a time (ISO 8601: 2026-01-31T12:00:00Z)");
