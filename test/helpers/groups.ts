// Real control groups for a test, in places of its own in every hierarchy. They need a machine that lets us make them.

import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { BASE_VARIABLE, FEATURES, type GroupHost, probeGroups } from "../../scheduler/group-host.ts";
import { groupsOf, leaveGroups, sweepGroups } from "../../scheduler/groups.ts";
import { planLimits } from "../../scheduler/limit-plan.ts";
import type { GroupAt, ShimJob } from "../../schemas/job.ts";
import { NO_GROUPS } from "./limit-facts.ts";

/** The name below which all groups of a test are. */
export const TEST_STATE = "/state/test";

let count = 0;

/** Undefined, with the reason said, where this machine lets us make none of those needed. */
export function testGroups(
  t: TestContext,
  needed: readonly ("all" | "memory" | "pids" | "cpu" | "io")[],
): (GroupHost & { base: string }) | undefined {
  const host = groupsHere(t);
  const lacking = needed.filter((name) => host[name] === undefined);
  if (lacking.length === 0) return host;
  console.log(
    `LEFT OUT: ${t.name.split(":")[0]} with real control groups (needs ${lacking.join("-and-")}-group: ${host.notes.join("; ")})`,
  );
  t.skip("no control groups here");
  return undefined;
}

/** Those that this machine lets us make, it may be none. They are gone after the test, or it fails. */
export function groupsHere(t: TestContext): GroupHost & { base: string } {
  count += 1;
  const base = `/busbar-test-${process.pid}-${count}`;
  const host = { ...probeGroups({ [BASE_VARIABLE]: base }), base };
  t.after(async () => {
    await sweepGroups(host, TEST_STATE, []);
    leaveGroups(host);
    for (const at of placesOf(host))
      if (existsSync(at.dir)) throw new Error(`left: ${readdirSync(at.dir).join(" ")} in ${at.dir}`);
  });
  return host;
}

/** Names of groups that are there, whatever they are for. */
export function groupsLeft(host: GroupHost): string[] {
  return placesOf(host).flatMap((at) =>
    existsSync(at.dir)
      ? readdirSync(at.dir, { withFileTypes: true })
          .filter((entry) => entry.isDirectory())
          .map(({ name }) => join(at.dir, name))
      : [],
  );
}

function placesOf(host: GroupHost): GroupAt[] {
  return (["all", ...FEATURES] as const).flatMap((name) => host[name] ?? []);
}

/** The job in groups of its own, its limits planned for this host. */
export function inGroups<J extends Pick<ShimJob, "dir" | "name" | "limits">>(
  host: GroupHost,
  job: J,
  state = TEST_STATE,
): J & Required<Pick<ShimJob, "groups" | "launch">> {
  const groups = groupsOf(host, state, job);
  if (!groups) throw new Error("the host has no control groups");
  const { all, memory, pids, cpu, io } = host;
  const v = (at: GroupAt | undefined): 0 | 1 | 2 => at?.v ?? 0;
  const versions = { kill: v(all), memory: v(memory), pids: v(pids), cpu: v(cpu), io: v(io) };
  return { ...job, groups, launch: planLimits(job.limits, { ...NO_GROUPS, groups: versions }) };
}
