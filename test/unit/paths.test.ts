// Places of a bus (B1, case 64 socket-path-too-long, case 62 stale-socket): short, private, found by everybody.

import assert from "node:assert/strict";
import { chmodSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import {
  busPaths,
  checkSocketPath,
  type Endpoint,
  makeDirectories,
  makePrivateDir,
  readEndpoint,
  repoKey,
  taskSocketPath,
  writeEndpoint,
} from "../../bus/paths.ts";
import { isCode } from "../../schemas/errors.ts";
import { tempDir } from "../helpers/temp.ts";

const uid = process.getuid?.() ?? 0;
const endpoint: Endpoint = {
  v: 1,
  socket: "/run/x/bus.sock",
  state_dir: "/s",
  runtime_dir: "/run/x",
  pid: 4242,
  start_time: "99",
  boot_id: "b",
};

test("case 64 socket-path-too-long: bytes are counted, and 107 is the bound", () => {
  assert.equal(checkSocketPath(`/${"a".repeat(106)}`).length, 107);
  assert.throws(
    () => checkSocketPath(`/${"a".repeat(107)}`),
    (e) => isCode(e, "SOCKET_PATH_TOO_LONG") && /108 bytes, limit 107: \/a/.test(e.message),
  );
  assert.throws(
    () => checkSocketPath(`/${"ü".repeat(60)}`),
    (e) => isCode(e, "SOCKET_PATH_TOO_LONG"),
  );
});

test("case 64 socket-path-too-long: a deep repository gets a short socket, two deep ones get two", (t) => {
  const dir = tempDir(t);
  const deep = join(dir, "a-rather-long-directory-name/".repeat(5), "ünïcode dir");
  const [a, b] = [join(deep, "repoA"), join(deep, "repoB")];
  for (const each of [a, b]) mkdirSync(each, { recursive: true });
  const env = { HOME: dir, BUSBAR_RUNTIME_DIR: "/tmp/r" };
  const [pa, pb] = [busPaths(a, env, uid), busPaths(b, env, uid)];
  assert.notEqual(pa.socket, pb.socket);
  assert.ok(Buffer.byteLength(pa.socket) < 80);
  assert.equal(pa.endpoint, join(a, "busbar/endpoint.json"));
  const ref = { run: "r".repeat(64), task: "t".repeat(64), attempt: 12 };
  assert.ok(Buffer.byteLength(taskSocketPath(pa.runtime, ref)) < 80);
  assert.notEqual(taskSocketPath(pa.runtime, ref), taskSocketPath(pa.runtime, { ...ref, attempt: 13 }));
});

test("case 63 two-daemons: the key is the repository's identity, not the path as typed", (t) => {
  const dir = tempDir(t);
  mkdirSync(join(dir, "repo/.git"), { recursive: true });
  symlinkSync(join(dir, "repo"), join(dir, "link"));
  const env = { HOME: dir };
  assert.equal(
    busPaths(join(dir, "link/.git"), env, uid).key,
    busPaths(join(dir, "repo/.git"), env, uid).key,
  );
  assert.equal(repoKey("/x"), repoKey("/x"));
  assert.throws(
    () => busPaths(join(dir, "nothing"), env, uid),
    (e) => isCode(e, "NOT_A_REPOSITORY"),
  );
});

test("B1: the state directory follows the environment; a relative value is refused or, for XDG, counts as unset", (t) => {
  const dir = tempDir(t);
  const state = (env: Record<string, string>) => busPaths(dir, env, uid).state;
  assert.match(state({ HOME: "/h" }), /^\/h\/\.local\/state\/busbar\/[0-9a-f]{12}$/);
  assert.match(state({ HOME: "/h", XDG_STATE_HOME: "/x" }), /^\/x\/busbar\//);
  assert.match(state({ HOME: "/h", XDG_STATE_HOME: "x" }), /^\/h\//);
  assert.match(state({ HOME: "/h", BUSBAR_STATE_DIR: "/own" }), /^\/own\/[0-9a-f]{12}$/);
  assert.throws(
    () => state({ HOME: "/h", BUSBAR_STATE_DIR: "own" }),
    (e) => isCode(e, "USAGE"),
  );
});

test("case 62 stale-socket: directories are 0700 and ours, or refused", (t) => {
  const dir = tempDir(t);
  mkdirSync(join(dir, "repo"));
  const env = { BUSBAR_STATE_DIR: join(dir, "state"), BUSBAR_RUNTIME_DIR: join(dir, "run") };
  const paths = busPaths(join(dir, "repo"), env, uid);
  makeDirectories(paths, uid);
  for (const made of [paths.state, paths.runtime, paths.tokens, join(paths.runtime, "t")])
    assert.equal(statSync(made).mode & 0o777, 0o700, made);

  const refused = (path: string, as = uid) =>
    assert.throws(
      () => makePrivateDir(path, as),
      (e) => isCode(e, "UNSAFE_DIRECTORY"),
    );
  mkdirSync(join(dir, "open"));
  chmodSync(join(dir, "open"), 0o777);
  refused(join(dir, "open"));
  symlinkSync(paths.state, join(dir, "link"));
  refused(join(dir, "link"));
  writeFileSync(join(dir, "file"), "");
  refused(join(dir, "file"));
  refused(paths.state, uid + 1);
  refused(join(dir, "open", "inside")); // anybody could rename it away
  mkdirSync(join(dir, "readable"), { mode: 0o755 });
  makePrivateDir(join(dir, "readable"), uid);
  assert.equal(statSync(join(dir, "readable")).mode & 0o777, 0o700);
});

test("B1: the endpoint file is 0600 and comes back as written", (t) => {
  const file = join(tempDir(t), "endpoint.json");
  writeEndpoint(file, endpoint);
  assert.deepEqual(readEndpoint(file), endpoint);
  assert.equal(statSync(file).mode & 0o777, 0o600);
  writeEndpoint(file, { ...endpoint, pid: 4243 });
  assert.equal(readEndpoint(file)?.pid, 4243);
});

test("case 62 stale-socket: a nonsense endpoint counts as none", (t) => {
  const file = join(tempDir(t), "endpoint.json");
  assert.equal(readEndpoint(file), null);
  for (const pid of [-1, 0, 1, 1.5, "4242", null]) {
    writeFileSync(file, JSON.stringify({ ...endpoint, pid }));
    assert.equal(readEndpoint(file), null, `pid ${pid}`);
  }
  for (const text of [
    "",
    "abc",
    "null",
    "[]",
    "{}",
    JSON.stringify({ ...endpoint, v: 2 }),
    '{"v":1,"socket":3}',
  ]) {
    writeFileSync(file, text);
    assert.equal(readEndpoint(file), null, text);
  }
  assert.ok(readFileSync(file));
});

test("a directory that cannot be made or used is a typed error that names the place and the reason, and ends at once", (t) => {
  const dir = tempDir(t);
  writeFileSync(join(dir, "file"), "");
  symlinkSync("ring-b", join(dir, "ring-a"));
  symlinkSync("ring-a", join(dir, "ring-b"));
  const refused = (path: string, why: RegExp, as = uid) =>
    assert.throws(
      () => makePrivateDir(path, as),
      (e) => isCode(e, "DIRECTORY_UNUSABLE") && why.test(e.message) && e.message.includes(path),
      path,
    );
  // Node's own recursive mkdir never comes back from this one.
  refused("/proc/nope/key/logs", /nothing can be made in \/proc \(ENOENT\)/);
  refused(join(dir, "file/key"), /file is not a directory \(ENOTDIR\)/);
  refused(join(dir, "ring-a/key"), /the symbolic link .*ring-a leads in a circle \(ELOOP\)/);
  refused(join(dir, "n".repeat(300)), /the name is too long/);
  const closed = join(dir, "closed");
  mkdirSync(closed, { mode: uid === 0 ? 0o700 : 0 });
  if (uid === 0) process.seteuid?.(65_534);
  try {
    refused(join(closed, "key"), /no permission at .* \(EACCES\)/, process.geteuid?.());
  } finally {
    if (uid === 0) process.seteuid?.(0);
  }
  mkdirSync(join(dir, "repo"));
  writeFileSync(join(dir, "repo/busbar"), "");
  const env = { BUSBAR_STATE_DIR: join(dir, "state"), BUSBAR_RUNTIME_DIR: join(dir, "run") };
  assert.throws(
    () => makeDirectories(busPaths(join(dir, "repo"), env, uid), uid),
    (e) => isCode(e, "DIRECTORY_UNUSABLE") && /git directory/.test(String(e.data.help)),
  );
});

test("issue 3: a state directory that is reached by a link is its real one, also before it is there", (t) => {
  const dir = tempDir(t, "paths-link");
  mkdirSync(join(dir, "repo/.git"), { recursive: true });
  mkdirSync(join(dir, "disk"));
  symlinkSync(join(dir, "disk"), join(dir, "link"));
  const at = (state: string) =>
    busPaths(join(dir, "repo/.git"), { BUSBAR_STATE_DIR: state, BUSBAR_RUNTIME_DIR: dir }, 1000).state;
  assert.equal(at(join(dir, "link/a/b")), at(join(dir, "disk/a/b")));
  assert.equal(dirname(at(join(dir, "link/a/b"))), join(dir, "disk/a/b"));
});
