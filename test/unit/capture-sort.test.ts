import assert from "node:assert/strict";
import { test } from "node:test";
import type { Touched } from "../../scheduler/capture-scan.ts";
import { sort } from "../../scheduler/capture-sort.ts";
import { MAX_ALLOWED_FILE_BYTES, MAX_CAPTURED_BYTES, MAX_CAPTURED_FILE_BYTES } from "../../schemas/limits.ts";

const file = (name: string, size: number): Touched => ({
  name,
  oldMode: "",
  oldOid: "",
  disk: { is: "file", mode: "100644", size },
});
const found = (touched: Touched[]) => ({ touched, nested: [], gitlinks: [], ignored: [] });
const names = (list: readonly Touched[]) => list.map(({ name }) => name);

test("one file: at the limit, beyond it, allowed by name, beyond what any name allows, known to be unchanged", () => {
  const files = [
    file("at", MAX_CAPTURED_FILE_BYTES),
    file("over", MAX_CAPTURED_FILE_BYTES + 1),
    file("named", MAX_ALLOWED_FILE_BYTES),
    file("never", MAX_ALLOWED_FILE_BYTES + 1),
    file("same", MAX_ALLOWED_FILE_BYTES / 2),
  ];
  const allowLarge = (path: string) => path === "named" || path === "never";
  const { inside, refused } = sort({ allowLarge }, found(files), new Set(["same"]));
  assert.deepEqual(names(inside), ["at", "named", "same"]);
  assert.deepEqual(
    refused.map(({ path, rule }) => `${rule} ${path}`),
    ["oversize over", "oversize never"],
  );
  assert.match(refused[1]?.why ?? "", new RegExp(`has ${MAX_ALLOWED_FILE_BYTES + 1} bytes`));
});

test("many files: the largest are refused until the rest fits, in scope or not; each with its size and the sum", () => {
  const size = MAX_CAPTURED_FILE_BYTES;
  const many = Array.from({ length: MAX_CAPTURED_BYTES / size + 1 }, (_, n) => file(`n${n}`, size - n));
  const inScope = (path: string) => path !== "n1";
  const { inside, outside, refused } = sort({ inScope }, found(many));
  const read = [...inside, ...outside].reduce(
    (sum, { disk }) => sum + (disk.is === "file" ? disk.size : 0),
    0,
  );
  assert.ok(read <= MAX_CAPTURED_BYTES);
  assert.equal(inside.length + outside.length + refused.length, many.length);
  assert.equal(refused[0]?.path, "n0");
  assert.match(refused[0]?.why ?? "", /has \d+ of \d+ changed bytes; more than \d+ in all are never taken/);
});
