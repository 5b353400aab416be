// Whether agents and checks are shut in, and how: what a plan says, what a host says, and what that means together.

import { z } from "zod";

export const SANDBOX_MODES = ["off", "auto", "required"] as const;
export type SandboxMode = (typeof SANDBOX_MODES)[number];
/** From the narrowest. */
export const NETWORKS = ["none", "full"] as const;
export type Network = (typeof NETWORKS)[number];

/** Never `/` or the whole home: then there would be nothing to hide. */
const Path = z
  .string()
  .max(4096)
  .regex(/^(?!.*\/(\.{0,2})\/)(?!.*\/\.{1,2}$)~?\/.*[^/]$/, "must be a path below / or ~/, without . and ..");
const Paths = z.array(Path).max(200);

export const SandboxTerms = z.strictObject({
  mode: z
    .enum(SANDBOX_MODES)
    .exactOptional()
    .describe("`auto` (default): where it works; `required`: or nothing starts; `off`"),
  network: z.enum(NETWORKS).exactOptional().describe("Network of agents: full (default) or none"),
  setup_network: z.enum(NETWORKS).exactOptional().describe("Network of set-up steps: full (default) or none"),
  check_network: z.enum(NETWORKS).exactOptional().describe("Network of checks: none (default) or full"),
  read: Paths.exactOptional().describe("Further paths that may be read, e.g. ~/.cache/ms-playwright"),
  write: Paths.exactOptional().describe("Further paths that may be written, e.g. ~/.cache/ccache"),
});
export type SandboxTerms = z.infer<typeof SandboxTerms>;

/** The mode alone, or more. */
export const SandboxSaid = z.union([z.enum(SANDBOX_MODES), SandboxTerms]);
export type SandboxSaid = z.infer<typeof SandboxSaid>;

export type ProcessKind = "agent" | "setup" | "check";

/** What is in force for a run on a host. */
export interface SandboxWish {
  mode: SandboxMode;
  network: Record<ProcessKind, Network>;
  read: string[];
  write: string[];
}

const DEFAULT_MODE: SandboxMode = "auto";
const DEFAULT_NETWORK: Record<ProcessKind, Network> = { agent: "full", setup: "full", check: "none" };

/** Of what plan and host say the stricter counts; where neither says anything, the default. Paths of both are open. */
export function sandboxWish(plan: SandboxSaid | undefined, host: SandboxSaid | undefined): SandboxWish {
  const said = [plan, host].flatMap((one) =>
    one === undefined ? [] : [typeof one === "string" ? { mode: one } : one],
  ) as SandboxTerms[];
  const each = <K extends keyof SandboxTerms>(key: K) => said.flatMap((one) => one[key] ?? []);
  const network = (kind: ProcessKind, key: "network" | "setup_network" | "check_network") =>
    NETWORKS.find((one) => each(key).includes(one)) ?? DEFAULT_NETWORK[kind];
  return {
    mode: SANDBOX_MODES.findLast((mode) => each("mode").includes(mode)) ?? DEFAULT_MODE,
    network: {
      agent: network("agent", "network"),
      setup: network("setup", "setup_network"),
      check: network("check", "check_network"),
    },
    read: [...new Set(each("read"))],
    write: [...new Set(each("write"))],
  };
}

/** Whether a host can make a sandbox, as its scheduler found by trying. */
export interface SandboxFacts {
  works: boolean;
  /** What it is, or why there is none. */
  said: string;
  /** What a person can do; absent where it works. */
  cure?: string;
}

export interface SandboxInForce {
  shut: boolean;
  /** In one line, for people. */
  said: string;
}

/** What wish and host come to. */
export function sandboxInForce(wish: SandboxWish, facts: SandboxFacts | undefined): SandboxInForce {
  const { mode, network } = wish;
  const none = (why: string) => ({ shut: false, said: `none (${why}): agents and checks run as you` });
  if (mode === "off") return none("off by the plan or the configuration");
  if (facts === undefined) return none("no scheduler says whether it can be had");
  if (!facts.works) return none(facts.said);
  const { agent, setup, check } = network;
  return { shut: true, said: `${facts.said}; network: agents ${agent}, set-up ${setup}, checks ${check}` };
}
