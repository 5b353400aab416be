// get_file, list_files, write_manifest over a real server and a real repository (B2, B4, W3, case 45 get-file-escape).

import assert from "node:assert/strict";
import { chmodSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { type ErrorCode, isCode } from "../../schemas/errors.ts";
import type { ListAnswer } from "../../schemas/methods.ts";
import { running } from "../helpers/fake-store.ts";
import { GitRepo } from "../helpers/git-repo.ts";
import { liveServer } from "../helpers/live-server.ts";
import { tempDir } from "../helpers/temp.ts";

const binary = Buffer.from([0, 255, 254, 10, 13]);

async function bench(t: TestContext) {
  const dir = tempDir(t, "reads");
  const repo = new GitRepo(join(dir, "repo"));
  repo.write("src/f.txt", 'base ünï \u2028 "quoted" \\ \0\n');
  repo.write("src/empty", "");
  repo.write("bin.dat", binary);
  repo.write("run.sh", "#!/bin/sh\n");
  chmodSync(join(repo.dir, "run.sh"), 0o755);
  symlinkSync("/etc/passwd", join(repo.dir, "src/pw"));
  repo.write("__proto__", "proto\n");
  const base = repo.commit();
  repo.git("update-index", "--add", "--cacheinfo", `160000,${base},sub`);
  repo.git("commit", "-qm", "sub");
  const head = repo.git("rev-parse", "HEAD");
  const server = await liveServer(t, { gitDir: repo.common });
  server.store.putRun("r", head);
  server.store.putTask("r", "t", { state: running(1, head, dir), base: head, workspace: dir });
  const changed = (path: string, text: string | null) =>
    text === null ? { path, mode: null, oid: null } : { path, mode: "100644", oid: repo.blob(text) };
  const publish = (version: number, files: Record<string, string | null>) =>
    server.store.putSnapshot("r", "t", {
      attempt: 1,
      version,
      commit: head,
      tree: "e".repeat(40),
      base: head,
      changed: Object.entries(files).map(([path, text]) => changed(path, text)),
    });
  const agent = await server.client("agent", { run: "r", task: "t", attempt: 1 });
  return { dir, repo, head, server, agent, publish };
}

const code = (wanted: ErrorCode) => (error: unknown) => isCode(error, wanted);

test("B2: content, mode, id and size of every kind of file", async (t) => {
  const { repo, head, agent } = await bench(t);
  const file = await agent.call("get_file", { path: "src/f.txt" });
  assert.equal(file.content, readFileSync(join(repo.dir, "src/f.txt"), "utf8"));
  assert.deepEqual(
    [file.encoding, file.mode, file.version, file.commit, file.oid],
    ["utf8", "100644", 0, head, repo.git("rev-parse", "HEAD:src/f.txt")],
  );
  assert.equal(file.size, Buffer.byteLength(file.content));
  assert.equal((await agent.call("get_file", { path: "src/empty" })).content, "");
  const bin = await agent.call("get_file", { path: "bin.dat" });
  assert.deepEqual([bin.encoding, Buffer.from(bin.content, "base64")], ["base64", binary]);
  assert.equal((await agent.call("get_file", { path: "run.sh" })).mode, "100755");
  const link = await agent.call("get_file", { path: "src/pw" });
  assert.deepEqual([link.mode, link.content], ["120000", "/etc/passwd"]);
  assert.equal((await agent.call("get_file", { path: "__proto__" })).content, "proto\n");
});

test("B2: the published snapshot answers, never the working file; changed, new and deleted paths", async (t) => {
  const { repo, agent, publish } = await bench(t);
  repo.write("src/f.txt", "only in the working tree");
  assert.match((await agent.call("get_file", { path: "src/f.txt" })).content, /^base/);
  publish(1, { "src/f.txt": "one", "new/deep/file": "n", "run.sh": null });
  const at = async (path: string) => (await agent.call("get_file", { path, version: 1 })).content;
  assert.equal(await at("src/f.txt"), "one");
  assert.equal(await at("new/deep/file"), "n");
  await assert.rejects(at("run.sh"), code("NO_SUCH_FILE"));
  await assert.rejects(at("new/deep"), code("NOT_A_FILE"));
  assert.match((await agent.call("get_file", { path: "src/f.txt" })).content, /^base/); // pinned at version 0
  assert.equal((await agent.call("get_file", { path: "src/f.txt", fresh: true })).content, "one");
});

test("case 45 get-file-escape: every bad path is one typed error", async (t) => {
  const { repo, agent } = await bench(t);
  const bad = [
    "../x",
    "../../outside/secret",
    "/etc/passwd",
    `${repo.dir}/src/f.txt`,
    "src/../../x",
    ".git/config",
  ];
  for (const path of [
    ...bad,
    "src//f.txt",
    "./src/f.txt",
    "src/f.txt/",
    "src/f.txt\0.png",
    ".",
    "",
    "a/.GIT/b",
  ])
    await assert.rejects(agent.call("get_file", { path }), code("BAD_PATH"), path);
  for (const path of ["src", "sub"])
    await assert.rejects(agent.call("get_file", { path }), code("NOT_A_FILE"));
  for (const path of [
    "SRC/F.TXT",
    "src/pw/x",
    "HEAD",
    "HEAD:src/f.txt",
    "--help",
    "a".repeat(40),
    "constructor",
  ])
    await assert.rejects(agent.call("get_file", { path }), code("NO_SUCH_FILE"), path);
  await assert.rejects(agent.call("get_file", { path: 3 as never }), code("INVALID_PARAMS"));
  await assert.rejects(agent.call("get_file", { path: "x", oid: "a" } as never), code("INVALID_PARAMS"));
});

test("B4: each read is recorded with the request id and the time of its answer, failed ones too", async (t) => {
  const { server, agent } = await bench(t);
  const answer = await agent.call("get_file", { path: "src/f.txt" });
  await assert.rejects(agent.call("get_file", { path: "nothing" }));
  const [read, failed] = server.store.records.slice(-2);
  assert.equal(read?.request_id, answer.request_id);
  assert.ok((read?.response_time_ms ?? -1) >= answer.response_time_ms);
  assert.deepEqual([read?.run, read?.task, read?.attempt, read?.actor], ["r", "t", 1, "agent:r/t#1"]);
  const { slow: _, ...access } = read?.access ?? {}; // on a busy machine it may be said to be
  assert.deepEqual(access, { path: "src/f.txt", version: 0, oid: answer.oid });
  assert.deepEqual(failed?.access, { path: "nothing", version: 0, error: "NO_SUCH_FILE" });
});

test("list_files: prefix, pages, changes on top", async (t) => {
  const { agent, publish } = await bench(t);
  publish(1, { "src/a": "1", "src/empty": null, zz: "2" });
  const all = await agent.call("list_files", {});
  assert.deepEqual(
    all.files.map((file) => file.path),
    ["__proto__", "bin.dat", "run.sh", "src/a", "src/f.txt", "src/pw", "sub", "zz"],
  );
  assert.equal(all.next, undefined);
  const under = await agent.call("list_files", { prefix: "src/" });
  assert.deepEqual(
    under.files.map((file) => file.path),
    ["src/a", "src/f.txt", "src/pw"],
  );
  const paged: string[] = [];
  for (let after: string | undefined = ""; after !== undefined; ) {
    const page: ListAnswer = await agent.call("list_files", { limit: 3, after });
    paged.push(...page.files.map((file) => file.path));
    after = page.next;
  }
  assert.deepEqual(
    paged,
    all.files.map((file) => file.path),
  );
  await assert.rejects(agent.call("list_files", { prefix: "../" }), code("BAD_PATH"));
});

test("W3: the manifest names mode and blob of every file of the newest snapshot", async (t) => {
  const { dir, head, repo, server, publish } = await bench(t);
  publish(1, { "src/f.txt": "one", "src/empty": null });
  const scheduler = await server.client("scheduler");
  const answer = await scheduler.call("write_manifest", { run: "r", task: "t", attempt: 1 });
  assert.equal(answer.manifest, join(dir, "workspace_manifest.json"));
  const manifest = JSON.parse(readFileSync(answer.manifest, "utf8"));
  assert.deepEqual(Object.keys(manifest.files).length, answer.files);
  assert.deepEqual(manifest.files["src/f.txt"], { mode: "100644", oid: repo.blob("one") });
  assert.equal(manifest.files["src/empty"], undefined);
  assert.ok(Object.hasOwn(manifest.files, "__proto__"));
  assert.deepEqual([manifest.run, manifest.task, manifest.attempt, manifest.base], ["r", "t", 1, head]);
  assert.equal(readFileSync(join(dir, ".workspace_commit"), "utf8"), `${head}\n`);
});

test("subscribe: replay from a number, then live, without gap, filtered", async (t) => {
  const { server } = await bench(t);
  const { store } = server;
  const phase = (run: string) => ({ run, task: "t", attempt: 1, event: { type: "task.ready" } }) as const;
  for (let i = 0; i < 50; i++) store.emit(phase(i % 5 === 0 ? "other" : "r"));
  const scheduler = await server.client("scheduler");
  const seen: number[] = [];
  const kinds = new Set<string>();
  scheduler.on("event", (record) => {
    seen.push(record.seq);
    kinds.add(`${record.kind} ${record.run}`);
  });
  await scheduler.call("subscribe", { run: "r", from_seq: 10 });
  for (let i = 0; i < 200; i++) {
    store.emit(phase("r"));
    if (i % 20 === 0) await scheduler.call("ping", {});
  }
  await scheduler.call("ping", {});
  const expected = store.records
    .filter((r) => r.seq > 10 && r.kind === "event" && r.run === "r")
    .map((r) => r.seq);
  assert.deepEqual(seen, expected);
  assert.deepEqual([...kinds], ["event r"]);
  const before = store.listeners;
  scheduler.close();
  await scheduler.closed;
  await new Promise((resolve) => setImmediate(resolve));
  assert.ok(before === 1 && store.listeners <= 1);
});
