// The lock and the socket of a bus (case 62 stale-socket, case 63 two-daemons).

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { LockHold } from "../../bus/lock.ts";
import { claimSocket } from "../../bus/socket.ts";
import { isCode } from "../../schemas/errors.ts";
import { tempDir } from "../helpers/temp.ts";

async function mustTake(t: TestContext, path: string): Promise<LockHold> {
  const hold = await LockHold.take(path);
  assert.ok(hold);
  t.after(() => hold.release());
  return hold;
}

/** A socket file whose process was killed. */
function deadSocket(path: string): void {
  const code =
    'require("net").createServer().listen(process.argv[1],()=>process.kill(process.pid,"SIGKILL"))';
  spawnSync(process.execPath, ["-e", code, path]);
  assert.ok(lstatSync(path).isSocket());
}

test("case 63 two-daemons: one holder at a time, free again after release", async (t) => {
  const path = join(tempDir(t), "lock");
  const first = await mustTake(t, path);
  assert.equal(await LockHold.take(path), undefined);
  first.release();
  const second = await mustTake(t, path);
  assert.ok(second.stillOurs());
});

test("case 63 two-daemons: of 10 takers at the same moment one wins", async (t) => {
  const path = join(tempDir(t), "lock");
  const holds = await Promise.all(Array.from({ length: 10 }, () => LockHold.take(path)));
  t.after(() => {
    for (const hold of holds) hold?.release();
  });
  assert.equal(holds.filter((hold) => hold !== undefined).length, 1);
});

test("case 63 two-daemons: the kernel frees the lock when its holder is killed; no pid is asked", async (t) => {
  const path = join(tempDir(t), "lock");
  const child = spawn("flock", ["-n", "-F", path, "sh", "-c", "echo held; exec sleep 60"], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  await once(child.stdout, "data");
  assert.equal(await LockHold.take(path), undefined);
  child.kill("SIGKILL");
  await once(child, "exit");
  await mustTake(t, path);
});

test("case 63 two-daemons: a removed or replaced lock file is noticed by its holder", async (t) => {
  const path = join(tempDir(t), "lock");
  const first = await mustTake(t, path);
  rmSync(path);
  assert.equal(first.stillOurs(), false);
  const second = await mustTake(t, path);
  assert.ok(second.stillOurs());
  assert.equal(first.stillOurs(), false);
});

test("LOCK_UNAVAILABLE when there is no flock", async (t) => {
  const path = process.env.PATH;
  t.after(() => {
    process.env.PATH = path;
  });
  process.env.PATH = "/nonexistent";
  await assert.rejects(LockHold.take(join(tempDir(t), "lock")), (e) => isCode(e, "LOCK_UNAVAILABLE"));
});

test("case 62 stale-socket: a dead socket is taken over; the new one is 0600 whatever the umask", async (t) => {
  const dir = tempDir(t);
  const lock = await mustTake(t, join(dir, "lock"));
  const path = join(dir, "bus.sock");
  deadSocket(path);
  const old = process.umask(0);
  t.after(() => process.umask(old));
  const server = createServer();
  t.after(() => server.close());
  const claimed = await claimSocket(server, path, lock);
  assert.equal(process.umask(), 0);
  assert.equal(statSync(path).mode & 0o777, 0o600);
  assert.deepEqual(readdirSync(dir).sort(), ["bus.sock", "lock"]);
  assert.ok(claimed.stillOurs());
  server.close();
  await once(server, "close");
  assert.ok(existsSync(path), "closing the server removes nothing by name");
  claimed.remove();
  assert.ok(!existsSync(path));
});

test("case 62 stale-socket: file, directory and link at the path stay; clear error", async (t) => {
  const dir = tempDir(t);
  const lock = await mustTake(t, join(dir, "lock"));
  writeFileSync(join(dir, "file"), "mine");
  mkdirSync(join(dir, "dir"));
  symlinkSync(join(dir, "nothing"), join(dir, "dangling"));
  for (const name of ["file", "dir", "dangling"]) {
    await assert.rejects(claimSocket(createServer(), join(dir, name), lock), (e) =>
      isCode(e, "SOCKET_OBSTRUCTED"),
    );
    assert.ok(lstatSync(join(dir, name)));
  }
});

test("case 63 two-daemons: a living socket is never replaced, and another's socket never removed", async (t) => {
  const dir = tempDir(t);
  const lock = await mustTake(t, join(dir, "lock"));
  const path = join(dir, "bus.sock");
  const [first, second, third] = [createServer(), createServer(), createServer()];
  t.after(() => {
    for (const server of [first, second, third]) server.close();
  });
  const claimed = await claimSocket(first, path, lock);
  await assert.rejects(claimSocket(second, path, lock), (e) => isCode(e, "ALREADY_RUNNING"));
  rmSync(path);
  assert.equal(claimed.stillOurs(), false);
  await claimSocket(third, path, lock);
  claimed.remove();
  assert.ok(existsSync(path), "the end of the first never removes the second's socket");
});
