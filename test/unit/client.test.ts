// The clients of the bus (B1, B7): the small one, finding, coming back after the bus was away.

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { connectBus } from "../../bus/client/client.ts";
import { findBus } from "../../bus/client/find.ts";
import { isSameProcess, ownIdentity, startTimeOf } from "../../bus/client/identity.ts";
import { openSocket } from "../../bus/client/open-socket.ts";
import { BusSession } from "../../bus/client/session.ts";
import { connectThin } from "../../bus/client/thin.ts";
import { repoKey } from "../../bus/paths.ts";
import { attemptToken, readAttemptToken } from "../../bus/tokens.ts";
import { BusbarError, isCode } from "../../schemas/errors.ts";
import { liveServer } from "../helpers/live-server.ts";
import { tempDir } from "../helpers/temp.ts";
import { until } from "../helpers/wait.ts";

const handlers = { ping: () => ({ name: "busbar" }) as never };
const REF = { run: "r.1", task: "t.x-2", attempt: 12 };

test("the small client greets as its attempt, gets answers, errors and notifications", async (t) => {
  const server = await liveServer(t, {
    handlers: {
      heartbeat: (call) => {
        call.peer.notify("cancel", { reason: `for ${call.actor}` });
        return { lease_until: "x" };
      },
    },
  });
  const told: unknown[] = [];
  const token = attemptToken(server.store.key, "shim", REF);
  const onNotify = (method: string, params: unknown) => told.push([method, params]);
  const thin = await connectThin({ socket: server.socket, role: "shim", token, client: "t", onNotify });
  t.after(() => thin.close());
  assert.deepEqual(await thin.call("heartbeat", { kind: "agent" }), { lease_until: "x" });
  assert.deepEqual(told, [["cancel", { reason: "for shim:r.1/t.x-2#12" }]]);
  await assert.rejects(thin.call("submit_run", {}), (e) => isCode(e, "FORBIDDEN"));
  thin.close();
  await thin.closed;
  await assert.rejects(thin.call("ping"), (e) => isCode(e, "BUS_AWAY"));
  const wrong = connectThin({ socket: server.socket, role: "agent", token, client: "t" });
  await assert.rejects(wrong, (e) => isCode(e, "BAD_TOKEN"));
});

test("a token stands for exactly one role and attempt", () => {
  const [key, other] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)];
  const token = attemptToken(key, "agent", REF);
  assert.deepEqual(readAttemptToken(key, "agent", token), REF);
  assert.equal(readAttemptToken(key, "shim", token), undefined);
  assert.equal(readAttemptToken(other, "agent", token), undefined);
  assert.equal(readAttemptToken(key, "agent", token.replace("/12.", "/13.")), undefined);
  const nonce = (text: string) => () => text;
  const mine = attemptToken(key, "agent", REF, "one");
  assert.deepEqual(readAttemptToken(key, "agent", mine, nonce("one")), REF);
  assert.equal(readAttemptToken(key, "agent", mine, nonce("two")), undefined, "the number was given again");
  assert.equal(readAttemptToken(key, "agent", mine), undefined, "the attempt is forgotten");
  assert.equal(readAttemptToken(key, "agent", token, nonce("two")), undefined);
  for (const bad of ["", "agent", `${token}0`, token.toUpperCase(), token.replace("agent", "shim")])
    assert.equal(readAttemptToken(key, "agent", bad), undefined, bad);
});

test("nobody there is BUS_AWAY, somebody silent is TIMEOUT, somebody else is no bus", async (t) => {
  const dir = tempDir(t);
  const options = { role: "person", token: "x", client: "t", timeoutMs: 100 } as const;
  const nobody = join(dir, "nobody");
  await assert.rejects(connectBus({ ...options, socket: nobody }), (e) => isCode(e, "BUS_AWAY"));
  await assert.rejects(connectThin({ ...options, socket: nobody }), (e) => isCode(e, "BUS_AWAY"));
  for (const [name, words] of [
    ["silent", undefined],
    ["other", "220 mail.example ESMTP\n"],
  ] as const) {
    const server = createServer((socket) => {
      socket.on("error", () => {});
      if (words) socket.write(words);
    });
    server.listen(join(dir, name));
    await once(server, "listening");
    t.after(() => server.close());
    const expected = words ? "BUS_AWAY" : "TIMEOUT";
    for (const connect of [connectBus, connectThin])
      await assert.rejects(
        connect({ ...options, socket: join(dir, name) }),
        (e) => isCode(e, expected),
        name,
      );
  }
});

