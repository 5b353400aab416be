// The catalogue of errors: numbers are unique and never reused, the page lists the same, the wire loses nothing.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { failureText } from "../../bus/ctl/failure.ts";
import { palette } from "../../bus/ctl/render/palette.ts";
import {
  BusbarError,
  ERRORS,
  type ErrorCode,
  fromWireError,
  ioError,
  isCode,
  RETIRED_RPC_NUMBERS,
  toWireError,
} from "../../schemas/errors.ts";
import { METHODS } from "../../schemas/methods.ts";

const page = readFileSync(new URL("../../PROTOCOL.md", import.meta.url), "utf8");
const entries = Object.entries(ERRORS) as [ErrorCode, (typeof ERRORS)[ErrorCode]][];

function part(name: string): string {
  const text = page.split(`<!-- ${name}:begin -->`)[1]?.split(`<!-- ${name}:end -->`)[0];
  assert.ok(text, `PROTOCOL.md holds the part ${name}`);
  return text;
}

test("numbers are unique, and none is a retired one", () => {
  const numbers = entries.map(([, entry]) => entry.rpc as number);
  assert.equal(new Set(numbers).size, numbers.length);
  for (const retired of RETIRED_RPC_NUMBERS) assert.ok(!numbers.includes(retired), `${retired} is retired`);
});

test("our own numbers stand sorted in the catalogue, outside the range that JSON-RPC keeps", () => {
  const own = entries.map(([, entry]) => entry.rpc as number).filter((rpc) => rpc > 0);
  assert.deepEqual(
    own,
    own.toSorted((a, b) => a - b),
  );
  for (const [code, { rpc }] of entries)
    assert.ok(rpc > 0 || (rpc <= -32600 && rpc >= -32768), `${code} ${rpc}`);
});

test("every error says what to do, in a sentence", () => {
  for (const [code, { help }] of entries) assert.match(help, /^\S.{10,}[.?]$/, code);
});

test("PROTOCOL.md lists exactly the catalogue", () => {
  const rows = [...part("errors").matchAll(/^\| (-?\d+) \| ([A-Z_]+) \| (yes|no) \| (.*) \|$/gm)];
  const onPage = rows.map(([, rpc, code, again]) => `${rpc} ${code} ${again}`).toSorted();
  const inCode = entries.map(([code, e]) => `${e.rpc} ${code} ${e.retryable ? "yes" : "no"}`).toSorted();
  assert.deepEqual(onPage, inCode);
});

test("PROTOCOL.md lists exactly the methods, with their roles", () => {
  const rows = [...part("methods").matchAll(/^\| `(\w+)` \| ([\w, ]+) \|/gm)];
  const onPage = rows.map(([, name, who]) => `${name}: ${who}`);
  const inCode = Object.entries(METHODS).map(
    ([name, { roles }]) => `${name}: ${roles === "any" ? "anybody" : roles.join(", ")}`,
  );
  assert.deepEqual(onPage, inCode);
});

test("an error survives the wire: code, message and facts", () => {
  for (const [code, { rpc }] of entries) {
    const wire = toWireError(new BusbarError(code, "reading a/b: it is gone", { path: "a/b" }));
    assert.equal(wire.code, rpc);
    const back = fromWireError(JSON.parse(JSON.stringify(wire)));
    assert.ok(isCode(back, code));
    assert.equal(back.message, "reading a/b: it is gone");
    assert.equal(back.data.path, "a/b");
  }
});

test("issue 2.6: advice that an error brings goes over the wire instead of the catalogue's", () => {
  const help = "busctl retry r/up";
  const over = (error: BusbarError) => fromWireError(toWireError(error)).data.help;
  assert.equal(over(new BusbarError("ILLEGAL_MOVE", "no", { help })), help);
  assert.equal(over(new BusbarError("ILLEGAL_MOVE", "no")), ERRORS.ILLEGAL_MOVE.help);
});

test("a foreign error becomes INTERNAL and keeps its text to itself", () => {
  const wire = toWireError(new TypeError("secret detail"), "r-7");
  assert.equal(wire.data?.code, "INTERNAL");
  assert.doesNotMatch(JSON.stringify(wire), /secret detail/);
  assert.equal(wire.data?.request_id, "r-7");
});

test("issue 3.4: EMFILE and ENFILE anywhere are no fault of busbar: typed, with the cure, and they may be tried again", () => {
  const cause = Object.assign(new Error("spawn git EMFILE"), { code: "EMFILE", syscall: "spawn git" });
  for (const error of [cause, new Error("reading", { cause })]) {
    const back = fromWireError(toWireError(error, "r-7"));
    assert.ok(isCode(back, "NO_DESCRIPTORS") && back.retryable);
    assert.match(back.message, /this process can open no more files \(spawn git: EMFILE\)/);
    assert.match(String(back.data.help), /ulimit -n/);
    const said = failureText(error, { json: false, debug: false, p: palette(false), width: 200 });
    assert.match(said, /can open no more files[\s\S]*ulimit -n/);
    assert.doesNotMatch(said, /fault of busbar/);
  }
  const all = Object.assign(new Error("x"), { code: "ENFILE" });
  assert.match(toWireError(all).message, /this machine can open no more files/);
});

test("an error of a foreign server is known by its number alone, and an unknown one is INTERNAL", () => {
  assert.equal(fromWireError({ code: -32601, message: "nope" }).code, "METHOD_NOT_FOUND");
  assert.equal(fromWireError({ code: 0, message: "odd" }).code, "INTERNAL");
  const poisoned = {
    code: 0,
    message: "odd",
    data: { code: "toString" as ErrorCode, help: "", retryable: false },
  };
  assert.equal(fromWireError(poisoned).code, "INTERNAL");
});

test("an I/O error names the deed, the path and the cause", () => {
  const cause = Object.assign(new Error("x"), { code: "ENOSPC" });
  const error = ioError("writing the checkpoint", "/s/c.json", cause, "STORAGE");
  assert.equal(error.message, "writing the checkpoint /s/c.json: ENOSPC");
  assert.ok(isCode(error, "STORAGE") && error.retryable);
});
