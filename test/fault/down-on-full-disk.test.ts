// Issue 3.4, case 70: an end that is asked for while the state cannot be written.

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { connectBus } from "../../bus/client/client.ts";
import { readToken } from "../../bus/client/find.ts";
import { busPaths } from "../../bus/paths.ts";
import { BusbarError } from "../../schemas/errors.ts";
import { daemonInProcess } from "../helpers/daemon.ts";
import { GitRepo } from "../helpers/git-repo.ts";
import { tempDir } from "../helpers/temp.ts";
import { until } from "../helpers/wait.ts";

test("case 70 disk-full: `down` tries again and again to cancel what runs, and says once that it cannot", async (t) => {
  const dir = tempDir(t, "down");
  const repo = new GitRepo(join(dir, "repo"));
  repo.write("f.txt", "x");
  repo.commit();
  const env = { HOME: dir, BUSBAR_STATE_DIR: join(dir, "s"), BUSBAR_RUNTIME_DIR: join(dir, "r") };
  const paths = busPaths(repo.common, env, process.getuid?.() ?? 0);
  let tries = 0;
  const lines: string[] = [];
  const { daemon } = await daemonInProcess(paths, (line) => lines.push(line), {
    cancelRunning: () => {
      tries += 1;
      return Promise.reject(new BusbarError("STORAGE", "writing the journal: ENOSPC"));
    },
  });
  t.after(() => daemon.stop("test over"));
  const client = async (role: "person" | "scheduler") => {
    const token = readToken({ runtime_dir: paths.runtime }, role);
    return connectBus({ socket: daemon.socket, role, token, client: "t" });
  };
  // While a scheduler is there the bus waits for it.
  const [person, scheduler] = [await client("person"), await client("scheduler")];
  await person.call("shutdown", { leave_running: false });
  await until("it tried some times", () => tries >= 5);
  scheduler.close();
  await daemon.ended;
  person.close();
  const said = lines.filter((line) => line.includes("could not be cancelled"));
  assert.equal(said.length, 1, said.join("\n"));
  assert.match(said[0] ?? "", /ENOSPC/);
});
