// The configuration: one schema, two files. /etc/busbar/config.yaml is the host's; over it, key by key, the person's:
// $BUSBAR_CONFIG, else $XDG_CONFIG_HOME/busbar/config.yaml, else ~/.config/busbar/config.yaml. A file that is not
// there is no fault, but for the one that $BUSBAR_CONFIG names. Unknown keys are refused with line and nearest word. Of
// limits the stricter of both files counts.

import { join } from "node:path";
import { Config, ConfigFile } from "../schemas/config.ts";
import { BusbarError, ioError } from "../schemas/errors.ts";
import { stricter } from "../schemas/limit-plan.ts";
import type { Limits } from "../schemas/limit-spec.ts";
import { type LimitsInput, normaliseLimits } from "../schemas/plan/limits-input.ts";
import { type Node, type Problem, Problems, type Source, toValue } from "../schemas/plan/nodes.ts";
import { renderProblems } from "../schemas/plan/render.ts";
import { readShape } from "../schemas/plan/shape.ts";
import { parseYamlWithPositions } from "../schemas/plan/yaml.ts";

export interface ConfigInput {
  env: Readonly<Record<string, string | undefined>>;
  /** The person's home directory. */
  home: string;
  /** Text of a file; throws with a `code` of ENOENT when it is not there. */
  readFile(path: string): string;
}

export const HOST_CONFIG = "/etc/busbar/config.yaml";

/** Throws BAD_CONFIG that names every fault with file, line and the nearest right word. */
export function loadConfig(input: ConfigInput): Config {
  const host = readConfig(HOST_CONFIG, input, false);
  const own = readConfig(personPath(input), input, Boolean(input.env.BUSBAR_CONFIG));
  const limits = stricter(limitsIn(host), limitsIn(own));
  return Config.parse({ ...over(host, own), limits });
}

function personPath({ env, home }: ConfigInput): string {
  if (env.BUSBAR_CONFIG) return env.BUSBAR_CONFIG;
  const base = env.XDG_CONFIG_HOME?.startsWith("/") ? env.XDG_CONFIG_HOME : join(home, ".config");
  return join(base, "busbar", "config.yaml");
}

type Plain = Record<string, unknown>;

/** Of one file; both bind. */
function limitsIn({ limits }: Plain): Limits {
  return normaliseLimits(limits as LimitsInput | undefined);
}

/** What the file says, checked, without defaults. */
function readConfig(path: string, input: ConfigInput, mustExist: boolean): Plain {
  let text: string;
  try {
    text = input.readFile(path);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (!mustExist && (code === "ENOENT" || code === "ENOTDIR")) return {};
    throw ioError("reading the configuration", path, error, "BAD_CONFIG");
  }
  const { source, root, problems } = parseYamlWithPositions(
    path,
    text,
    path.endsWith(".json") ? "json" : "yaml",
  );
  if (problems.length > 0) throw refused(path, problems);
  if (!root || (root.kind === "scalar" && root.value === null)) return {};
  checkShape(root, source, path);
  return toValue(root) as Plain;
}

function checkShape(root: Node, source: Source, path: string): void {
  const problems = new Problems();
  readShape(ConfigFile, root, source, problems);
  if (problems.failed) throw refused(path, problems.list);
}

function refused(path: string, problems: readonly Problem[]): BusbarError {
  const text = renderProblems(problems).trimEnd();
  return new BusbarError("BAD_CONFIG", `reading the configuration ${path}:\n${text}`, { path, problems });
}

/** The person's values over the host's: mappings key by key, all else as a whole. */
function over(host: Plain, own: Plain): Plain {
  const result = new Map<string, unknown>(Object.entries(host));
  for (const [key, value] of Object.entries(own)) {
    const under = result.get(key);
    result.set(key, isPlain(under) && isPlain(value) ? over(under, value) : value);
  }
  return Object.fromEntries(result);
}

function isPlain(value: unknown): value is Plain {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
