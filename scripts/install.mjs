// Puts busbar on a build host, as services of systemd: `scripts/install`, as root.
//
//   scripts/install [install]           into a prefix of its own, with user, units and sockets
//   scripts/install upgrade             the same over an older one: bus and scheduler are started anew, agents go on
//   scripts/install add REPOSITORY      bus and scheduler for this repository, now and at every boot
//   scripts/install forget REPOSITORY   ends them, and what runs for it
//   scripts/install remove              ends everything and leaves nothing, but what stands in the repositories
//
//   --prefix DIR   where the programs go (/opt/busbar); nothing outside of it, of /etc/systemd/system and of --state
//   --state DIR    the home of the user `busbar` (/var/lib/busbar)
//   --destdir DIR  writes below DIR and starts nothing: for packages, and for tests
//   --keep-state   `remove` leaves the state, its audit log and the user
//
// 1. A release is copied whole into a directory of its own: dist/, and of node_modules what is needed to run. Nothing is fetched.
// 2. `current` is moved to it by rename: whoever starts now starts whole. The release before stays, for shims and agents that
//    were started from it; older ones go.
// 3. Units are written, and, without --destdir, made known; what runs is started anew but the shims.
//
// Only Node's own modules: it runs from an installed release too, which is how a host upgrades or removes itself.

import { spawnSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const SOURCE = dirname(dirname(fileURLToPath(import.meta.url)));
const USER = "busbar";
const UNIT_DIR = "/etc/systemd/system";
const UNIT_FILES = /\.(service|socket|slice)$/;
/** The services have no homes of people, and directories for temporary files of their own. */
const UNSEEN = /^\/(home|root|run\/user|tmp|var\/tmp)\//;
/** What a release holds beside node_modules. */
const PARTS = [
  "dist",
  "schemas/json",
  "scripts/install",
  "scripts/install.mjs",
  "scripts/systemd",
  "package.json",
  "package-lock.json",
  "LICENSE",
  "README.md",
  "ARCHITECTURE.md",
  "PROTOCOL.md",
  "SECURITY.md",
  "CHANGELOG.md",
];
const COMMANDS = ["install", "upgrade", "add", "forget", "remove"];

class Refusal extends Error {}

function readWords(argv) {
  const { values, positionals } = parseArgs({
    args: argv,
    allowPositionals: true,
    options: {
      prefix: { type: "string", default: "/opt/busbar" },
      state: { type: "string", default: "/var/lib/busbar" },
      destdir: { type: "string", default: "" },
      "keep-state": { type: "boolean", default: false },
    },
  });
  const [command = "install", repository] = positionals;
  if (!COMMANDS.includes(command)) throw new Refusal(`no such command: ${command} (${COMMANDS.join(", ")})`);
  const named = command === "add" || command === "forget";
  if (named === (repository === undefined) || positionals.length > 2)
    throw new Refusal(named ? `${command} needs a repository` : `${command} takes no further words`);
  for (const name of ["prefix", "state"])
    if (!/^\/[A-Za-z0-9._/-]+$/.test(values[name]))
      throw new Refusal(`--${name} must be an absolute path of plain characters, not ${values[name]}`);
  const destdir = values.destdir && resolve(values.destdir);
  return { command, repository, ...values, destdir, live: destdir === "" };
}

/** Runs a program and gives its output; `may`: it may fail. */
function run(program, args, may = false) {
  const result = spawnSync(program, args, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  if (!may && (result.error || result.status !== 0))
    throw new Refusal(`${program} ${args.join(" ")}: ${result.error?.message ?? result.stderr.trim()}`);
  return (result.stdout ?? "").trim();
}

const systemctl = (...args) => run("systemctl", args);

function mustBeReady({ live }) {
  if (!live) return;
  if (process.getuid() !== 0) throw new Refusal("this needs root; --destdir DIR writes without it");
  if (!existsSync("/run/systemd/system"))
    throw new Refusal(
      "this machine does not run systemd: busbar works without it, `busctl` starts what it needs (README.md)",
    );
  const node = realpathSync(process.execPath);
  if (UNSEEN.test(node))
    throw new Refusal(
      `${node} lies where the services see nothing: install Node for the whole machine, and call this with it`,
    );
}

/** Name of a release: another one for other programs. */
function releaseName() {
  const { version } = JSON.parse(readFileSync(join(SOURCE, "package.json"), "utf8"));
  const stamp = join(SOURCE, "dist", ".stamp");
  if (!existsSync(stamp)) throw new Refusal("there is no build here: `npm run build` first");
  return `${version}-${readFileSync(stamp, "utf8").trim().slice(0, 12)}`;
}

/** The packages that are needed to run, by their place. */
function packages() {
  const lock = JSON.parse(readFileSync(join(SOURCE, "package-lock.json"), "utf8"));
  return Object.entries(lock.packages)
    .filter(([path, { dev, devOptional }]) => path !== "" && !dev && !devOptional)
    .map(([path]) => path)
    .filter((path) => existsSync(join(SOURCE, path)));
}

/** Writes the release, whole or not at all. */
function writeRelease(prefix) {
  const releases = join(prefix, "releases");
  const release = join(releases, releaseName());
  if (existsSync(release)) return release;
  const half = `${release}.half`;
  rmSync(half, { recursive: true, force: true });
  mkdirSync(half, { recursive: true, mode: 0o755 });
  const inner = (root) => (path) => !path.slice(root.length).includes("/node_modules");
  for (const part of PARTS) cpSync(join(SOURCE, part), join(half, part), { recursive: true });
  for (const path of packages())
    cpSync(join(SOURCE, path), join(half, path), { recursive: true, filter: inner(join(SOURCE, path)) });
  run("chmod", ["-R", "u=rwX,go=rX", half]);
  renameSync(half, release);
  return release;
}

function fill(text, { prefix, state }) {
  const words = { PREFIX: prefix, STATE: state, NODE: realpathSync(process.execPath) };
  return text.replace(/@([A-Z]+)@/g, (_, name) => words[name]);
}

/** Moves `current`, and takes away releases older than the one before. */
function makeCurrent(prefix, release) {
  const current = join(prefix, "current");
  const before = existsSync(current) ? basename(readlinkSync(current)) : undefined;
  const fresh = `${current}.fresh`;
  rmSync(fresh, { force: true });
  symlinkSync(join("releases", basename(release)), fresh);
  renameSync(fresh, current);
  const kept = new Set([basename(release), before === basename(release) ? readPrevious(prefix) : before]);
  for (const name of readdirSync(join(prefix, "releases")))
    if (!kept.has(name)) rmSync(join(prefix, "releases", name), { recursive: true, force: true });
  writeFileSync(join(prefix, "previous"), `${[...kept][1] ?? ""}\n`);
}

function readPrevious(prefix) {
  const path = join(prefix, "previous");
  return existsSync(path) ? readFileSync(path, "utf8").trim() : undefined;
}

/** `busctl` as people call it: the user of the services finds their directories without being told. */
const FRONT = `#!/bin/sh
if [ "$(id -un)" = ${USER} ]; then
  set -a
  . @PREFIX@/services.env
  set +a
fi
exec @NODE@ @PREFIX@/current/dist/bus/ctl/main.js "$@"
`;

function unitFiles() {
  return readdirSync(join(SOURCE, "scripts", "systemd")).filter((name) => UNIT_FILES.test(name));
}

function writeFiles(words) {
  const root = words.destdir + words.prefix;
  makeCurrent(root, writeRelease(root));
  const template = (name) => fill(readFileSync(join(SOURCE, "scripts", "systemd", name), "utf8"), words);
  for (const name of ["services.env", "sysusers.conf"])
    writeFileSync(join(root, name), template(name), { mode: 0o644 });
  mkdirSync(join(root, "bin"), { recursive: true });
  writeFileSync(join(root, "bin", "busctl"), fill(FRONT, words));
  chmodSync(join(root, "bin", "busctl"), 0o755);
  const units = words.destdir + UNIT_DIR;
  mkdirSync(units, { recursive: true });
  for (const name of unitFiles()) writeFileSync(join(units, name), template(name), { mode: 0o644 });
  // Directories in /run are made anew at every boot.
  const boot = `${words.destdir}/etc/tmpfiles.d`;
  mkdirSync(boot, { recursive: true });
  writeFileSync(join(boot, "busbar.conf"), template("tmpfiles.conf"), { mode: 0o644 });
}

function install(words) {
  writeFiles(words);
  const { prefix, live } = words;
  if (!live) return `Written below ${words.destdir}; nothing was started.`;
  run("systemd-sysusers", [join(prefix, "sysusers.conf")]);
  run("systemd-tmpfiles", ["--create", "/etc/tmpfiles.d/busbar.conf"]);
  systemctl("daemon-reload");
  systemctl("enable", "--now", "--quiet", "busbar-shim.socket");
  systemctl("try-restart", "busbar-bus@*.service", "busbar-scheduler@*.service");
  return `busbar ${basename(readlinkSync(join(prefix, "current")))} is installed. Next: ${prefix}/current/scripts/install add REPOSITORY`;
}

function upgrade(words) {
  if (!existsSync(join(words.destdir + words.prefix, "current")))
    throw new Refusal(`nothing is installed in ${words.prefix}`);
  return install(words);
}

/** The common git directory, as the units are named after it. */
function commonDirOf(repository) {
  const words = [
    "-c",
    "safe.directory=*",
    "-C",
    repository,
    "rev-parse",
    "--path-format=absolute",
    "--git-common-dir",
  ];
  return realpathSync(run("git", words));
}

function unitsOf(common) {
  const name = run("systemd-escape", ["--path", common]);
  return [`busbar-bus@${name}.service`, `busbar-scheduler@${name}.service`];
}

function add({ repository, prefix }) {
  const common = commonDirOf(repository);
  const uid = Number(run("id", ["-u", USER]));
  if (statSync(common).uid !== uid)
    throw new Refusal(
      `${common} does not belong to ${USER}, who works in it: chown -R ${USER}: ${dirname(common)}`,
    );
  if (UNSEEN.test(common))
    throw new Refusal(`${common} lies where the services see nothing: move it, e.g. below /srv`);
  systemctl("enable", "--now", "--quiet", ...unitsOf(common));
  return `Bus and scheduler of ${common} run. As ${USER}: runuser -u ${USER} -- ${prefix}/bin/busctl tasks`;
}

function forget({ repository, prefix }) {
  const common = commonDirOf(repository);
  run("runuser", ["-u", USER, "--", join(prefix, "bin", "busctl"), "--repo", common, "down"], true);
  systemctl("disable", "--now", "--quiet", ...unitsOf(common));
  return `Bus and scheduler of ${common} have ended. In it stay busbar/ of its git directory, refs/busbar/* and branches busbar/*.`;
}

function remove(words) {
  const { destdir, prefix, state, live } = words;
  if (live) end();
  for (const name of unitFiles()) rmSync(join(destdir + UNIT_DIR, name), { force: true });
  rmSync(`${destdir}/etc/tmpfiles.d/busbar.conf`, { force: true });
  rmSync(destdir + prefix, { recursive: true, force: true });
  if (live) systemctl("daemon-reload");
  if (live) run("systemctl", ["reset-failed", "busbar*"], true);
  if (!words["keep-state"]) forgetState(destdir + state, live);
  return "busbar is removed. In repositories stay busbar/ of the git directory, refs/busbar/* and branches busbar/*.";
}

/** All that runs is in this slice, also shims and what they started. */
function end() {
  const links = run(
    "systemctl",
    ["list-unit-files", "--plain", "--no-legend", "--state=enabled", "busbar*"],
    true,
  );
  const wanted = join(UNIT_DIR, "multi-user.target.wants");
  const enabled = existsSync(wanted) ? readdirSync(wanted).filter((name) => /^busbar-/.test(name)) : [];
  const sockets = links.includes("busbar-shim.socket") ? ["busbar-shim.socket"] : [];
  if (enabled.length + sockets.length > 0) systemctl("disable", "--quiet", ...enabled, ...sockets);
  systemctl("stop", "busbar-shim.socket", "busbar-bus@*.service", "busbar-scheduler@*.service");
  systemctl("stop", "busbar-shim@*.service");
  systemctl("stop", "busbar-tasks.slice", "busbar.slice");
}

function forgetState(state, live) {
  rmSync(state, { recursive: true, force: true });
  if (!live) return;
  rmSync("/run/busbar", { recursive: true, force: true });
  run("userdel", [USER], true);
}

try {
  const words = readWords(process.argv.slice(2));
  mustBeReady(words);
  process.umask(0o022);
  console.log({ install, upgrade, add, forget, remove }[words.command](words));
} catch (error) {
  if (!(error instanceof Refusal) && error.code !== "ERR_PARSE_ARGS_UNKNOWN_OPTION") throw error;
  console.error(`install: ${error.message}`);
  process.exitCode = 1;
}
