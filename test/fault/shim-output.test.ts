// What a process prints: too much of it (case 38), and things that nobody may read (case 40, L6).

import assert from "node:assert/strict";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { LOG_HEAD_BYTES, LOG_TAIL_BYTES } from "../../schemas/limits.ts";
import { AGENTS, shimWorld } from "../helpers/shim-run.ts";

/** The whole is 1,000,000,000. */
const BYTES = Number(process.env.BUSBAR_LOG_BYTES ?? 200_000_000);
const PATIENCE_MS = 120_000 + BYTES / 2_000;
const agent = (name: string) => ["/bin/sh", join(AGENTS, name)];

test("case 38 runaway-output: bounded log, head and tail kept, small shim, the agent not harmed", async (t) => {
  const world = await shimWorld(t);
  const run = world.start(
    world.job(agent("runaway.sh"), { env: { BYTES: String(BYTES) }, timeout_ms: PATIENCE_MS }),
  );
  let peak = 0;
  let onDisk = 0;
  const look = setInterval(() => {
    try {
      const hwm = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${run.child.pid}/status`, "latin1"))?.[1];
      peak = Math.max(peak, Number(hwm ?? 0) / 1024);
      const sizes = readdirSync(run.job.dir).map((name) => statSync(join(run.job.dir, name)).size);
      onDisk = Math.max(
        onDisk,
        sizes.reduce((a, b) => a + b, 0),
      );
    } catch {
      // between two files, or at the end
    }
  }, 20);
  t.after(() => clearInterval(look));
  const outcome = await run.end(PATIENCE_MS);
  const log = run.log();
  assert.deepEqual([outcome.reason, outcome.exit], ["exit", 0]);
  assert.ok(log.startsWith("FIRST-LINE\nxxx"));
  assert.ok(log.endsWith("\nTHE-REAL-ERROR: port 4711 in use\n"));
  const left = Number(/\n\[busbar: (\d+) bytes left out\]\n/.exec(log)?.[1]);
  assert.equal(left, outcome.log_dropped);
  assert.equal(outcome.log_bytes + outcome.log_dropped, BYTES + 45);
  assert.ok(log.length <= LOG_HEAD_BYTES + LOG_TAIL_BYTES + 100);
  assert.ok(onDisk <= 2 * (LOG_HEAD_BYTES + LOG_TAIL_BYTES), `${onDisk} bytes on disk`);
  assert.match(outcome.log_tail, /THE-REAL-ERROR/);
  assert.ok(outcome.log_tail.length <= 8_192);
  assert.equal(run.exists("agent.log.tail"), false);
  assert.ok(peak > 0 && peak < 100, `peak of the shim: ${peak} MB`);
});

test("a flood that never ends is ended by the time-out, not before", async (t) => {
  const world = await shimWorld(t);
  const run = world.start(world.job(["/bin/sh", "-c", "yes flood"], { timeout_ms: 700 }));
  const outcome = await run.end();
  assert.equal(outcome.reason, "timeout");
  assert.ok(outcome.log_dropped > 0);
  assert.ok(run.log().endsWith("flood\n") || run.log().includes("flood"));
});

test("case 40 secrets-in-output: no file of the attempt and no report holds a secret in any known form", async (t) => {
  const world = await shimWorld(t);
  const key = "sk-test-51HxQ9aZbYcXdWeVfUgT";
  const password = "pa55:w@rd/with+chars";
  const run = world.start(
    world.job(agent("secrets.sh"), {
      env: { DEMO_API_KEY: key, DEMO_PASSWORD: password },
      secrets: [
        { name: "DEMO_API_KEY", value: key },
        { name: "DEMO_PASSWORD", value: password },
      ],
    }),
  );
  const outcome = await run.end();
  const forbidden = [
    key,
    password,
    encodeURIComponent(password),
    "wJalrXUtnFEMI",
    Buffer.from(key).toString("hex"),
    Buffer.from(`user:${key}:x`).toString("base64").slice(10, 40),
    "shim-token-0123456789",
    "agent-token-0123456789",
  ];
  const texts = [
    ...readdirSync(run.job.dir).map((name) => readFileSync(join(run.job.dir, name), "utf8")),
    JSON.stringify(world.bus.of("complete")[0]?.params),
    run.said(),
  ];
  for (const text of texts)
    for (const word of forbidden) assert.ok(!text.includes(word), `${word} is in ${text}`);
  const log = run.log();
  assert.match(log, /^plain: \[redacted:DEMO_API_KEY\]\n\[redacted:DEMO_API_KEY\]\n/);
  assert.match(log, /Authorization: Bearer \[redacted:DEMO_API_KEY\]\n/);
  assert.match(log, /\/\/user:\[redacted:[a-zA-Z_-]+\]@example\.com\/x\.git\n/);
  assert.match(log, /aws_secret_access_key = \[redacted:aws-secret-key\]\n/);
  assert.match(log, /\nharmless words stay as they are\n$/);
  assert.ok(outcome.leftovers.some((p) => p.command.includes("[redacted:DEMO_API_KEY]")));
});

test("neither tokens nor secrets are in arguments or environment of the shim", async (t) => {
  const world = await shimWorld(t);
  const run = world.start(
    world.job(
      ["/bin/sh", "-c", 'tr "\\0" "\\n" < /proc/$PPID/cmdline; tr "\\0" "\\n" < /proc/$PPID/environ; env'],
      {
        secrets: [{ name: "KEY", value: "a-very-secret-value" }],
      },
    ),
  );
  await run.end();
  assert.match(run.log(), /bus-shim\.cjs/);
  assert.doesNotMatch(run.log(), /token-0123|very-secret|redacted/);
});
