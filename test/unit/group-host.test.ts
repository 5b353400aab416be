// Which control groups a host offers, by a kernel of the test's own.

import assert from "node:assert/strict";
import test from "node:test";
import { type GroupHost, type GroupKernel, probeGroups } from "../../scheduler/group-host.ts";

const V1 = [
  "30 25 0:26 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory",
  "31 25 0:27 / /sys/fs/cgroup/pids rw,nosuid - cgroup cgroup rw,pids",
].join("\n");
const V2 = "32 25 0:28 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw";

interface Machine {
  mounts: string;
  own: string;
  controllers?: string;
  refuses?: RegExp;
}

function ask({ mounts, own, controllers = "", refuses }: Machine, base?: string) {
  const done: string[] = [];
  const act = (what: string) => {
    if (refuses?.test(what)) throw new Error(`EACCES: ${what}`);
    done.push(what);
  };
  const kernel: GroupKernel = {
    read: (path) => {
      if (path === "/proc/self/mountinfo") return mounts;
      if (path === "/proc/self/cgroup") return own;
      return path.endsWith("cgroup.controllers") ? controllers : "populated 0\n";
    },
    write: (path, text) => act(`${text} > ${path}`),
    makeDirectory: (path) => act(`mkdir ${path}`),
  };
  return { host: probeGroups(base === undefined ? {} : { BUSBAR_CGROUP_BASE: base }, "", kernel), done };
}

const versions = ({ all, memory, pids, cpu }: GroupHost) => [all, memory, pids, cpu].map((at) => at?.v);

test("L3: version 2 in a delegated unit: below our own group, its controllers enabled", () => {
  const { host, done } = ask({
    mounts: V2.replace("/unified", ""),
    own: "0::/system.slice/busbar.service\n",
    controllers: "cpu memory pids",
  });
  const dir = "/sys/fs/cgroup/system.slice/busbar.service/busbar";
  const at = { v: 2, dir } as const;
  const { notes, ...places } = host;
  assert.deepEqual(places, { all: at, memory: at, pids: at, cpu: at });
  assert.deepEqual(notes, ["io: no control group limits it here"]);
  assert.deepEqual(
    done.slice(1),
    ["memory", "pids", "cpu"].map((name) => `+${name} > ${dir}/cgroup.subtree_control`),
  );
});

test("L3: version 2 without controllers beside version 1: one kills, the other limits; another manager's group is left alone", () => {
  const own = "9:memory:/somebody/else\n8:pids:/\n0::/\n";
  const { host } = ask({ mounts: `${V1}\n${V2}`, own });
  assert.deepEqual(host.all, { v: 2, dir: "/sys/fs/cgroup/unified/busbar" });
  assert.deepEqual(host.pids, { v: 1, dir: "/sys/fs/cgroup/pids/busbar" });
  assert.equal(host.memory, undefined);
  assert.match(host.notes.join(), /memory:\/somebody\/else is another manager's; BUSBAR_CGROUP_BASE names/);
  const named = ask({ mounts: `${V1}\n${V2}`, own }, "/ours").host;
  assert.deepEqual(named.memory, { v: 1, dir: "/sys/fs/cgroup/memory/ours" });
  assert.deepEqual(named.all, { v: 2, dir: "/sys/fs/cgroup/unified/ours" });
});

test("L3: version 1 alone: the group of pids knows all", () => {
  const { host } = ask({ mounts: V1, own: "9:memory:/\n8:pids:/\n" });
  assert.deepEqual(host.all, { v: 1, dir: "/sys/fs/cgroup/pids/busbar" });
  assert.deepEqual(versions(host), [1, 1, 1, undefined]);
});

test("L3: what may not be made, and a machine without any, is said and no failure", () => {
  const closed = ask({ mounts: `${V1}\n${V2}`, own: "9:memory:/\n8:pids:/\n0::/\n", refuses: /mkdir/ }).host;
  assert.equal(closed.all, undefined);
  assert.equal(closed.notes.length, 5);
  assert.match(closed.notes[0] ?? "", /version 2.*EACCES/);
  const busy = ask({ mounts: V2, own: "0::/\n", controllers: "memory", refuses: /memory >/ }).host;
  assert.equal(busy.memory, undefined);
  assert.equal(busy.all?.v, 2);
  const none = ask({ mounts: "", own: "" }).host;
  assert.deepEqual(versions(none), [undefined, undefined, undefined, undefined]);
  assert.equal(none.notes.length, 4);
});
