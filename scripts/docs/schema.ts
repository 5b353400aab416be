// Part of a JSON Schema as zod writes it, and what is read from it for the documents.

export interface Schema {
  title?: string;
  description?: string;
  type?: string | string[];
  enum?: unknown[];
  const?: unknown;
  items?: Schema;
  anyOf?: Schema[];
  properties?: Record<string, Schema>;
  required?: string[];
}

interface Type {
  toJSONSchema(options: { io: "input"; unrepresentable: "any" }): object;
}

/** What a person may write for it. */
export function schemaOf(type: Type): Schema {
  return type.toJSONSchema({ io: "input", unrepresentable: "any" }) as Schema;
}
