// Shims as units of systemd (scripts/systemd): a socket with `Accept=yes` starts one unit for each connection, as the user
// that the unit names, in a control group that is delegated to it. What a shim leaves is ended by systemd, and neither
// restart nor death of bus and scheduler reaches it. No shim may live in the unit of the scheduler itself: with limits on,
// systemd could not start that again while one of its children lives.
//
// 1. We connect; the unit (scripts/systemd/shim-in-unit) says one line: its pid, its control group, the controllers it has.
// 2. We answer with the directory of the job in a line, and with the job in another one. The unit becomes the shim.
//    Whoever only asks closes the connection instead.
// 3. The connection stays open for as long as the shim lives. Its unit has ended when its control group is gone.

import { existsSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { BusbarError } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import type { GroupAt, JobGroups, ShimJob } from "../schemas/job.ts";
import type { GroupFeature } from "../schemas/limit-plan.ts";
import { FEATURES, type GroupHost } from "./group-host.ts";

/** Names the socket, in the environment of the scheduler's own unit. */
export const SHIM_SOCKET_VARIABLE = "BUSBAR_SHIM_SOCKET";
/** Stands in a job for the control group of its unit, which is not known before there is one. Nobody makes such a directory. */
export const UNIT_GROUP = "/sys/fs/cgroup/of-the-unit-of-the-shim";
/** systemd starts a unit in some hundredths of a second; a machine in trouble needs longer. */
const HELLO_MS = 30_000;
/** What systemd may need to end what a shim left. */
const UNIT_END_MS = 10_000;
const LOOK_AGAIN_MS = 20;
const MAX_HELLO_BYTES = 4_096;

export interface UnitHello {
  pid: number;
  /** Its control group, where processes of it get one of their own. */
  group: string;
  features: GroupFeature[];
}

/** What the unit says of itself; undefined: no such line. */
export function readHello(line: string): UnitHello | undefined {
  const [pid = "", group = "", ...controllers] = line.trim().split(" ");
  if (!/^[1-9]\d{0,9}$/.test(pid) || !group.startsWith("/sys/fs/cgroup/")) return undefined;
  return { pid: Number(pid), group, features: FEATURES.filter((name) => controllers.includes(name)) };
}

/** The control groups that jobs get in units like this one. */
export function groupHostOf({ features }: Pick<UnitHello, "features">): GroupHost {
  const at: GroupAt = { v: 2, dir: UNIT_GROUP };
  const lacking = FEATURES.filter((name) => !features.includes(name));
  return {
    all: at,
    ...Object.fromEntries(features.map((name) => [name, at])),
    notes: lacking.map((name) => `${name}: systemd gives the units of shims no such controller`),
  };
}

/** The job with the groups of its unit. */
export function jobInUnit(job: ShimJob, { group }: UnitHello): ShimJob {
  if (!job.groups) return job;
  const groups = Object.entries(job.groups).map(([name, { v, dir }]) => [
    name,
    { v, dir: dir.startsWith(`${UNIT_GROUP}/`) ? join(group, dir.slice(UNIT_GROUP.length)) : dir },
  ]);
  return { ...job, groups: Object.fromEntries(groups) as JobGroups };
}

/** What the units of shims are like here. Throws SPAWN_FAILED. */
export async function askUnits(socket: string): Promise<UnitHello> {
  const { hello, line } = await greet(socket);
  line.destroy();
  return hello;
}

/** Throws SPAWN_FAILED; then nothing runs. `ended` is fulfilled when the shim is gone, and all that it left. */
export async function startUnit(
  socket: string,
  job: ShimJob,
): Promise<{ pid: number; ended: Promise<void> }> {
  const { hello, line } = await greet(socket);
  const closed = new Promise<void>((resolve) => line.once("close", () => resolve()));
  faultPoint("scheduler.unit.before-hand-over");
  line.write(`${job.dir}\n${JSON.stringify(jobInUnit(job, hello))}\n`);
  line.unref();
  return { pid: hello.pid, ended: closed.then(() => groupGone(hello.group)) };
}

async function groupGone(group: string): Promise<void> {
  const end = performance.now() + UNIT_END_MS;
  while (existsSync(group) && performance.now() < end) await pause(LOOK_AGAIN_MS);
}

function greet(socket: string): Promise<{ hello: UnitHello; line: Socket }> {
  return new Promise((resolve, reject) => {
    const line = connect(socket);
    let text = "";
    const fail = (why: string) => {
      clearTimeout(timer);
      line.destroy();
      reject(new BusbarError("SPAWN_FAILED", `starting a shim through ${socket}: ${why}`));
    };
    const timer = setTimeout(() => fail(`no unit came up within ${HELLO_MS} ms`), HELLO_MS);
    const refused = () =>
      fail("its unit ended at once, or too many are there; see `journalctl -u 'busbar-shim*'`");
    line.setEncoding("utf8");
    line.on("error", (error) => fail(error.message)); // also later: a connection that breaks is closed then
    line.once("close", refused);
    line.on("data", (part: string) => {
      text += part;
      if (!text.includes("\n") && text.length <= MAX_HELLO_BYTES) return;
      const hello = readHello(text);
      if (!hello) return fail("what answers there is no unit of ours");
      clearTimeout(timer);
      line.removeAllListeners("data");
      line.off("close", refused);
      line.resume();
      resolve({ hello, line });
    });
  });
}
