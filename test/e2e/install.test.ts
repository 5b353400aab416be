// scripts/install into a root of the test's own: what it writes, what an upgrade keeps, and that nothing is left. With a real
// systemd the same is done by `npm run test:guest` (issue 4.8).

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { tempDir } from "../helpers/temp.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const PREFIX = "/srv/programs/busbar";

function install(source: string, root: string, ...words: string[]) {
  const args = [join(source, "scripts/install.mjs"), ...words, "--destdir", root, "--prefix", PREFIX];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
  return { code: status, out: stdout, err: stderr };
}

/** A copy of the installed release that counts as another build. */
function anotherBuild(root: string, name: string): string {
  const source = join(root, "..", name);
  cpSync(join(root, PREFIX, "current"), source, { recursive: true, dereference: true });
  writeFileSync(join(source, "dist/.stamp"), name);
  return source;
}

function allFiles(dir: string): string[] {
  return readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map(({ parentPath, name }) => join(parentPath, name));
}

test("O6: installed into a prefix of its own with units; works from there; upgraded beside what runs; removed without a trace", (t) => {
  const root = join(tempDir(t, "install"), "root");
  const first = install(ROOT, root);
  assert.equal(first.code, 0, first.err);
  const top = join(root, PREFIX);
  const units = readdirSync(join(root, "etc/systemd/system")).sort();
  assert.deepEqual(units, [
    "busbar-bus@.service",
    "busbar-scheduler@.service",
    "busbar-shim.socket",
    "busbar-shim@.service",
    "busbar-tasks.slice",
    "busbar.slice",
  ]);
  for (const unit of units)
    assert.doesNotMatch(readFileSync(join(root, "etc/systemd/system", unit), "utf8"), /@[A-Z]+@/, unit);
  assert.deepEqual(readdirSync(join(top, "bin")), ["busctl"]);
  const said = spawnSync(process.execPath, [join(top, "current/dist/bus/ctl/main.js"), "--version"], {
    encoding: "utf8",
    cwd: "/",
  });
  assert.equal(said.status, 0, said.stderr);

  const releases = () => readdirSync(join(top, "releases"));
  const [oldest = ""] = releases();
  const second = anotherBuild(root, "second");
  assert.equal(install(second, root, "upgrade").code, 0);
  assert.match(readlinkSync(join(top, "current")), /second$/);
  assert.ok(releases().includes(oldest), "what was started from the release before goes on from there");
  assert.equal(install(second, root, "upgrade").code, 0);
  assert.ok(releases().includes(oldest), "the same build once more changes nothing");
  assert.equal(install(anotherBuild(root, "third"), root, "upgrade").code, 0);
  assert.deepEqual(
    releases()
      .map((name) => name.replace(/^.*-/, ""))
      .sort(),
    ["second", "third"],
  );

  const removed = install(ROOT, root, "remove");
  assert.equal(removed.code, 0, removed.err);
  assert.deepEqual(allFiles(root), []);
});

test("O6: install refuses what it cannot do, in one line, and writes nothing", (t) => {
  const root = join(tempDir(t, "install"), "root");
  for (const [words, why] of [
    [["install", "--prefix", "relative"], /must be an absolute path/],
    [["upgrade"], /nothing is installed/],
    [["add"], /needs a repository/],
    [["mend"], /no such command: mend/],
  ] as const) {
    const args = [join(ROOT, "scripts/install.mjs"), ...words, "--destdir", root];
    const { status, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
    assert.equal(status, 1);
    assert.match(stderr, why);
    assert.equal(stderr.trim().split("\n").length, 1);
  }
  assert.equal(existsSync(root), false);
});
