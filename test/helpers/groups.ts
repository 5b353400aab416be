// Real control groups for a test, in places of its own in every hierarchy. They need a machine that lets us make them.

import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { BASE_VARIABLE, type GroupHost, probeGroups } from "../../scheduler/group-host.ts";
import { leaveGroups, sweepGroups } from "../../scheduler/groups.ts";

/** The name below which all groups of a test are. */
export const TEST_STATE = "/state/test";

let count = 0;

/** Undefined, with the reason said, where this machine lets us make none. They are gone after the test, or it fails. */
export function testGroups(
  t: TestContext,
  needed: readonly ("all" | "memory" | "pids")[],
): (GroupHost & { base: string }) | undefined {
  count += 1;
  const base = `/busbar-test-${process.pid}-${count}`;
  const host = { ...probeGroups({ [BASE_VARIABLE]: base }), base };
  t.after(async () => {
    await sweepGroups(host, TEST_STATE, []);
    leaveGroups(host);
    for (const at of [host.all, host.memory, host.pids])
      if (at && existsSync(at.dir)) throw new Error(`left: ${readdirSync(at.dir).join(" ")} in ${at.dir}`);
  });
  const lacking = needed.filter((name) => host[name] === undefined);
  if (lacking.length === 0) return host;
  console.log(
    `LEFT OUT: ${t.name.split(":")[0]} with real control groups (needs ${lacking.join("-and-")}-group: ${host.notes.join("; ")})`,
  );
  t.skip("no control groups here");
  return undefined;
}

/** Names of groups that are there, whatever they are for. */
export function groupsLeft(host: GroupHost): string[] {
  return [host.all, host.memory, host.pids].flatMap((at) =>
    at && existsSync(at.dir)
      ? readdirSync(at.dir, { withFileTypes: true })
          .filter((entry) => entry.isDirectory())
          .map(({ name }) => join(at.dir, name))
      : [],
  );
}
