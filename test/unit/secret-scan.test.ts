// L6, G4: what stops a change, where it is, and what it costs.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { leakInText, withoutValues } from "../../scheduler/secret-scan.ts";

const VALUE = "pa55 w@rd-of-the-plan";
const secrets = [{ name: "KEY", value: VALUE }];
const TOKEN = `ghp_${"a1B2c3D4e5".repeat(3)}abcdef`;

test("L6, G4: kind and line are told, the secret never", async () => {
  const keys: [string, RegExp][] = [
    [TOKEN, /github/],
    [
      `-----BEGIN PRIVATE KEY-----\n${`${"MIIEvgIBADANBgkqhkiG9w0BAQEFAASC".repeat(2)}\n`.repeat(20)}-----END PRIVATE KEY-----`,
      /privatekey/,
    ],
    ["https://someone:pa55word@example.org/x.git", /basicauth/],
    [VALUE, /the value of the secret KEY/],
    [encodeURIComponent(VALUE), /the value of the secret KEY/],
    [Buffer.from(`user:${VALUE}:`).toString("base64"), /the value of the secret KEY/],
  ];
  for (const [text, what] of keys) {
    const leak = await leakInText(`one\ntwo ${text} \nlast\n`, { secrets });
    assert.match(leak?.what ?? "", what, text);
    assert.equal(leak?.line, 2);
    assert.ok(!leak?.what.includes(text));
  }
});

test("L6: ordinary text is none, also beside words that switch the rules off", async () => {
  assert.equal(
    await leakInText("const key = process.env.API_KEY;\nsk-learn\n// KEY\n", { secrets }),
    undefined,
  );
  assert.ok(await leakInText(`/* secretlint-disable */\n${TOKEN}\n`, { secrets }));
  assert.equal(await leakInText(TOKEN, { secrets, mayLook: () => true }), undefined);
  assert.ok(await leakInText(VALUE, { secrets, mayLook: () => true }));
});

test("L6: found wherever the pieces of a large text meet", async () => {
  const near = [256 * 1024, 512 * 1024];
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...near),
      fc.integer({ min: -80, max: 80 }),
      fc.boolean(),
      async (at, by, token) => {
        const secret = token ? ` ${TOKEN} ` : VALUE;
        const lines = "0123456789abcde\n".repeat(40_000);
        const text = lines.slice(0, at + by) + secret + lines.slice(0, 100_000);
        const leak = await leakInText(text, { secrets });
        assert.equal(leak?.line, text.slice(0, at + by).split("\n").length);
      },
    ),
    { numRuns: 20 },
  );
});

test("L6: what the base holds does not hide what is new; a value longer than the overlap of pieces is found", async () => {
  const long = Array.from({ length: 2_000 }, (_, n) => `${n}-0123456789`).join(".");
  for (const at of [230_000, 245_000, 255_000, 262_144]) {
    const leak = await leakInText(`${"x\n".repeat(at / 2)}${long}\n${"y\n".repeat(50_000)}`, {
      secrets: [{ name: "LONG", value: long }],
    });
    assert.equal(leak?.what, "the value of the secret LONG", String(at));
  }
});

test("L6: lines that every key file of a kind has do not make a text somebody's key", async () => {
  const body = "MIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgwggSkAgEAAoIBAQC7";
  const pem = `-----BEGIN PRIVATE KEY-----\n${body}\n-----END PRIVATE KEY-----`;
  const rules = { secrets: [{ name: "PEM", value: pem }], mayLook: () => true };
  assert.equal(
    await leakInText('if (text.startsWith("-----BEGIN PRIVATE KEY-----")) throw 1;', rules),
    undefined,
  );
  assert.match((await leakInText(`key = ${body}`, rules))?.what ?? "", /PEM/);
});

test("L6: names of files are told without values", () => {
  assert.equal(
    withoutValues(`src/${VALUE}.txt and ${encodeURIComponent(VALUE)}`, { secrets }),
    "src/[redacted:KEY].txt and [redacted:KEY]",
  );
});
