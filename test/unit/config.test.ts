// The configuration: where it is read from, how files go over each other, how faults are named.

import assert from "node:assert/strict";
import { test } from "node:test";
import { HOST_CONFIG, loadConfig } from "../../bus/config.ts";
import { isCode } from "../../schemas/errors.ts";
import { DISK_LIMIT_PERCENT } from "../../schemas/limits.ts";

const PERSON = "/home/p/.config/busbar/config.yaml";

function load(files: Record<string, string>, env: Record<string, string> = {}) {
  const known = new Map(Object.entries(files));
  return loadConfig({
    env,
    home: "/home/p",
    readFile(path) {
      const text = known.get(path);
      if (text === undefined) throw Object.assign(new Error("none"), { code: "ENOENT" });
      if (text === "EACCES") throw Object.assign(new Error("none"), { code: "EACCES" });
      return text;
    },
  });
}

test("W6: without files all is default", () => {
  const config = load({});
  assert.equal(config.disk_limit_percent, DISK_LIMIT_PERCENT);
  assert.equal(config.workers, undefined);
  assert.deepEqual(load({ [PERSON]: "" }), config);
  assert.deepEqual(load({ [PERSON]: "# nothing\n" }), config);
});

test("design 7: the person's file goes over the host's, key by key", () => {
  const config = load({
    [HOST_CONFIG]:
      "workers: 20\ngc_idle_s: 60\nlimits: {preset: medium, pids: 9, nofile: 100}\nenv: {pass: [A, B]}\n",
    [PERSON]: "workers: 4\nlimits: {pids: 12, memory: 512M, cpus: 2, strict: true}\nenv: {pass: [C]}\n",
  });
  assert.equal(config.workers, 4);
  assert.equal(config.gc_idle_s, 60);
  // Limits bind whoever wrote them: the stricter counts.
  assert.deepEqual(config.limits, {
    memory: 512 * 1024 ** 2,
    pids: 9,
    cpus: 0.5,
    nofile: 100,
    disk: 4 * 1024 ** 3,
    strict: true,
  });
  assert.deepEqual(config.env.pass, ["C"]);
});

test("design 7: BUSBAR_CONFIG, then XDG_CONFIG_HOME, then ~/.config", () => {
  const files = {
    "/x/own.yaml": "workers: 1",
    "/xdg/busbar/config.yaml": "workers: 2",
    [PERSON]: "workers: 3",
  };
  assert.equal(load(files, { BUSBAR_CONFIG: "/x/own.yaml", XDG_CONFIG_HOME: "/xdg" }).workers, 1);
  assert.equal(load(files, { XDG_CONFIG_HOME: "/xdg" }).workers, 2);
  assert.equal(load(files, { XDG_CONFIG_HOME: "relative" }).workers, 3);
  assert.equal(load(files).workers, 3);
});

test("faults are BAD_CONFIG with file, line and the nearest word; a file asked for must be there", () => {
  const rows: [string, RegExp][] = [
    [
      "workers: 4\ndisk_limit: 90\n",
      /config.yaml:2:1: error: unknown key "disk_limit"\n {2}did you mean "disk_limit_percent"\?/,
    ],
    ["workers: many\n", /config.yaml:1:10: error: workers must be a number, not the text "many"/],
    ["workers: 0\n", /1:10: error: workers must be at least 1/],
    ["workers: 1\nworkers: 2\n", /2:1: error: the key "workers" is given twice; first at line 1/],
    [
      "agents:\n  mine: {comand: x}\n",
      /2:10: error: unknown key "comand" in agents.mine\n {2}did you mean "command"\?/,
    ],
    ["- a\n", /1:1: error: this must be a mapping, not a list/],
    ["a: [\n", /error: not valid YAML/],
    ["EACCES", /reading the configuration .*: EACCES/],
  ];
  for (const [text, expected] of rows)
    assert.throws(
      () => load({ [PERSON]: text }),
      (error: unknown) => {
        assert.ok(isCode(error, "BAD_CONFIG"), String(error));
        assert.match(error.message, expected);
        return true;
      },
    );
  assert.throws(
    () => load({}, { BUSBAR_CONFIG: "/x/none.yaml" }),
    /reading the configuration \/x\/none.yaml: ENOENT/,
  );
});
