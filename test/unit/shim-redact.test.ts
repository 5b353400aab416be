// L6: whatever way the output is cut into pieces, no form of a secret gets through and nothing else is changed.

import assert from "node:assert/strict";
import test from "node:test";
import fc from "fast-check";
import { secretForms } from "../../schemas/secret-forms.ts";
import { frameRedactor, redactor, redactText, type Secret } from "../../shim/redact.ts";

const KEY = "sk-test-51HxQ9aZbYcXdWeVfUgT";
const PASSWORD = "pa55:w@rd/with+chars";
const SECRETS: Secret[] = [
  { name: "KEY", value: KEY },
  { name: "PASSWORD", value: PASSWORD },
];

function inPieces(secrets: Secret[], text: Buffer, cuts: number[]): string {
  const out: Buffer[] = [];
  const stage = redactor(secrets, (bytes) => out.push(Buffer.from(bytes)));
  const ends = [...cuts.map((c) => c % (text.length + 1)), text.length].sort((a, b) => a - b);
  let from = 0;
  for (const end of ends) {
    const piece = Buffer.from(text.subarray(from, end));
    stage.push(piece);
    piece.fill(0x21); // the reader's buffer is used again
    from = end;
  }
  stage.end();
  return Buffer.concat(out).toString("utf8");
}

const FORMS: [string, string][] = [
  ["raw", PASSWORD],
  ["URL-encoded", encodeURIComponent(PASSWORD)],
  ["URL-encoded in small letters", encodeURIComponent(PASSWORD).toLowerCase()],
  ["hex", Buffer.from(PASSWORD).toString("hex")],
  ["HEX", Buffer.from(PASSWORD).toString("hex").toUpperCase()],
];
for (const [what, form] of FORMS)
  test(`a secret is redacted: ${what}`, () => {
    assert.equal(redactText(SECRETS, `a ${form} b`), "a [redacted:PASSWORD] b");
  });

test("base64 is found wherever the secret stands in the encoded text", () => {
  for (const before of ["", "a", "ab", "abc"]) {
    const encoded = Buffer.from(`${before}${PASSWORD}xyz`).toString("base64");
    const text = redactText(SECRETS, encoded);
    assert.match(text, /\[redacted:PASSWORD\]/, before);
    assert.ok(text.length < encoded.length, before);
    const plain = Buffer.from(text.replace("[redacted:PASSWORD]", "")).toString();
    assert.ok(!Buffer.from(plain, "base64").toString("latin1").includes("w@rd"), before);
  }
});

test("a value with quotes, newlines and control characters is found in JSON and in the shell", () => {
  const secrets = [{ name: "S", value: 'it\'s "a"\nsecret\\/of mine' }];
  const value = secrets[0]?.value ?? "";
  for (const form of [value, JSON.stringify(value).slice(1, -1), value.replaceAll("'", "'\\''")])
    assert.equal(redactText(secrets, `<${form}>`), "<[redacted:S]>");
});

test("the lines of a key file are found one by one", () => {
  const lines = ["first-line-of-the-key", "second-line-of-the-key"];
  const text = redactText(
    [{ name: "PEM", value: lines.join("\n") }],
    `    ${lines[0]}\r\n    ${lines[1]}\r\n`,
  );
  assert.equal(text, "    [redacted:PEM]\r\n    [redacted:PEM]\r\n");
});

test("values shorter than four characters are ignored; empty and lone surrogates do no harm", () => {
  const secrets = ["", "abc", "\ud800abcd"].map((value, i) => ({ name: `S${i}`, value }));
  assert.equal(redactText(secrets, "abc abc"), "abc abc");
});

test("overlapping secrets are taken as one, nested ones by the longer", () => {
  const secrets = [
    { name: "A", value: "abc123xyz" },
    { name: "B", value: "xyz789" },
    { name: "C", value: "xyz789-and-more" },
  ];
  for (let cut = 0; cut < 30; cut++) {
    assert.equal(inPieces(secrets, Buffer.from("<abc123xyz789>"), [cut]), "<[redacted:A]>");
    assert.equal(inPieces(secrets, Buffer.from("<xyz789-and-more>"), [cut]), "<[redacted:C]>");
    assert.equal(inPieces(secrets, Buffer.from("<xyz789-and>"), [cut]), "<[redacted:B]-and>");
  }
});

const PATTERNS: [string, string][] = [
  ["Authorization: Bearer abcDEF123456.xyz-9 ", "Authorization: Bearer [redacted:authorization] "],
  ['"authorization": "token abcdef123456"', '"authorization": "token [redacted:authorization]"'],
  ["curl -H 'Bearer abcdefghij0123456789'", "curl -H 'Bearer [redacted:bearer-token]'"],
  ["key sk-ant-api03-abcdefghijklmnop.", "key [redacted:api-key]."],
  ["ghp_0123456789abcdefghijABCDEFGHIJ012345\n", "[redacted:github-token]\n"],
  ["github_pat_11ABCDEFG0123456789_abcdefghij", "[redacted:github-token]"],
  ["xoxb-1234567890-abcdef", "[redacted:slack-token]"],
  ["id AKIAIOSFODNN7EXAMPLE", "id [redacted:aws-access-key]"],
  [
    "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\n",
    "aws_secret_access_key = [redacted:aws-secret-key]\n",
  ],
  ["git clone https://me:hunter2@host/x.git", "git clone https://me:[redacted:url-password]@host/x.git"],
  [
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc\n-----END RSA PRIVATE KEY-----\nafter",
    "[redacted:private-key]\nafter",
  ],
];
for (const [text, right] of PATTERNS)
  test(`known by its looks, however it is cut: ${right.trim()}`, () => {
    const bytes = Buffer.from(`x ${text}`);
    for (let cut = 0; cut <= bytes.length; cut++)
      assert.equal(inPieces([], bytes, [cut, cut + 7]), `x ${right}`, `cut at ${cut}`);
    assert.equal(inPieces([], bytes, [...bytes.keys()]), `x ${right}`, "byte by byte");
  });

