// The check that every effect has a fault point (scripts/tree/effects.ts) is shown trees that break its rule; and what
// an armed point does.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type TestContext, test } from "node:test";
import { effectFaults } from "../../scripts/tree/effects.ts";
import { readTree } from "../../scripts/tree/source.ts";
import { tempDir } from "../helpers/temp.ts";

const LIST = `export const P = [\n  "a.one",\n  "a.two",\n] as const;\n`;
const IMPORTS = `import { readFileSync, rmSync, writeFileSync } from "node:fs";\n`;
/** Uses both names, so that a tree is about one fault alone. */
const USES = `function uses() {\n  faultPoint("a.one");\n  faultPoint("a.two");\n}\n`;

/** Faults of one file as `line message`; the list of names and a file that uses them come with it. */
function faultsOf(t: TestContext, path: string, text: string, uses = USES): string[] {
  const root = tempDir(t, "effects");
  const files = { "schemas/fault-points.ts": LIST, "bus/uses.ts": uses, [path]: text };
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(root, name)), { recursive: true });
    writeFileSync(join(root, name), content);
  }
  return effectFaults(readTree(root)).map(({ file, line, message }) => `${file}:${line} ${message}`);
}

test("a point in the statement before the effect, in the same block: no fault", (t) => {
  const good = `${IMPORTS}export function f(x: string) {
  readFileSync(x);
  if (x) {
    faultPoint("a.one");
    rmSync(x);
  }
  for (const y of [x]) {
    faultPoint("a.two");
    if (y) writeFileSync(y, "");
  }
}\n`;
  assert.deepEqual(faultsOf(t, "shim/a.ts", good, ""), []);
});

const RED: [string, string, RegExp][] = [
  ["no point", "export function f() {\n  rmSync('x');\n}", /:3 rmSync has no faultPoint/],
  [
    "something between",
    "export function f() {\n  faultPoint('a.one');\n  readFileSync('x');\n  rmSync('x');\n}",
    /:5 rmSync has no faultPoint/,
  ],
  [
    "the point is outside the block",
    "export function f() {\n  faultPoint('a.one');\n  try {\n    rmSync('x');\n  } finally {\n  }\n}",
    /:5 rmSync has no faultPoint/,
  ],
  [
    "a loop without a block passes its point once",
    "export function f() {\n  faultPoint('a.one');\n  for (const x of ['y']) rmSync(x);\n}",
    /:4 rmSync has no statement of its own/,
  ],
  [
    "an arrow without a block",
    "export const f = () => rmSync('x');",
    /:2 rmSync has no statement of its own/,
  ],
  [
    "two effects behind one point",
    "export function f() {\n  faultPoint('a.one');\n  rmSync(String(writeFileSync('y', '')));\n}",
    /:4 writeFileSync and rmSync are in one statement/,
  ],
  [
    "an effect handed on under another name",
    "export const gone = rmSync;\nexport const a = { rmSync };",
    /:2 rmSync as a value/,
  ],
  [
    "a name that is put together",
    'export const f = (n: string) => faultPoint("a." + n);',
    /:2 the name .* is written out/,
  ],
  ["a name that is in no list", "export const f = () => faultPoint('a.three');", /:2 a.three is not in /],
];
for (const [what, text, expected] of RED)
  test(`found red: ${what}`, (t) => {
    const faults = faultsOf(t, "scheduler/a.ts", `${IMPORTS}${text}\n`).filter(
      (one) => !/stands at/.test(one),
    );
    assert.match(faults.join("\n"), expected);
  });

test("found red: writing git, a change at the bus, a signal, a listener, the state's disk, a door, a namespace", (t) => {
  const calls = [
    'controlGit(control, ["update-ref", "x"])',
    "repoGit(control, words)",
    'bus.call("land", {})',
    "bus.call(method, {})",
    'process.kill(1, "SIGKILL")',
    "server.listen(path)",
    "disk.rename(a, b)",
    "writeDurably(path, {})",
  ];
  const text = `import * as fs from "node:fs";\nexport async function f() {\n${calls.map((call) => `  await ${call};\n`).join("")}}\n`;
  const lines = faultsOf(t, "scheduler/a.ts", text).map((one) => Number(/:(\d+) /.exec(one)?.[1]));
  assert.deepEqual(lines, [1, ...calls.map((_, i) => i + 3)]);
  const reads = ['controlGit(control, ["ls-tree", "x"])', 'bus.call("get_task", {})', 'disk.open(path, "r")'];
  const quiet = `export async function f() {\n${reads.map((call) => `  await ${call};\n`).join("")}}\n`;
  assert.deepEqual(faultsOf(t, "scheduler/a.ts", quiet), []);
});

test("found red: a name that is used nowhere, and one that is used twice", (t) => {
  assert.match(
    faultsOf(t, "bus/a.ts", "", 'faultPoint("a.one");\n').join(),
    /a\.two is in the list and used nowhere/,
  );
  assert.match(
    faultsOf(t, "bus/z.ts", 'faultPoint("a.one");\n').join(),
    /a\.one stands at bus\/uses\.ts:2, too/,
  );
});

/** Passes one point three times with the points armed in `dir`, in a process of its own. */
function passes(dir: string): { signal: string | null; out: string } {
  const at = (path: string) => JSON.stringify(new URL(`../../${path}`, import.meta.url).href);
  const script = `const { armFaults } = await import(${at("bus/client/fault.ts")});
    const { faultPoint } = await import(${at("schemas/fault-points.ts")});
    armFaults(${JSON.stringify(dir)} || undefined);
    for (const n of [1, 2, 3]) { faultPoint("shim.start.before-spawn"); console.log(n); }`;
  const args = ["--import", import.meta.resolve("tsx"), "--input-type=module", "-e", script];
  const { signal, stdout } = spawnSync(process.execPath, args, { encoding: "utf8" });
  return { signal, out: stdout.trim().split("\n").join("") };
}

test("an armed point kills exactly one process at the pass that was asked for, and takes its file away", (t) => {
  const dir = tempDir(t, "fault");
  assert.deepEqual(passes(""), { signal: null, out: "123" }, "not armed: nothing");
  writeFileSync(join(dir, "shim.start.before-spawn"), "2");
  assert.deepEqual(passes(dir), { signal: "SIGKILL", out: "1" });
  assert.ok(!existsSync(join(dir, "shim.start.before-spawn")));
  assert.deepEqual(passes(dir), { signal: null, out: "123" }, "the next one lives");
  assert.deepEqual(readdirSync(join(dir, "passed")), ["shim.start.before-spawn"]);
});
