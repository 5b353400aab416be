// Running programs for the demo: git, and busctl as a person would call it.

import { spawn, spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";

/** A headline. */
export function say(text) {
  console.log(`\n== ${text}\n`);
}

export function fail(message) {
  console.error(`demo: ${message}`);
  process.exit(2);
}

/** Output of git in `cwd`; throws with git's words. `git stash list` and the like give "" when there is nothing. */
export function git(cwd, ...args) {
  const result = spawnSync("git", args, {
    cwd,
    encoding: "utf8",
    maxBuffer: 64 * 1024 * 1024,
    env: gitEnvironment(),
  });
  if (result.error) throw new Error(`git ${args[0]}: ${result.error.code}`);
  if (result.status !== 0) throw new Error(`git ${args.join(" ")}: ${result.stderr.trim()}`);
  return result.stdout;
}

/** Neither the caller's GIT_DIR nor an editor, pager or prompt. */
function gitEnvironment() {
  const env = { ...process.env, GIT_TERMINAL_PROMPT: "0" };
  for (const name of Object.keys(env))
    if (/^GIT_(DIR|WORK_TREE|INDEX_FILE|OBJECT_DIRECTORY|COMMON_DIR)$/.test(name)) delete env[name];
  return env;
}

/**
 * busctl for the repository of the demo, with state and sockets below `world`:
 * `busctl(...)` and `busctl.live(...)` show their output, `busctlText(...)` gives it.
 */
export function programs(root, world, repo) {
  const main = join(root, "dist", "bus", "ctl", "main.js");
  const own = { BUSBAR_STATE_DIR: join(world, "state"), BUSBAR_RUNTIME_DIR: join(world, "run") };
  for (const dir of Object.values(own)) mkdirSync(dir, { mode: 0o700, recursive: true });
  const env = { ...gitEnvironment(), ...own };
  const argv = (args) => [main, "--repo", repo, ...args];
  const name = (args) => `busctl ${args.join(" ").replaceAll(`${repo}/`, "")}`;

  const busctl = (...args) => {
    console.log(`$ ${name(args)}`);
    const { status } = spawnSync(process.execPath, argv(args), {
      cwd: repo,
      env,
      stdio: ["ignore", "inherit", "inherit"],
    });
    return { what: name(args), status };
  };
  // Not blocking, so that Ctrl-C reaches the demo while the run goes on.
  busctl.live = async (...args) => {
    console.log(`$ ${name(args)}`);
    const child = spawn(process.execPath, argv(args), {
      cwd: repo,
      env,
      stdio: ["ignore", "inherit", "inherit"],
    });
    const status = await new Promise((resolve) =>
      child.on("close", (code, signal) => resolve(code ?? signal)),
    );
    return { what: name(args), status };
  };
  const busctlText = (...args) =>
    spawnSync(process.execPath, argv(args), { cwd: repo, env, encoding: "utf8", maxBuffer: 64 * 1024 * 1024 })
      .stdout;
  const environment = Object.entries(own)
    .map(([key, value]) => `${key}=${value}`)
    .join(" ");
  return { busctl, busctlText, environment };
}

/** Throws unless the program ended with one of these codes. */
export function show({ what, status }, expected) {
  if (!expected.includes(status))
    throw new Error(`${what} ended with ${status}, not ${expected.join(" or ")}`);
}
