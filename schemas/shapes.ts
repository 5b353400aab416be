// Shapes of single values that stand in plans, states and calls alike.

import { z } from "zod";
import { idFault, showId } from "./ids.ts";
import { pathFault, placeFault } from "./repo-path.ts";

export const Id = z.string().superRefine((value, ctx) => {
  const fault = idFault(value);
  if (fault) ctx.addIssue({ code: "custom", message: `id ${showId(value)} ${fault}` });
});
export const RepoPath = z.string().superRefine((value, ctx) => {
  const fault = pathFault(value);
  if (fault) ctx.addIssue({ code: "custom", message: `path ${showId(value)} ${fault}` });
});
/** A directory of this machine. */
export const Place = z.string().superRefine((value, ctx) => {
  const fault = placeFault(value);
  if (fault) ctx.addIssue({ code: "custom", message: `directory ${showId(value)} ${fault}` });
});
export const Oid = z.string().regex(/^[0-9a-f]{40}([0-9a-f]{24})?$/, "must be a full object id");

export const TIERS = ["shallow", "middle", "deep"] as const;
export const Tier = z.enum(TIERS);
export type Tier = z.infer<typeof Tier>;