test("ordinary words are left alone", () => {
  const text =
    "Bearer authentication is required; task-1 of disk-usage-report-of-today; http://localhost:3000/a@b\n" +
    "Authorization is needed: see https://example.com:8080/x?y=a:b@c and mail me@example.com\n" +
    "-----BEGIN CERTIFICATE-----\nMIID\n-----END CERTIFICATE-----\nbrisk-and-long-compound-word\n";
  assert.equal(redactText(SECRETS, text), text);
});

test("a private key that never ends swallows a bounded part only", () => {
  const text = `-----BEGIN PRIVATE KEY-----\n${"A\n".repeat(200_000)}the end\n`;
  const out: Buffer[] = [];
  const stage = redactor([], (bytes) => out.push(Buffer.from(bytes)));
  for (let at = 0; at < text.length; at += 1_000) stage.push(Buffer.from(text.slice(at, at + 1_000)));
  stage.end();
  assert.match(Buffer.concat(out).toString(), /^\[redacted:private-key\][A\n]+the end\n$/);
});

test("nothing is held back but what may be the beginning of a secret", () => {
  let got = "";
  const stage = redactor(SECRETS, (bytes) => {
    got += bytes.toString();
  });
  stage.push(Buffer.from("50 %... "));
  assert.equal(got, "50 %... ");
  stage.push(Buffer.from(KEY.slice(0, 12)));
  assert.equal(got, "50 %... ");
  stage.push(Buffer.from("!\n"));
  assert.equal(got, `50 %... ${KEY.slice(0, 12)}!\n`);
});

test("property: in any pieces, no form of a secret is left and the rest stays byte for byte", () => {
  const noise = fc.string({ unit: fc.constantFrom("a", "b", "\n", "-", "0", "é", " "), maxLength: 12 });
  const forms = SECRETS.flatMap((s) =>
    secretForms(s.value).map((f) => ({ name: s.name, text: f.toString() })),
  );
  const part = fc.oneof(
    noise.map((text) => ({ name: "", text })),
    fc.constantFrom(...forms),
  );
  fc.assert(
    fc.property(fc.array(part, { maxLength: 8 }), fc.array(fc.nat(), { maxLength: 12 }), (parts, cuts) => {
      const spaced = parts.map((p) => (p.name ? ` ${p.text} ` : p.text));
      const bytes = Buffer.from(spaced.join(""));
      const out = inPieces(SECRETS, bytes, cuts);
      for (const { text } of forms) assert.ok(!out.includes(text), `${text} in ${out}`);
      assert.equal(out, inPieces(SECRETS, bytes, []), "the pieces do not matter");
      const expected = parts.map((p) => (p.name ? ` [redacted:${p.name}] ` : p.text)).join("");
      assert.equal(out, expected);
    }),
    { numRuns: 300 },
  );
});

test("issue 4.4, L6: lines keep their form; a value that is cut into pieces is found; nothing is held beyond a line", () => {
  const out: Buffer[] = [];
  const stage = frameRedactor(SECRETS, (bytes) => out.push(bytes));
  const text = `{"a":"${KEY}"}\n{"b":"sk-te"}\n{"c":"${PASSWORD}`;
  for (const byte of Buffer.from(text)) {
    const piece = Buffer.from([byte]);
    stage.push(piece);
    piece.fill(0x21);
    if (byte === 0x0a) assert.equal(Buffer.concat(out).at(-1), 0x0a);
  }
  stage.end();
  assert.equal(
    Buffer.concat(out).toString(),
    '{"a":"[redacted:KEY]"}\n{"b":"sk-te"}\n{"c":"[redacted:PASSWORD]',
  );
});

test("issue 4.4, L6: a value is found in a frame however JSON writes its characters; other frames stay as they came", () => {
  const value = "p\u00e4ss<w\u00f6rd>&17";
  const run = (text: string) => {
    const out: Buffer[] = [];
    const stage = frameRedactor([{ name: "KEY", value }], (bytes) => out.push(bytes));
    stage.push(Buffer.from(text));
    stage.end();
    return Buffer.concat(out).toString();
  };
  const escaped = [...value].map((c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");
  for (const written of [value, escaped, value.replace("<", "\\u003c").replace("&", "\\u0026")])
    assert.equal(
      run(`{"a":["${written}"],"${written}":1}\n`),
      '{"a":["[redacted:KEY]"],"[redacted:KEY]":1}\n',
    );
  const plain = '{"a": "p\\u00e4ss", "n": 1.50}\n';
  assert.equal(run(plain), plain);
  assert.equal(run(`not json ${value}\n`), "not json [redacted:KEY]\n");
});
