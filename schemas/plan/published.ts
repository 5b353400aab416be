// The published JSON Schemas: file name -> text. Written to schemas/json/ by scripts/generate-schemas.ts.

import { z } from "zod";
import { ConfigFile } from "../config.ts";
import { PlanInput, TaskInput } from "./input.ts";

const TITLES = [
  ["plan", "busbar plan", PlanInput],
  ["task", "busbar task", TaskInput],
  ["config", "busbar configuration", ConfigFile],
] as const;

export function publishedSchemas(): Map<string, string> {
  return new Map(
    TITLES.map(([name, title, schema]) => {
      const json = z.toJSONSchema(schema, { io: "input" });
      const { $schema, ...rest } = json;
      return [`${name}.schema.json`, `${JSON.stringify({ $schema, title, ...rest }, null, 2)}\n`];
    }),
  );
}
