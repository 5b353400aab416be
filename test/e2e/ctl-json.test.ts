// What PROTOCOL.md says about `busctl --json` is what busctl answers: the names at the top of every answer.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { makeWorld } from "../helpers/world.ts";

/** `| \`verb\` | \`name\`, \`name\`, ... |` between the markers, by verb. */
function documented(): Map<string, string[]> {
  const page = readFileSync(new URL("../../PROTOCOL.md", import.meta.url), "utf8");
  const part = page.split("<!-- json:begin -->")[1]?.split("<!-- json:end -->")[0] ?? "";
  const rows = [...part.matchAll(/^\| `([^`]+)` \| (.+) \|$/gm)];
  return new Map(
    rows.map(([, verb = "", names = ""]) => [verb, [...names.matchAll(/`(\w+)`/g)].map((m) => m[1] ?? "")]),
  );
}

test("every answer of busctl --json has exactly the names that PROTOCOL.md lists", async (t) => {
  const w = makeWorld(t);
  const page = documented();
  const seen = new Map<string, string[]>();
  const ask = async (row: string, args: string[]): Promise<string> => {
    const { out, err } = await w.busctl([...args, "--json"]);
    assert.notEqual(out, "", `${row}: ${err}`);
    if (row !== "run") seen.set(row, Object.keys(JSON.parse(out)).sort());
    return out;
  };
  const plan = w.plan([
    { id: "a", command: "echo a > a.txt", allowed_files: ["a.txt"] },
    { id: "b", command: "exit 1", allowed_files: ["b.txt"] },
    { id: "c", command: "echo c > c.txt", allowed_files: ["c.txt"], review: true },
    { id: "d", command: "echo d > d.txt", allowed_files: ["d.txt"], review: true },
  ]);
  await ask("init", ["init"]);
  await ask("plan", ["plan", plan]);
  await ask("run --dry-run", ["run", plan, "--dry-run"]);
  await ask("up", ["up"]);
  const lines = (await ask("run", ["run", plan])).trimEnd().split("\n");
  for (const line of lines) {
    const { type, ...rest } = JSON.parse(line);
    seen.set(`run: ${type}`, ["type", ...Object.keys(rest)].sort());
  }
  await ask("tasks", ["tasks", "--run", "r"]);
  await ask("tasks --task", ["tasks", "--task", "r/a"]);
  await ask("cat", ["cat", "r/a:a.txt"]);
  await ask("ls", ["ls", "r/a"]);
  await ask("diff", ["diff", "r/a"]);
  await ask("patch", ["patch", "r/a"]);
  await ask("report", ["report", "r"]);
  await ask("pause", ["pause", "r"]);
  await ask("resume", ["resume", "r"]);
  await ask("approve", ["approve", "r/c"]);
  await ask("reject", ["reject", "r/d", "--reason", "no"]);
  await ask("grant", ["grant", "r/b", "e.txt"]);
  await ask("cancel", ["cancel", "r/b"]);
  await ask("retry", ["retry", "r/b"]);
  await ask("doctor", ["doctor"]);
  await ask("verify", ["verify"]);
  await ask("gc", ["gc", "--dry-run"]);
  await ask("down", ["down"]);
  for (const [row, names] of seen) assert.deepEqual(page.get(row)?.toSorted(), names, row);
  assert.deepEqual(
    [...page.keys()].filter((row) => !seen.has(row)),
    ["run: trouble", "run: away", "run: paused", "run: detached", "run: stopped"],
  );
});
