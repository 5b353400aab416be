// The sandbox as a person meets it: with the real programs, on a machine that lets bubblewrap work.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { assertInvariants } from "../helpers/invariants.ts";
import { hasSandbox } from "../helpers/sandbox.ts";
import { until } from "../helpers/wait.ts";
import { makeWorld } from "../helpers/world.ts";

const TOOLS = `node -e 'require("fs").writeFileSync("a.txt", "by node")'
python3 -c 'open("b.txt", "w").write("by python")'
npm --version > /dev/null
git add -A && git commit -qm own && git log --oneline | wc -l > log.txt
git show HEAD~1:f.txt > /dev/null
busbar-call get_task > "$TMPDIR/task.json" && test -s /tmp/task.json
test -r "$BUSBAR_PROMPT" && test -r "$BUSBAR_CONTEXT"
getent hosts localhost > /dev/null
`;

test("L4, L7: an agent works in the sandbox with node, python, git and npm, and touches nothing but its own", async (t) => {
  if (!hasSandbox(t)) return;
  const world = makeWorld(t);
  const outside = `test ! -e "${world.repo}/f.txt"
test ! -e "${world.W}/agents"
test "$(cd "$PWD/../../../.." && find . -name bus -o -name scheduler -o -name shim.json)" = ""
if echo x > /etc/x 2>/dev/null || echo x > "$(dirname "$PWD")/shim.json" 2>/dev/null; then exit 31; fi
mkdir "${world.W}/out" || true
if ls /sys/fs/cgroup 2>/dev/null; then exit 33; fi
`;
  const ran = await world.run(
    [
      {
        id: "t",
        command: `set -ex\n${TOOLS}${outside}`,
        acceptance: ["grep -q node a.txt", "test $(ls /proc | grep -c '^[0-9]') -lt 9"],
      },
    ],
    { sandbox: "required" },
  );
  const { tasks } = await world.state("r");
  const dir = tasks.get("t")?.attempts[0]?.workspace ?? "";
  assert.equal(ran.code, 0, ran.out + ran.err + readFileSync(join(dir, "agent.log"), "utf8"));
  assert.match(ran.out, /^sandbox: bubblewrap [\d.]+; network: agents full, set-up full, checks none$/m);
  const { sandbox, protection } = JSON.parse(readFileSync(join(dir, "run_metadata.json"), "utf8"));
  assert.equal(sandbox.shut, true);
  assert.match(protection, /; sandbox$/);
  const shown = await world.busctl(["tasks", "--run", "r", "--task", "t"]);
  assert.match(shown.out, /sandbox +agent: bubblewrap, network of the host; check: bubblewrap, no network/);
  assert.match((await world.busctl(["report", "r"])).out, /sandbox: agent: bubblewrap/);
  assert.match((await world.busctl(["up"])).out, /sandbox +bubblewrap [\d.]+: agents and checks are shut in/);
  assert.equal(existsSync(join(world.W, "out")), false);
  await assertInvariants(world, "r");
});

const FILE = { id: "t", command: "echo x > a.txt" };

test("L4: `required` where no sandbox can be made is refused before anything starts, with the cure", async (t) => {
  const world = makeWorld(t);
  world.env.BUSBAR_BWRAP = join(world.W, "absent");
  const refused = await world.run([FILE], { sandbox: "required" });
  assert.equal(refused.code, 2, refused.out + refused.err);
  assert.match(refused.err, /busctl: a sandbox is required, and bubblewrap is not installed/);
  assert.match(refused.err, /apt-get install bubblewrap/);
  await assert.rejects(world.state("r"), /NO_SUCH_RUN|no run/);
});

test("L4: `auto` where bubblewrap does not work goes without, and says so everywhere", async (t) => {
  const world = makeWorld(t);
  world.env.BUSBAR_BWRAP = join(world.W, "broken");
  world.sh('printf "#!/bin/sh\\necho bwrap: no luck >&2; exit 1\\n" > broken; chmod +x broken');
  const ran = await world.run([FILE], { sandbox: "auto" });
  assert.equal(ran.code, 0, ran.out + ran.err);
  assert.match(
    ran.out,
    /^sandbox: none \(bubblewrap does not work here \(bwrap: no luck\)\): agents .* run as you$/m,
  );
  const shown = await world.busctl(["tasks", "--run", "r", "--task", "t"]);
  assert.match(shown.out, /not in force +sandbox: bubblewrap does not work here/);
  const report = (await world.busctl(["report", "r"])).out;
  assert.match(report, /^- sandbox: \*\*none\*\*$/m);
  assert.match(report, /^- \*\*not in force\*\* here: sandbox: bubblewrap does not work/m);
  assert.match(
    (await world.busctl(["up"])).out,
    /sandbox +none: bubblewrap does not work here .* Agents run as\s+you/,
  );
});

test("L4: paths of the plan are opened, the host's `required` beats the plan's `off`", async (t) => {
  if (!hasSandbox(t)) return;
  const world = makeWorld(t);
  world.sh("mkdir tools cache; echo data > tools/data; echo old > cache/x; mkdir -p home/.config/busbar");
  world.sh("echo 'sandbox: {mode: required}' > home/.config/busbar/config.yaml");
  const at = (name: string) => join(world.W, name);
  const command = `cat "${at("tools/data")}" > a.txt; echo new > "${at("cache/x")}"; ! touch "${at("tools/y")}"`;
  const sandbox = { mode: "off", read: [at("tools")], write: [at("cache")] };
  const ran = await world.run([{ id: "t", command }], { sandbox });
  assert.equal(ran.code, 0, ran.out + ran.err);
  assert.match(ran.out, /^sandbox: bubblewrap/m);
  assert.deepEqual([existsSync(at("tools/y")), readFileSync(at("cache/x"), "utf8")], [false, "new\n"]);
  const wrong = { read: [at("absent")] };
  const lost = await world.busctl(["run", "--detach", "--name", "w", world.plan([FILE], { sandbox: wrong })]);
  assert.equal(lost.code, 0, lost.out + lost.err);
  const why = async () => (await world.state("w")).tasks.get("t")?.attempts[0]?.evidence?.summary;
  assert.match(await until("its first end", why), /sandbox.read names .*absent, which does not exist/);
  // A link to what is ours opens it no more than its own path does; nor does one to what it lies in.
  for (const [name, to] of Object.entries({ direct: at("state"), above: world.W })) {
    world.sh(`ln -s "${to}" "${at(`link-${name}`)}"`);
    const sandbox = { mode: "required", read: [at(`link-${name}`)] };
    await world.busctl(["run", "--detach", "--name", name, world.plan([FILE], { sandbox })]);
    const said = async () => (await world.state(name)).tasks.get("t")?.attempts[0]?.evidence?.summary;
    assert.match(await until("its first end", said), /link-\w+, which is busbar's or the repository's own/);
  }
});
