// A bus that may open few files only, and more clients than that: nobody is served wrongly, the bus neither dies nor spins,
// and it serves again when they are gone.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import { inCommonDir, readEndpoint } from "../../bus/paths.ts";
import { personOf } from "../helpers/busd.ts";
import { GitRepo } from "../helpers/git-repo.ts";
import { runSpec, taskSpec } from "../helpers/state.ts";
import { tempDir } from "../helpers/temp.ts";
import { until } from "../helpers/wait.ts";

const BUSD = fileURLToPath(new URL("../../dist/bus/busd.js", import.meta.url));
const FILES = 256;
const CLIENTS = 500;

async function narrowBus(t: TestContext) {
  const dir = tempDir(t, "few");
  const repo = new GitRepo(join(dir, "repo"));
  repo.write("f.txt", "base\n");
  const base = repo.commit();
  const child = spawn(
    "bash",
    ["-c", `ulimit -n ${FILES}; exec "$0" "$@"`, process.execPath, BUSD, "--repo", repo.common],
    {
      env: {
        PATH: process.env.PATH,
        HOME: dir,
        BUSBAR_STATE_DIR: join(dir, "state"),
        BUSBAR_RUNTIME_DIR: join(dir, "run"),
      },
      stdio: ["ignore", "pipe", "inherit"],
    },
  );
  const ended = once(child, "exit");
  t.after(async () => {
    child.kill("SIGTERM");
    await ended;
  });
  const socket = await until(
    "the bus serves",
    () => readEndpoint(inCommonDir(repo.common).endpoint)?.socket,
    60_000,
  );
  return {
    child,
    socket,
    common: repo.common,
    base,
    state: () => readEndpoint(inCommonDir(repo.common).endpoint)!.state_dir,
  };
}

/** Clock ticks of processor time that a process has used. */
function ticks(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]!.split(" ");
  return Number(fields[11]) + Number(fields[12]);
}

test("issue 3, EMFILE: more clients than descriptors: no crash, no spin, a short log, and it serves again", async (t) => {
  const { child, socket, common, base, state } = await narrowBus(t);
  const before = await personOf(t, common);
  assert.equal((await before.call("ping", {})).name, "busbar");
  const crowd: Socket[] = [];
  let shed = 0;
  for (let n = 0; n < CLIENTS; n++) {
    const one = connect(socket);
    one.on("error", () => {});
    one.on("close", () => {
      shed += 1;
    });
    one.resume();
    crowd.push(one);
  }
  await until("the bus is full", () => shed > 0);
  const [used, at] = [ticks(child.pid!), performance.now()];
  for (let n = 0; n < 20; n++)
    assert.equal((await before.call("ping", {})).name, "busbar", "who is in is served");
  // What needs descriptors of the bus's own: a record, a pipe to git.
  const spec = runSpec("r", [taskSpec("a")], { repo: common, base });
  await before.call("submit_run", { spec });
  const file = await before.call("get_file", { run: "r", task_id: "a", path: "f.txt" });
  assert.equal(file.content, "base\n");
  await until("a second goes by", () => performance.now() - at > 1_000);
  const share = ((ticks(child.pid!) - used) * 10) / (performance.now() - at);
  assert.ok(share < 0.5, `it used ${Math.round(share * 100)} % of a processor`);
  for (const one of crowd) one.destroy();
  const again = await until("it serves again", () => personOf(t, common).catch(() => undefined));
  assert.equal((await again.call("ping", {})).name, "busbar");
  assert.equal((await again.call("list_runs", {})).runs.length, 1);
  assert.equal(child.exitCode, null, "the same process");
  const log = readFileSync(join(state(), "logs/busd.log"), "utf8");
  assert.equal(log.match(/no descriptors are left/g)?.length, 1, "said once");
  assert.equal(log.match(/room for clients again/g)?.length, 1);
});
