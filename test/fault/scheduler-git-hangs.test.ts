// A git child of the scheduler that never ends and takes no TERM: nobody waits for it longer than somebody waits for us.

import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { git } from "../../bus/git/run.ts";
import { isCode } from "../../schemas/errors.ts";
import { isAlive, processesOf } from "../helpers/processes.ts";
import { tempDir } from "../helpers/temp.ts";
import { until } from "../helpers/wait.ts";
import { makeWorld, type World } from "../helpers/world.ts";

/** A world whose programs find a git that hangs in hash-object as soon as W/hang is there; each tells its pid. */
function hanging(t: TestContext): World & { pids(): number[] } {
  const world = makeWorld(t);
  const { W } = world;
  const real = world.sh("command -v git").trim();
  mkdirSync(join(W, "path"));
  mkdirSync(join(W, "hung"));
  const wrapper = `#!/bin/bash
for word; do
  if [ "$word" = hash-object ] && [ -e "${W}/hang" ]; then
    trap '' TERM
    : > "${W}/hung/$$"
    while :; do read -t 5 _ <> <(:); done
  fi
done
exec "${real}" "$@"
`;
  writeFileSync(join(W, "path", "git"), wrapper, { mode: 0o755 });
  world.env.PATH = `${join(W, "path")}:${world.env.PATH}`;
  return { ...world, pids: () => readdirSync(join(W, "hung")).map(Number) };
}

test("O8: down while a capture hangs in git: no process is left when it returns", async (t) => {
  const world = hanging(t);
  const plan = world.plan([{ id: "a", command: "echo a > a.txt", allowed_files: ["a.txt"] }]);
  writeFileSync(join(world.W, "hang"), "");
  assert.equal((await world.busctl(["run", "--detach", plan])).code, 0);
  await until("git hangs", () => world.pids().length > 0);
  const down = await world.busctl(["down"]);
  assert.deepEqual(processesOf(world.W), [], down.out + down.err);
  assert.deepEqual(world.pids().filter(isAlive), []);
  assert.equal(down.code, 0, down.err);
});

test("O8: a cancelled task's git is ended at once, and its work is kept by another", async (t) => {
  const world = hanging(t);
  const plan = world.plan([{ id: "a", command: "echo a > a.txt", allowed_files: ["a.txt"] }]);
  writeFileSync(join(world.W, "hang"), "");
  assert.equal((await world.busctl(["run", "--detach", plan])).code, 0);
  await until("git hangs", () => world.pids().length > 0);
  world.sh("rm hang");
  assert.equal((await world.busctl(["cancel", "r/a"])).code, 0);
  await until("the hanging git is ended", () => !world.pids().some(isAlive));
  const refs = () => world.git("for-each-ref", "--format=%(refname)", "refs/busbar/attempts");
  await until("the work is kept", () => refs() !== "");
  assert.equal(world.git("show", `${refs().split("\n")[0]}:a.txt`), "a");
});

test("a git call that is stopped: typed, its whole group is gone, and none is started after that", async (t) => {
  const dir = tempDir(t, "stop");
  const hang = `alias.hang=!trap '' TERM; echo $$ > ${dir}/pid.new; mv ${dir}/pid.new ${dir}/pid; while :; do sleep 600; done`;
  const stop = new AbortController();
  const call = git(["hang"], { config: [hang], signal: stop.signal });
  await until("it hangs", () => existsSync(join(dir, "pid")));
  stop.abort();
  await assert.rejects(call, (error) => isCode(error, "GIT_STOPPED"));
  assert.equal(isAlive(Number(readFileSync(join(dir, "pid"), "utf8"))), false);
  await assert.rejects(git(["version"], { signal: stop.signal }), (error) => isCode(error, "GIT_STOPPED"));
});

/** A world in which `shell` runs before each git by which the scheduler asks for the branch of r; `$N` is which. */
function asked(t: TestContext, shell: string): World {
  const world = makeWorld(t);
  const { W } = world;
  const real = world.sh("command -v git").trim();
  mkdirSync(join(W, "path"));
  const wrapper = `#!/bin/bash
if [[ " $* " == *" rev-parse "*" refs/heads/busbar/r "* ]] && tr '\\0' ' ' < /proc/$PPID/cmdline | grep -q scheduler/main.js; then
  echo >> "${W}/asked"
  N=$(wc -l < "${W}/asked")
  ${shell}
fi
exec "${real}" "$@"
`;
  writeFileSync(join(W, "path", "git"), wrapper, { mode: 0o755 });
  world.env.PATH = `${join(W, "path")}:${world.env.PATH}`;
  return world;
}

const A = { id: "a", command: "echo a > a.txt", allowed_files: ["a.txt"] };

test("issue 3.1: git is killed while the branch is looked at: looked at again, nobody is asked, and the run ends", async (t) => {
  const world = asked(t, "case $N in 2|3) kill -KILL $$ ;; esac");
  const ran = await world.run([A]);
  assert.equal(ran.code, 0, ran.out + ran.err);
  const log = world.sh("cat state/*/logs/scheduler.log");
  assert.match(log, /the run waits until its branch was looked at.*SIGKILL/);
  assert.doesNotMatch(log, /the run is paused/);
});

test("issue 3.1: a person is asked after the fourth look that failed; from resume on looks are counted anew", async (t) => {
  // After the run was let go on it fails twice more, then never again.
  const shell = `W=$(dirname "$0")/..
  if [ -e "$W/resumed" ]; then echo >> "$W/later"; [ $(wc -l < "$W/later") -gt 2 ] || kill -KILL $$
  elif [ $N -gt 1 ]; then kill -KILL $$; fi`;
  const world = asked(t, shell);
  assert.equal((await world.busctl(["run", "--detach", world.plan([A])])).code, 0);
  const log = () => world.sh("cat state/*/logs/scheduler.log");
  await until("a person is asked", () => /the run is paused.*cannot be looked at.*SIGKILL/.test(log()));
  writeFileSync(join(world.W, "resumed"), "");
  assert.equal((await world.busctl(["resume", "r"])).code, 0);
  const pauses = () => log().split("the run is paused").length - 1;
  await until("it landed, or is paused again", () => pauses() > 1 || /"message":"landed"/.test(log()));
  assert.equal(pauses(), 1, log());
});
