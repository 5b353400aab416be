// The words of busctl: verbs, options, addresses, completion, hand-over to systemd's tool, failures.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { parseAddress, resolveRun, resolveTask } from "../../bus/ctl/address.ts";
import { completionScript } from "../../bus/ctl/completion.ts";
import { EXIT, exitCodeOf } from "../../bus/ctl/exit-codes.ts";
import { failureText } from "../../bus/ctl/failure.ts";
import { findSystemTool, SYSTEMD_VERBS, verbOf } from "../../bus/ctl/handover.ts";
import { parseVerb } from "../../bus/ctl/parse.ts";
import { mainHelp, verbHelp } from "../../bus/ctl/render/help.ts";
import { palette } from "../../bus/ctl/render/palette.ts";
import { findVerb, VERBS } from "../../bus/ctl/verb-table.ts";
import { BusbarError } from "../../schemas/errors.ts";
import { fakeBus, iso, makeRun, makeSummary, makeTask, merged, running } from "../helpers/ctl-fakes.ts";
import { tempDir } from "../helpers/temp.ts";

const p = palette(false);
const verb = (name: string) => {
  const found = findVerb(name);
  assert.ok(found, name);
  return found;
};

test("no verb of ours is a verb of systemd's busctl, and each loads", async () => {
  for (const { name, load } of VERBS) {
    assert.equal(SYSTEMD_VERBS.has(name), false, name);
    assert.equal(typeof (await load()).run, "function", name);
  }
  assert.equal(new Set(VERBS.map((v) => v.name)).size, VERBS.length);
});

test("help: fits 100 columns, names every verb, every verb has examples", () => {
  const text = mainHelp(VERBS, p, 100);
  for (const one of VERBS) {
    assert.ok(text.includes(`  ${one.name}`), one.name);
    const own = verbHelp(one, p, 100);
    assert.match(own, /\nExamples\n/);
    for (const line of own.split("\n")) assert.ok(line.length <= 100, line);
  }
  for (const line of text.split("\n")) assert.ok(line.length <= 100, line);
});

test("parse: values, flags, short forms; words stay words", () => {
  const args = parseVerb(verb("run"), ["-d", "plan.yaml", "--workers", "007", "--name=x"]);
  assert.deepEqual(args.words, ["plan.yaml"]);
  assert.equal(args.flag("detach"), true);
  assert.equal(args.whole("workers", 1), 7);
  assert.equal(args.text("name"), "x");
  assert.deepEqual(parseVerb(verb("cat"), ["0012:1"]).words, ["0012:1"]);
});

test("parse: what is wrong is said with the nearest right word", () => {
  const refused = (name: string, argv: string[], message: RegExp) =>
    assert.throws(
      () => parseVerb(verb(name), argv),
      (error: BusbarError) => error.code === "USAGE" && message.test(error.message),
      `${name} ${argv.join(" ")}`,
    );
  refused("run", ["x", "--detatch"], /no option --detatch; did you mean --detach\?/);
  refused("run", [], /needs FILE\|DIR/);
  refused("run", ["a", "b"], /does not take "b"/);
  refused("run", ["a", "--name"], /--name needs a value/);
  refused("up", ["\u202ex"], /\\u202e/);
  assert.throws(() => parseVerb(verb("run"), ["a", "--workers", "many"]).whole("workers", 1), /whole number/);
  assert.throws(() => parseVerb(verb("run"), ["a", "--workers", "0"]).whole("workers", 1), /at least 1/);
});

test("case 58 unsafe-ids: addresses check both ids, escaped in the message", () => {
  assert.deepEqual(parseAddress("r/t:a:b/c"), { run: "r", task: "t", path: "a:b/c" });
  assert.deepEqual(parseAddress("t"), { task: "t" });
  for (const bad of [
    "",
    "../x",
    "a/b/c",
    "-rf",
    "__proto__",
    "constructor",
    "x\u202ey",
    "a.lock",
    "r/",
    "/t",
  ]) {
    assert.throws(
      () => parseAddress(bad),
      (error: BusbarError) => error.code === "BAD_ID" && !/[^\x20-\x7e]/.test(error.message),
      bad,
    );
  }
});

function busWith(runs: Record<string, string[]>, live: string[]) {
  return fakeBus({
    list_runs: () => ({
      runs: Object.keys(runs).map((run, i) =>
        makeSummary([], { run, created: iso(i), status: live.includes(run) ? "active" : "merged" }),
      ),
    }),
    get_task: ({ run, task }: { run: string; task: string }) => {
      if (!runs[run]?.includes(task)) throw new BusbarError("NO_SUCH_TASK", "no");
      return { task: makeTask(task, running(), { run }), run: makeRun([], { run }) };
    },
    list_tasks: ({ run }: { run: string }) => ({
      tasks: (runs[run] ?? []).map((task) => makeTask(task, merged(), { run })),
    }),
  });
}

