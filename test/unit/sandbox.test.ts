// What plan and host say about the sandbox, the words for bubblewrap that follow, and which tools are inside.

import assert from "node:assert/strict";
import test from "node:test";
import { planSandbox, type SandboxTools } from "../../scheduler/sandbox.ts";
import { type Files, MAX_TOOL_PATHS, toolPaths } from "../../scheduler/tool-paths.ts";
import { SandboxSaid, sandboxInForce, sandboxWish } from "../../schemas/sandbox.ts";

const NETWORK = { agent: "full", setup: "full", check: "none" };

test("L4: of what plan and host say the stricter counts, and the default only where neither says anything", () => {
  const mode = (plan?: SandboxSaid, host?: SandboxSaid) => sandboxWish(plan, host).mode;
  assert.deepEqual(sandboxWish(undefined, undefined), {
    mode: "auto",
    network: NETWORK,
    read: [],
    write: [],
  });
  assert.equal(mode("off"), "off");
  assert.equal(mode(undefined, "off"), "off");
  assert.equal(mode("off", "required"), "required");
  assert.equal(mode("required", "off"), "required");
  assert.equal(mode("off", "auto"), "auto");
  assert.equal(mode({ network: "none" }, "off"), "off");
  const both = sandboxWish(
    { mode: "auto", check_network: "full", read: ["/a", "/b"] },
    { network: "none", check_network: "none", read: ["/b"], write: ["~/c"] },
  );
  assert.deepEqual(both, {
    mode: "auto",
    network: { agent: "none", setup: "full", check: "none" },
    read: ["/a", "/b"],
    write: ["~/c"],
  });
});

test("L4: paths that would open all there is to hide are refused", () => {
  const accepts = (path: string) => SandboxSaid.safeParse({ read: [path] }).success;
  for (const path of ["/data", "~/x", "/a/.hidden", "~/.cache/ms-playwright"]) assert.ok(accepts(path), path);
  for (const path of ["/", "~", "~/", "relative", "/a/../b", "/a/", "/./a", "~root/x", "/a//b", "/a/.", ""])
    assert.ok(!accepts(path), path);
});

