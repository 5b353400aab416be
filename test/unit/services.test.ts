// Under systemd: what it is told, what is waited for instead of started, and how a shim is started through its socket
// (issue 4.8). What systemd itself does with it is shown by `npm run test:guest`.

import assert from "node:assert/strict";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import test, { type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { tellReady } from "../../bus/client/service.ts";
import { programWords } from "../../bus/ctl/launch.ts";
import { areServices, awaitService, escapedPath } from "../../bus/ctl/services.ts";
import { groupsOf } from "../../scheduler/groups.ts";
import { launchShim } from "../../scheduler/launch.ts";
import { askUnits, groupHostOf, jobInUnit, readHello, UNIT_GROUP } from "../../scheduler/shim-units.ts";
import type { ShimJob } from "../../schemas/job.ts";
import { tempDir } from "../helpers/temp.ts";

const UNITS = fileURLToPath(new URL("../../scripts/systemd", import.meta.url));
const GROUP = "/sys/fs/cgroup/busbar.slice/busbar-tasks.slice/busbar-shim@1.service";

function service(env: Record<string, string>) {
  const told: string[] = [];
  const timers: { ms: number; deed: () => void }[] = [];
  const said: (() => void)[] = [];
  const tell = (word: string) => {
    told.push(word);
    return new Promise<void>((resolve) => said.push(resolve));
  };
  return {
    told,
    timers,
    said,
    edge: { env, tell, every: (ms: number, deed: () => void) => void timers.push({ ms, deed }) },
  };
}

test("without systemd nobody is told anything", () => {
  const { told, timers, edge } = service({ WATCHDOG_USEC: "6000000" });
  tellReady(edge);
  assert.deepEqual([told, timers], [[], []]);
});

test("systemd is told READY=1, and that the loop turns only where a watchdog waits", () => {
  const { told, timers, edge } = service({ NOTIFY_SOCKET: "/run/notify" });
  tellReady(edge);
  assert.deepEqual([told, timers], [["READY=1"], []]);
});

test("the watchdog is told three times in its time, and never twice at once", async () => {
  const { told, timers, said, edge } = service({ NOTIFY_SOCKET: "/run/notify", WATCHDOG_USEC: "60000000" });
  tellReady(edge);
  const [timer] = timers;
  assert.equal(timer?.ms, 20_000);
  timer?.deed();
  timer?.deed();
  assert.deepEqual(told, ["READY=1", "WATCHDOG=1"]);
  said[1]?.();
  await new Promise((resolve) => setImmediate(resolve));
  timer?.deed();
  assert.deepEqual(told, ["READY=1", "WATCHDOG=1", "WATCHDOG=1"]);
});

test("a path becomes the name of a unit as systemd-escape makes it", () => {
  assert.equal(escapedPath("/srv/git/app/.git"), "srv-git-app-.git");
  assert.equal(escapedPath("/srv/my app-1/.git/"), "srv-my\\x20app\\x2d1-.git");
  assert.equal(escapedPath("/.x/é"), "\\x2ex-\\xc3\\xa9");
});

test("busctl starts no service itself, and says who can", () => {
  assert.equal(areServices({}), false);
  assert.equal(areServices({ BUSBAR_SERVICES: "systemd" }), true);
  const program = awaitService("busd", "/srv/app/.git");
  assert.equal(program.pid, undefined);
  assert.equal(program.running(), true);
  const { message, data } = program.failed("the bus");
  assert.match(message, /the bus is a service of this machine, and it does not run/);
  assert.match(String(data.help), /systemctl start 'busbar-bus@srv-app-\.git\.service'/);
});

test("what answers at the socket of shims is believed only when it speaks as a unit of ours", () => {
  assert.deepEqual(readHello(`17 ${GROUP} cpu io memory pids\n`), {
    pid: 17,
    group: GROUP,
    features: ["memory", "pids", "cpu", "io"],
  });
  assert.deepEqual(readHello(`17 ${GROUP} \n`)?.features, []);
  for (const line of ["", "x /sys/fs/cgroup/a", "0 /sys/fs/cgroup/a", "17 /tmp/a memory"])
    assert.equal(readHello(line), undefined, line);
});

test("a job gets its control groups in the unit of its shim, and what systemd does not give is said", () => {
  const host = groupHostOf({ features: ["memory", "pids"] });
  assert.deepEqual(Object.keys(host).sort(), ["all", "memory", "notes", "pids"]);
  assert.equal(host.notes.length, 2);
  const groups = groupsOf(host, "/state/key", { dir: "/d", name: "agent" });
  assert.ok(groups?.memory?.dir.startsWith(`${UNIT_GROUP}/key-`));
  const inUnit = jobInUnit({ groups } as ShimJob, { pid: 1, group: GROUP, features: [] });
  assert.match(inUnit.groups?.all.dir ?? "", new RegExp(`^${GROUP}/key-[0-9a-f]{16}$`));
  assert.equal(inUnit.groups?.all.dir, inUnit.groups?.memory?.dir);
});

/** Stands for systemd: greets as a unit, and hands what it is sent to `serve`. */
async function units(t: TestContext, hello: string, serve: (text: string, line: Socket) => void) {
  const path = join(tempDir(t, "units"), "s");
  const server = createServer((line) => {
    let text = "";
    line.setEncoding("utf8").on("error", () => {});
    line.write(hello);
    line.on("data", (part) => {
      text += part;
      if (text.split("\n").length > 2) serve(text, line);
    });
  });
  t.after(() => server.close());
  await new Promise<void>((resolve) => server.listen(path, resolve));
  return path;
}

test("a shim is started through the socket of systemd: job handed over, its end and its words seen", async (t) => {
  const dir = tempDir(t, "job");
  let got = "";
  const socket = await units(t, `4242 ${GROUP} memory\n`, (text, line) => {
    got = text;
    writeFileSync(join(dir, "shim.err"), "no usable job\n");
    line.end();
  });
  const job = { dir, groups: { all: { v: 2, dir: `${UNIT_GROUP}/k-1` } } } as ShimJob;
  const launched = await launchShim({ node: "none", args: [], socket }, job, {});
  assert.equal(launched.pid, 4242);
  assert.equal(launched.ours, false);
  assert.deepEqual(await launched.ended, { how: "in its unit", words: "no usable job" });
  const [first, second = ""] = got.split("\n");
  assert.equal(first, dir);
  assert.equal(JSON.parse(second).groups.all.dir, `${GROUP}/k-1`);
});

test("units are asked what they hold without starting a shim", async (t) => {
  const socket = await units(t, `4242 ${GROUP} memory pids\n`, () => assert.fail("it was handed something"));
  assert.deepEqual((await askUnits(socket)).features, ["memory", "pids"]);
});

test("a socket of shims that nobody serves, and a stranger at it, start nothing: SPAWN_FAILED", async (t) => {
  const missing = join(tempDir(t, "units"), "none");
  await assert.rejects(askUnits(missing), { code: "SPAWN_FAILED", message: /ENOENT/ });
  const stranger = await units(t, "SSH-2.0-x\n", () => {});
  await assert.rejects(askUnits(stranger), { code: "SPAWN_FAILED", message: /no unit of ours/ });
});

test("the units start the programs as busctl does, and none may hold shims in a daemon's own unit", () => {
  const unit = (name: string) => readFileSync(join(UNITS, name), "utf8");
  const flags = programWords("busd").filter((word) => word.startsWith("--max"));
  assert.match(
    unit("busbar-bus@.service"),
    new RegExp(`ExecStart=@NODE@ ${flags.join(" ")} @PREFIX@/current/dist/bus/busd.js`),
  );
  assert.match(unit("busbar-scheduler@.service"), /BUSBAR_SHIM_SOCKET=\/run\/busbar\/shim.sock/);
  for (const name of readdirSync(UNITS).filter((file) => /^busbar-(bus|scheduler)@/.test(file)))
    assert.doesNotMatch(unit(name), /^Delegate=/m, name);
  assert.match(unit("busbar-shim@.service"), /^KillMode=mixed$/m);
});