/** Listens with a queue of two, and is stopped before it accepts anybody. */
async function stoppedListener(t: TestContext, path: string): Promise<ChildProcess> {
  const script = `require("net").createServer((s) => s.on("error", () => {})).listen({ path: process.argv[1], backlog: 2 }, () => console.log("ready"))`;
  const child = spawn(process.execPath, ["-e", script, path], { stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(child, "exit");
  t.after(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  await once(child.stdout, "data");
  child.kill("SIGSTOP");
  const state = () => readFileSync(`/proc/${child.pid}/stat`, "latin1").split(") ")[1]?.[0];
  await until("it is stopped", () => state() === "T");
  return child;
}

test("many who start at once: a queue that is full is tried again within the bound, and only within it", async (t) => {
  const path = join(tempDir(t), "s");
  const listener = await stoppedListener(t, path);
  const errnos: unknown[] = [];
  const inVain = Array.from({ length: 8 }, () =>
    openSocket(path, 150).then(
      (socket) => socket.destroy(),
      (error: BusbarError) => void errnos.push(error.data.errno),
    ),
  );
  await Promise.all(inVain);
  assert.ok(errnos.length >= 5 && errnos.every((errno) => errno === "EAGAIN"), `${errnos}`);
  const all = Array.from({ length: 200 }, () => openSocket(path, 60_000));
  listener.kill("SIGCONT");
  for (const socket of await Promise.all(all)) socket.destroy();
  const began = performance.now();
  await assert.rejects(openSocket(join(path, "../nobody"), 60_000), (e) => isCode(e, "BUS_AWAY"));
  assert.ok(performance.now() - began < 30_000, "nobody there is said at once");
});

test("case 62 stale-socket: alive is who answers; the lock decides between dead and unknown; no pid is believed", async (t) => {
  const server = await liveServer(t, { handlers });
  const dir = tempDir(t);
  mkdirSync(join(dir, "busbar"));
  assert.equal((await findBus(dir)).state, "dead");
  const put = (socket: string) => {
    const endpoint = { v: 1, socket, state_dir: `/s/${repoKey(dir)}`, runtime_dir: "/r", ...ownIdentity() };
    writeFileSync(join(dir, "busbar/endpoint.json"), JSON.stringify(endpoint));
  };
  put(server.socket);
  assert.equal((await findBus(dir)).state, "alive");
  put(join(dir, "gone.sock")); // the process that it names runs, but holds no lock: it is not a bus
  assert.equal((await findBus(dir)).state, "dead");
  const args = ["-n", "-F", join(dir, "busbar/lock"), "sh", "-c", "echo held; exec sleep 60"];
  const holder = spawn("flock", args, { stdio: ["ignore", "pipe", "ignore"] });
  t.after(() => holder.kill("SIGKILL"));
  await once(holder.stdout, "data");
  const found = await findBus(dir);
  assert.deepEqual([found.state, found.pid], ["unknown", process.pid]);
});

test("a process is known by start time and boot, not by its pid", () => {
  const me = ownIdentity();
  assert.ok(isSameProcess(me));
  assert.ok(!isSameProcess({ ...me, start_time: "1" }) && !isSameProcess({ ...me, boot_id: "other" }));
  assert.ok(!isSameProcess({ ...me, start_time: "" }));
  assert.equal(startTimeOf(2 ** 22 + 1), "");
});

test("B7: a session comes back with the bus, runs its hook before anybody calls, and ends when told", async (t) => {
  let server = await liveServer(t, { handlers });
  const events: string[] = [];
  const session = new BusSession({
    connect: () => connectBus({ socket: server.socket, role: "scheduler", token: "secret", client: "t" }),
    onConnect: async (client) => {
      await client.call("ping", {});
      events.push("connected");
    },
    onLost: () => events.push("lost"),
  });
  await session.ready();
  await session.call("ping", {});
  await server.server.close("restart", 10);
  await until("the loss is noticed", () => session.client === undefined);
  await assert.rejects(session.call("ping", {}), (e) => isCode(e, "BUS_AWAY"));
  server = await liveServer(t, { handlers });
  await (await session.ready()).call("ping", {});
  assert.deepEqual(events, ["connected", "lost", "connected"]);
  await session.close();
  await assert.rejects(session.ready(), (e) => isCode(e, "BUS_AWAY"));
});

test("B7: a session tries again after errors that time mends, and gives up on those it does not", async () => {
  let tries = 0;
  const given: string[] = [];
  const session = new BusSession({
    connect: async () => {
      tries += 1;
      throw new BusbarError(tries < 3 ? "BUS_AWAY" : "WORKER_EXISTS", "no");
    },
    onGiveUp: (error) => given.push(error.code),
    maxWaitMs: 1,
  });
  await session.ended;
  assert.deepEqual([tries, given], [3, ["WORKER_EXISTS"]]);
});