test("L4: what is in force is said in one line", () => {
  const wish = sandboxWish("auto", undefined);
  assert.deepEqual(sandboxInForce(wish, { works: true, said: "bubblewrap 0.8.0" }), {
    shut: true,
    said: "bubblewrap 0.8.0; network: agents full, set-up full, checks none",
  });
  const none = (plan: SandboxSaid) =>
    sandboxInForce(sandboxWish(plan, undefined), { works: false, said: "no bwrap" });
  assert.equal(none("auto").said, "none (no bwrap): agents and checks run as you");
  assert.match(none("off").said, /^none \(off by the plan/);
});

const TOOLS: SandboxTools = {
  bwrap: "/usr/bin/bwrap",
  locksUserns: true,
  isRoot: false,
  common: [
    { at: "/usr", kind: "read" },
    { at: "/bin", kind: "link", to: "usr/bin" },
    { at: "/etc", kind: "read" },
    { at: "/etc/shadow", kind: "shut" },
  ],
  hidden: ["/home/me", "/state", "/etc/busbar"],
};
const PLACE = {
  cwd: "/state/k/a/work",
  tmp: "/state/k/a/tmp",
  write: ["/state/k/a/work"],
  read: ["/repo/.git/objects"],
};

test("L4: nothing is inside but what is put there; what is hidden is covered where it would show", () => {
  const { argv, said } = planSandbox(TOOLS, PLACE, "none");
  assert.equal(said, "bubblewrap, no network");
  assert.deepEqual(argv, [
    ...["/usr/bin/bwrap", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"],
    ...["--unshare-cgroup-try", "--unshare-net", "--disable-userns"],
    ...["--die-with-parent", "--new-session", "--cap-drop", "ALL"],
    ...["--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--ro-bind", "/etc", "/etc"],
    ...["--proc", "/proc", "--dev", "/dev", "--bind", "/state/k/a/tmp", "/tmp"],
    ...["--ro-bind-try", "/dev/null", "/etc/shadow", "--size", "268435456", "--tmpfs", "/dev/shm"],
    ...["--bind", "/state/k/a/tmp", "/var/tmp", "--tmpfs", "/etc/busbar"],
    ...["--ro-bind", "/repo/.git/objects", "/repo/.git/objects"],
    ...["--bind", "/state/k/a/work", "/state/k/a/work"],
    ...[
      "--remount-ro",
      "/dev",
      "--remount-ro",
      "/etc/busbar",
      "--remount-ro",
      "/",
      "--chdir",
      "/state/k/a/work",
    ],
  ]);
});

test("L4: with a network, and as root, and where bubblewrap cannot forbid user namespaces", () => {
  const words = (more: Partial<SandboxTools>) =>
    planSandbox({ ...TOOLS, ...more }, PLACE, "full").argv.join(" ");
  assert.doesNotMatch(words({}), /--unshare-net|--remount-ro \/proc/);
  assert.match(words({ isRoot: true }), /--remount-ro \/dev --remount-ro \/proc /);
  assert.doesNotMatch(words({ locksUserns: false }), /--disable-userns/);
});

test("L4: a path of the plan cannot open what is hidden below it", () => {
  const { argv } = planSandbox(TOOLS, { ...PLACE, read: ["/home", "/state"], write: PLACE.write }, "none");
  const words = argv.join(" ");
  assert.match(words, /--ro-bind \/home \/home .*--tmpfs \/home\/me/);
  assert.doesNotMatch(words, /--ro-bind \/state /);
});

/** Files by name; a link has a target. */
function filesOf(table: Record<string, string | null>): Files {
  const real = (path: string): string | undefined => {
    const target = table[path];
    if (target) return real(target);
    return path in table ? path : undefined;
  };
  return {
    real,
    exists: (path) => path in table,
    links: (dir) =>
      Object.entries(table).flatMap(([path, target]) =>
        target && path.startsWith(`${dir}/`) ? [path.slice(dir.length + 1)] : [],
      ),
  };
}

const inside = (dirs: string[], table: Record<string, string | null>) =>
  toolPaths(dirs, { seen: ["/usr", "/opt"], home: "/home/me", files: filesOf(table) });

test("L4: tools beneath the home are inside by their parts, and never what lies beside them", () => {
  const H = "/home/me";
  const nvm = `${H}/.nvm/versions/node/v20`;
  assert.deepEqual(
    inside(["/usr/bin", `${nvm}/bin`], {
      "/usr/bin": null,
      [`${nvm}/bin`]: null,
      [`${nvm}/lib`]: null,
      [`${nvm}/etc`]: null,
    }),
    [`${nvm}/bin`, `${nvm}/lib`],
  );
  const cargo = {
    [`${H}/.cargo/bin`]: null,
    [`${H}/.cargo/credentials.toml`]: null,
    [`${H}/.cargo/registry`]: null,
  };
  assert.deepEqual(inside([`${H}/.cargo/bin`], cargo), [`${H}/.cargo/bin`]);
  const pyenv = {
    [`${H}/.pyenv/shims`]: null,
    [`${H}/.pyenv/versions`]: null,
    [`${H}/.pyenv/libexec`]: null,
  };
  assert.deepEqual(inside([`${H}/.pyenv/shims`], pyenv).sort(), Object.keys(pyenv).sort());
});

test("L4: links of PATH bring what they lead to; a home, credentials and ~/.local/share do not come along", () => {
  const H = "/home/me";
  const local = {
    [`${H}/.local/bin`]: null,
    [`${H}/.local/share`]: null,
    [`${H}/.local/lib`]: null,
    [`${H}/.local/bin/tool`]: `${H}/.local/share/tool/versions/2`,
    [`${H}/.local/share/tool/versions`]: null,
    [`${H}/.local/share/tool/versions/2`]: null,
    [`${H}/.local/bin/cli`]: `${H}/pkgs/node_modules/cli/bin/cli.js`,
    [`${H}/pkgs/node_modules`]: null,
    [`${H}/pkgs/node_modules/cli/bin/cli.js`]: null,
    [`${H}/.local/bin/mine`]: `${H}/mine.sh`,
    [`${H}/mine.sh`]: null,
    [`${H}/.local/bin/odd`]: `${H}/.ssh/odd`,
    [`${H}/.ssh`]: null,
    [`${H}/.ssh/odd`]: null,
    [H]: null,
  };
  assert.deepEqual(inside([`${H}/.local/bin`, H], local).sort(), [
    `${H}/.local/bin`,
    `${H}/.local/lib`,
    `${H}/.local/share/tool/versions`,
    `${H}/mine.sh`,
    `${H}/pkgs/node_modules`,
  ]);
});

test("L4: the number of mounts is bounded", () => {
  const table = Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`/tools/t${i}`, null]));
  assert.equal(inside(Object.keys(table), table).length, MAX_TOOL_PATHS);
});
