// `include` of a plan: only the plan itself may name further files, so that there is one level and no loop. A file that
// was included and includes again is refused with the chain that leads to it.

import { entry, type Node, type Place, type Problems, type Source } from "./nodes.ts";

export interface Include {
  pattern: string;
  place: Place;
}

/** Patterns of `include`, each with its place. What is no text there is readShape's to name. */
export function includesIn(node: Node, source: Source): Include[] {
  const value = entry(node, "include")?.value;
  const nodes = value?.kind === "list" ? value.items : value ? [value] : [];
  return nodes.flatMap((n) =>
    n.kind === "scalar" && typeof n.value === "string"
      ? [{ pattern: n.value, place: source.place(n.at) }]
      : [],
  );
}

/** The file without its `include`, which is refused: `plan` included it. */
export function withoutInclude(
  node: Node,
  source: Source,
  plan: string | undefined,
  problems: Problems,
): Node {
  const found = entry(node, "include");
  if (!found || node.kind !== "map") return node;
  const { file } = source;
  const further = includesIn(node, source).map(({ pattern }) => pattern);
  const back = further.find((pattern) => [plan, file].includes(pathFrom(file, pattern)));
  const chain = [
    ...(plan === undefined ? [] : [plan]),
    file,
    back === undefined ? further.join(", ") : pathFrom(file, back),
  ];
  const message =
    back === undefined
      ? `an included file cannot include further files: ${chain.join(" -> ")}`
      : `the includes go round in a circle: ${chain.join(" -> ")}`;
  const hint = `only the plan may say include${plan === undefined ? "" : `; name the files in ${plan}`}`;
  problems.error("include", source.place(found.at), message, { hint });
  return { ...node, entries: node.entries.filter((e) => e !== found) };
}

/** `pattern` as seen from the folder of `file`, written like the names in messages. */
function pathFrom(file: string, pattern: string): string {
  const steps = file.split("/").slice(0, -1);
  for (const step of pattern.split("/")) {
    if (step === "..") steps.pop();
    else if (step !== "." && step !== "") steps.push(step);
  }
  return steps.join("/");
}
