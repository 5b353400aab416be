// The wire of the real busd under odd clients, and get_file against escapes (cases 65 rpc-framing, 45 get-file-escape).

import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { isCode } from "../../schemas/errors.ts";
import { MAX_FRAME_BYTES } from "../../schemas/limits.ts";
import { personOf, startBusd } from "../helpers/busd.ts";
import { GitRepo } from "../helpers/git-repo.ts";
import { runSpec, taskSpec } from "../helpers/state.ts";
import { tempDir } from "../helpers/temp.ts";
import { until } from "../helpers/wait.ts";

const READY_MS = 60_000; // tsx on a busy machine
const line = (id: unknown) => `${JSON.stringify({ jsonrpc: "2.0", id, method: "ping", params: {} })}\n`;

async function bench(t: TestContext) {
  const dir = tempDir(t, "wire");
  const repo = new GitRepo(join(dir, "real/repo"));
  repo.write("src/f.txt", "base\n");
  const daemon = startBusd(t, repo.common, dir);
  return { dir, repo, daemon };
}

/** A bare connection: sends the pieces one after the other, each in a write of its own. */
async function odd(t: TestContext, socket: string, pieces: (string | Buffer)[], wanted: number) {
  const raw = connect(socket);
  t.after(() => raw.destroy());
  const chunks: Buffer[] = [];
  raw.on("error", () => {});
  raw.on("data", (chunk: Buffer) => chunks.push(chunk));
  await once(raw, "connect");
  for (const piece of pieces) {
    await new Promise((resolve) => raw.write(piece, resolve));
    await new Promise((resolve) => setImmediate(resolve));
  }
  const lines = () => Buffer.concat(chunks).toString("utf8").split("\n").slice(0, -1);
  await until(`${wanted} answers`, () => lines().length >= wanted);
  return lines().map((text) => JSON.parse(text));
}

