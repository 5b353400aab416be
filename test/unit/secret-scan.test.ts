// L6, G4: what stops a change, where it is, and what it costs.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { leakInText } from "../../scheduler/secret-scan.ts";

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
