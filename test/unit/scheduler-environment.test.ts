import assert from "node:assert/strict";
import { test } from "node:test";
import { homesOf } from "../../scheduler/dirs.ts";
import { environmentOf, shimEnvironment } from "../../scheduler/environment.ts";

const spec = (more: { pass?: string[]; set?: Record<string, string>; secret?: string[] }) => ({
  pass: [],
  set: {},
  secret: [],
  ...more,
});
function make(host: Record<string, string>, ...specs: ReturnType<typeof spec>[]) {
  return environmentOf({
    host,
    homes: homesOf("/state/a"),
    binFirst: ["/state/a/bin"],
    binLast: ["/opt/node/bin"],
    notBelow: ["/repo", "/state"],
    ceiling: "/state/a",
    port: 20_001,
    facts: { BUSBAR_RUN: "r" },
    specs,
    sources: new Map(),
  });
}

test("W4: only the white list passes", () => {
  const { env } = make({
    PATH: "/usr/bin",
    PYTHONPATH: "/x",
    NODE_OPTIONS: "--require /x",
    LD_PRELOAD: "/x.so",
    npm_config_registry: "x",
    HOME: "/home/me",
    SSH_AUTH_SOCK: "/x",
    USER: "me",
    TZ: "UTC",
  });
  for (const name of ["PYTHONPATH", "NODE_OPTIONS", "LD_PRELOAD", "npm_config_registry", "SSH_AUTH_SOCK"])
    assert.equal(env[name], undefined, name);
  assert.equal(env.USER, "me");
  assert.equal(env.TZ, "UTC");
  assert.equal(env.HOME, "/state/a/home");
  assert.equal(env.TMPDIR, "/state/a/tmp");
  assert.equal(env.PORT, "20001");
  assert.equal(env.BUSBAR_RUN, "r");
});

test("case 18 git-env-leak: no variable that binds git gets in, not even by pass or set", () => {
  const leaked = {
    GIT_DIR: "/v/.git",
    GIT_INDEX_FILE: "/v/i",
    GIT_WORK_TREE: "/v",
    GIT_PREFIX: "",
    GIT_OBJECT_DIRECTORY: "/o",
  };
  const { env } = make(
    leaked,
    spec({ pass: Object.keys(leaked), set: { GIT_DIR: "/w", GIT_AUTHOR_NAME: "N" } }),
  );
  for (const name of Object.keys(leaked)) assert.equal(env[name], undefined, name);
  assert.equal(env.GIT_AUTHOR_NAME, "N");
  assert.equal(env.GIT_CEILING_DIRECTORIES, "/state/a");
});

test("case 44 gate-tampering: PATH holds nothing from the repository, the state or node_modules/.bin", () => {
  const { env } = make({
    PATH: "/repo/tools:/usr/bin:.:relative:/home/me/p/node_modules/.bin:/state/b/work:/repository/bin:/usr/bin/:",
  });
  assert.equal(env.PATH, "/state/a/bin:/usr/bin:/repository/bin:/usr/bin/:/opt/node/bin:/usr/local/bin:/bin");
});

test("case 21 localised-git, W4: UTF-8 is guaranteed; the user's own UTF-8 locale is kept", () => {
  assert.equal(make({}).env.LC_ALL, "C.UTF-8");
  assert.equal(make({ LANG: "de_DE.ISO-8859-1" }).env.LC_ALL, "C.UTF-8");
  assert.equal(make({ LANG: "de_DE.UTF-8" }).env.LC_ALL, "de_DE.UTF-8");
  assert.equal(make({ LANG: "de_DE.UTF-8", LC_ALL: "C" }).env.LC_ALL, "C.UTF-8");
});

test("L6, case 40 secrets-in-output: declared and key-like values are redacted, longest first", () => {
  const { secrets } = make(
    { API_TOKEN: "tokentoken", PLAIN: "plainplain", SHORT_KEY: "abc", MINE: "mine" },
    spec({
      pass: ["API_TOKEN", "PLAIN", "SHORT_KEY", "MINE"],
      set: { DB_PASSWORD: "pw-of-some-length" },
      secret: ["MINE"],
    }),
  );
  assert.deepEqual(secrets, [
    { name: "DB_PASSWORD", value: "pw-of-some-length" },
    { name: "API_TOKEN", value: "tokentoken" },
    { name: "MINE", value: "mine" },
  ]);
});

test("later specs win; a name that the host lacks is left out", () => {
  const { env } = make(
    { A: "host" },
    spec({ pass: ["A", "GONE"] }),
    spec({ set: { A: "task", constructor: "c" } }),
  );
  assert.equal(env.A, "task");
  assert.equal(Object.hasOwn(env, "GONE"), false);
  assert.equal(env.constructor as unknown, "c");
});

test("the shim itself starts with a small environment", () => {
  const env = shimEnvironment({
    PATH: "/usr/bin",
    NODE_OPTIONS: "--x",
    NODE_EXTRA_CA_CERTS: "/c",
    HOME: "/h",
  });
  assert.deepEqual(env, { PATH: "/usr/bin", LC_ALL: "C.UTF-8", HOME: "/h" });
});