test("case 65 rpc-framing: every odd client gets its answers; another is served meanwhile; memory stays bounded", async (t) => {
  const { repo, daemon } = await bench(t);
  repo.commit();
  const socket = (await until("ready", () => daemon.ready, READY_MS)) as string;
  const rss = () =>
    Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${daemon.child.pid}/status`, "utf8"))![1]) * 1024;
  const other = await personOf(t, repo.common);
  const before = rss();
  let busy = true;
  const times: number[] = [];
  const watch = (async () => {
    while (busy) {
      const began = performance.now();
      await other.call("ping", {});
      times.push(performance.now() - began);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  })();

  const bytes = Buffer.from(line("é-1"));
  const ids = (answers: { id: unknown; error?: { code: number } }[]) =>
    answers.map((a) => a.error?.code ?? a.id);
  assert.deepEqual(
    ids(
      await odd(
        t,
        socket,
        [...bytes].map((byte) => Buffer.from([byte])),
        1,
      ),
    ),
    ["é-1"],
  );
  assert.deepEqual(ids(await odd(t, socket, [line(1) + line(2) + line(3)], 3)), [1, 2, 3]);
  const smile = Buffer.from(line("😀"));
  const cut = smile.indexOf(0xf0) + 2;
  assert.deepEqual(ids(await odd(t, socket, [smile.subarray(0, cut), smile.subarray(cut)], 1)), ["😀"]);
  assert.deepEqual(ids(await odd(t, socket, [`\r\n\n  \n${line(1).replace("\n", "\r\n")}`], 1)), [1]);
  assert.deepEqual(ids(await odd(t, socket, [line("a\u2028b\u2029c")], 1)), ["a\u2028b\u2029c"]);
  assert.deepEqual(ids(await odd(t, socket, [line("x".repeat(2e6))], 1)), ["x".repeat(2e6)]);
  const deep = `{"jsonrpc":"2.0","id":1,"method":"ping","params":${'{"a":'.repeat(1e5)}1${"}".repeat(1e5)}}\n`;
  assert.deepEqual(ids(await odd(t, socket, [deep + line(9)], 2)), [-32700, 9]);
  assert.deepEqual(ids(await odd(t, socket, [`garbage{\n${line(7)}`], 2)), [-32700, 7]);
  assert.deepEqual(ids(await odd(t, socket, ["GET / HTTP/1.1\r\nHost: x\r\n\r\n"], 2)), [-32700, -32700]);
  const mega = Buffer.alloc(1 << 20, 0x61);
  const endless = await odd(
    t,
    socket,
    Array.from({ length: 64 }, () => mega),
    1,
  );
  assert.deepEqual(ids(endless), [1005]);
  const half = connect(socket);
  half.on("error", () => {});
  half.end(line(1).slice(0, 20));
  await once(half.resume(), "close");

  busy = false;
  await watch;
  assert.ok(rss() - before < 6 * MAX_FRAME_BYTES, `memory rose by ${(rss() - before) >> 20} MB`);
  times.sort((a, b) => a - b);
  // The bound of the case is 200 ms on a machine of its own; here other tests run beside.
  assert.ok(times.at(-1)! < 2_000 && times[times.length >> 1]! < 200, `slowest ${times.at(-1)} ms`);
  assert.equal(daemon.child.exitCode, null);
});

test("case 45 get-file-escape: no path leaves the snapshot; links are answered as links", async (t) => {
  const { dir, repo, daemon } = await bench(t);
  symlinkSync(join(dir, "real"), join(dir, "link"));
  mkdirSync(join(dir, "outside"));
  writeFileSync(join(dir, "outside/secret"), "TOP-SECRET");
  mkdirSync(join(dir, "real/repo-evil"));
  writeFileSync(join(dir, "real/repo-evil/x"), "TWIN");
  symlinkSync("/etc/passwd", join(repo.dir, "src/pw"));
  symlinkSync(join(dir, "outside"), join(repo.dir, "src/out"));
  symlinkSync("src/f.txt", join(repo.dir, "alias"));
  const base = repo.commit();
  const stray = repo.blob("in the repository, not in the snapshot");
  await until("ready", () => daemon.ready, READY_MS);
  const person = await personOf(t, join(dir, "link/repo/.git"));
  const spec = runSpec("r", [taskSpec("t")], { repo: repo.common, base });
  await person.call("submit_run", { spec });
  const get = (path: string) => person.call("get_file", { run: "r", task_id: "t", path });

  assert.equal((await get("src/f.txt")).content, "base\n");
  assert.deepEqual([(await get("src/pw")).mode, (await get("src/pw")).content], ["120000", "/etc/passwd"]);
  assert.deepEqual([(await get("alias")).mode, (await get("alias")).content], ["120000", "src/f.txt"]);
  const wrong = ["../repo-evil/x", "../../outside/secret", `${dir}/outside/secret`, `${repo.dir}/src/f.txt`];
  wrong.push(
    "src/../../repo-evil/x",
    ".git/config",
    "src//f.txt",
    "./src/f.txt",
    "src/f.txt/",
    ".",
    "src/f.txt\0.png",
  );
  for (const path of wrong) await assert.rejects(get(path), (e) => isCode(e, "BAD_PATH"), path);
  await assert.rejects(get("src"), (e) => isCode(e, "NOT_A_FILE"));
  const tree = repo.git("rev-parse", "HEAD^{tree}");
  const absent = ["src/out/secret", "SRC/F.TXT", "HEAD", "HEAD:src/f.txt", "--help", base, tree, stray];
  for (const path of [...absent, base.slice(1), `${base}0`])
    await assert.rejects(get(path), (e) => isCode(e, "NO_SUCH_FILE"), path);
  const calls = 5 + wrong.length + 1 + absent.length + 2;
  const records = await until("every call is in the audit log", async () => {
    const page = await person.call("query_audit", { method: "get_file" });
    return page.records.length >= calls && page.records;
  });
  assert.equal(records.length, calls);
  assert.ok(records.every((record) => record.request_id && record.response_time_ms !== undefined));
});
