// placeholder
import type { RepoFacts } from "./facts.ts";
export async function preflight(
  _facts: RepoFacts,
  _base: string,
  _run: string,
): Promise<{ warnings: string[] }> {
  return { warnings: [] };
}
