// Written before the work: what titleCase must do. Restored from the base before every check.

import assert from "node:assert/strict";
import { test } from "node:test";
import { titleCase } from "../src/title.mjs";

test("words begin with a capital letter", () => {
  assert.equal(titleCase("hello world"), "Hello World");
});

test("small words stay small, but for the first", () => {
  assert.equal(titleCase("the lord of the rings"), "The Lord of the Rings", "small words stay small");
});