test("addresses: the newest live run first; ambiguous and unknown ones are refused with the nearest", async () => {
  const bus = busWith({ old: ["a", "docs"], one: ["a", "b"], two: ["b"] }, ["one", "two"]);
  assert.equal((await resolveTask(bus, { task: "a" })).task.run, "one");
  assert.equal((await resolveTask(bus, { task: "docs" })).task.run, "old");
  assert.equal((await resolveTask(bus, { run: "old", task: "a" })).task.run, "old");
  await assert.rejects(resolveTask(bus, { task: "b" }), /two\/b, one\/b/);
  await assert.rejects(resolveTask(bus, { run: "old", task: "dosc" }), /no task "dosc"; did you mean docs\?/);
  await assert.rejects(resolveTask(bus, { run: "olb", task: "a" }), /no run "olb"; did you mean old\?/);
  assert.equal((await resolveRun(bus)).run, "two");
  await assert.rejects(resolveRun(fakeBus({ list_runs: () => ({ runs: [] }) })), { code: "NO_SUCH_RUN" });
});

test("completion: the scripts of bash, zsh and fish name every verb and are sound where the shell is here", (t) => {
  const dir = tempDir(t);
  for (const shell of ["bash", "zsh", "fish"] as const) {
    const script = completionScript(shell, VERBS);
    for (const { name } of VERBS) assert.ok(script.includes(name), `${shell}: ${name}`);
    const file = join(dir, shell);
    writeFileSync(file, script);
    const ran = spawnSync(shell, ["-n", file], { encoding: "utf8" });
    if (ran.error) t.diagnostic(`${shell} is not installed: its script was not parsed`);
    else assert.equal(ran.status, 0, `${shell}: ${ran.stderr}`);
  }
});

test("completion: bash completes verbs and options", () => {
  const ask = (words: string[]) => {
    const script = `${completionScript("bash", VERBS)}
COMP_WORDS=(busctl ${words.map((w) => `'${w}'`).join(" ")}); COMP_CWORD=${words.length}; _busctl; printf '%s\\n' "\${COMPREPLY[@]}"`;
    return spawnSync("bash", ["-c", script], { encoding: "utf8" }).stdout.trim().split("\n");
  };
  assert.deepEqual(ask(["comp"]), ["completion"]);
  assert.deepEqual(ask(["run", "--det"]), ["--detach"]);
  assert.deepEqual(ask(["--repo", "x", "completion", "f"]), ["fish"]);
});

test("hand-over: the verb is found behind options; ours is never taken for the other tool", (t) => {
  assert.equal(verbOf(["--user", "list"]), "list");
  assert.equal(verbOf(["--repo", "status", "tasks"]), "tasks");
  assert.equal(verbOf(["-H", "host", "tree"]), "tree");
  assert.equal(verbOf(["--help"]), undefined);
  const dir = tempDir(t);
  const make = (path: string, text: string) => {
    mkdirSync(join(path, ".."), { recursive: true });
    writeFileSync(path, text);
    chmodSync(path, 0o755);
  };
  make(join(dir, "ours/bus/ctl/main.js"), "");
  make(join(dir, "theirs/busctl"), "#!/bin/sh\n");
  mkdirSync(join(dir, "bin"));
  symlinkSync(join(dir, "ours/bus/ctl/main.js"), join(dir, "bin/busctl"));
  const path = `relative:${dir}/bin:${dir}/none:${dir}/theirs`;
  assert.equal(findSystemTool(path, "/somewhere/else"), join(dir, "theirs/busctl"));
  assert.notEqual(findSystemTool(`${dir}/theirs`, join(dir, "theirs/busctl")), join(dir, "theirs/busctl"));
});

test("failures: two lines, no stack; JSON with code and help; exit codes by kind", () => {
  const plain = { json: false, debug: false, p, width: Number.POSITIVE_INFINITY };
  const error = new BusbarError("NOT_A_REPOSITORY", "/x is not\x1b[2J in a repository");
  assert.equal(
    failureText(error, plain),
    "busctl: /x is not\\x1b[2J in a repository\n  -> Go into a git repository, or name one with --repo.\n",
  );
  assert.equal(
    failureText(error, { ...plain, width: 36 }),
    "busctl: /x is not\\x1b[2J in a\n  repository\n  -> Go into a git repository, or name\n     one with --repo.\n".replace(
      "or name\n     one",
      "or\n     name one",
    ),
  );
  const parsed = JSON.parse(failureText(error, { ...plain, json: true }));
  assert.equal(parsed.error.code, "NOT_A_REPOSITORY");
  assert.doesNotMatch(failureText(new TypeError("x is not a function"), plain), /\bat /);
  assert.match(failureText(new TypeError("boom"), { ...plain, debug: true }), /\bat /);
  assert.equal(exitCodeOf(error), EXIT.refused);
  assert.equal(exitCodeOf(new BusbarError("BUS_AWAY", "")), EXIT.infra);
  assert.equal(exitCodeOf(new TypeError("x")), EXIT.infra);
});
