// Completion scripts in the real shells, where they are installed; one line says which were not tried (issue 2.6).

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type TestContext, test } from "node:test";
import { completionScript, type Shell } from "../../bus/ctl/completion.ts";
import { VERBS } from "../../bus/ctl/verb-table.ts";
import { tempDir } from "../helpers/temp.ts";

/** A home with the script in it, or undefined (said) where the shell is missing. */
function homeWith(t: TestContext, shell: Shell, name: string): string | undefined {
  if (spawnSync(shell, ["-c", "exit 0"]).error) {
    t.skip(`${shell} is not installed: its completion was not tried`);
    return undefined;
  }
  const home = tempDir(t);
  const file = join(home, name);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, completionScript(shell, VERBS));
  writeFileSync(join(home, "plan.yaml"), "");
  // Stands for busctl at a bus: says what it was asked with, and some names.
  mkdirSync(join(home, "bin"));
  const asked = `#!/bin/sh\necho "$*" >> "$HOME/asked"\nfor w; do case $w in tasks) printf 'slugs\\nslug_docs\\nother\\n';; runs) printf 'tidy\\n';; esac; done\n`;
  writeFileSync(join(home, "bin/busctl"), asked, { mode: 0o755 });
  return home;
}

const pathWith = (home: string) => `${home}/bin:${process.env.PATH}`;

test("issue 2.6: bash completes verbs, options, plan files, and names of tasks and runs from the bus", (t) => {
  const home = homeWith(t, "bash", "busctl.bash");
  if (home === undefined) return;
  const ask = (...words: string[]): string[] => {
    const script = `source ./busctl.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _busctl; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const env = { PATH: pathWith(home), HOME: home };
    const ran = spawnSync("bash", ["-c", script, "bash", "busctl", ...words], {
      cwd: home,
      env,
      encoding: "utf8",
    });
    assert.equal(ran.stderr, "");
    return ran.stdout.split("\n").filter((word) => word !== "");
  };
  assert.deepEqual(ask("ta"), ["tasks"]);
  assert.deepEqual(ask("verify", "--meth"), []);
  assert.deepEqual(ask("run", "pla"), ["plan.yaml"]);
  assert.deepEqual(ask("diff", "slug"), ["slugs", "slug_docs"]);
  assert.deepEqual(ask("cat", "slugs"), ["slugs:"]);
  assert.deepEqual(ask("cat", "slugs", ":", ""), [], "a path of a snapshot");
  assert.deepEqual(ask("pause", ""), ["tidy"]);
  assert.deepEqual(ask("tasks", "--task", "o"), ["other"]);
  assert.deepEqual(ask("run", "--name", "t"), [], "a new name is nobody's");
  assert.deepEqual(ask("--repo", "a b", "logs", "-f", "o"), ["other"]);
  assert.equal(
    readFileSync(join(home, "asked"), "utf8").trim().split("\n").at(-1),
    "--repo a b completion tasks o",
  );
});

test("issue 2.6: fish completes verbs, options of the verb only, plan files and shells, not those of systemd's tool", (t) => {
  const home = homeWith(t, "fish", "config/fish/completions/busctl.fish");
  if (home === undefined) return;
  const ask = (line: string): string[] => {
    const env = {
      PATH: pathWith(home),
      HOME: home,
      XDG_CONFIG_HOME: join(home, "config"),
      LANG: "C.UTF-8",
    };
    const ran = spawnSync("fish", ["-c", 'complete -C "$argv[1]"', line], {
      cwd: home,
      env,
      encoding: "utf8",
      timeout: 60_000,
    });
    assert.equal(ran.stderr, "");
    const words = ran.stdout.split("\n").filter((word) => word !== "");
    return words.map((word) => word.split("\t")[0] ?? "");
  };
  assert.deepEqual(ask("busctl ta"), ["tasks"]);
  assert.deepEqual(ask("busctl intro"), [], "a verb of systemd's tool");
  assert.deepEqual(ask("busctl --repo tasks ver"), ["verify"]);
  assert.deepEqual(ask("busctl tasks --meth"), ["--method"]);
  assert.deepEqual(ask("busctl verify --meth"), []);
  assert.deepEqual(ask("busctl plan pl"), ["plan.yaml"]);
  assert.deepEqual(ask("busctl completion ").toSorted(), ["bash", "fish", "zsh"]);
  assert.deepEqual(ask("busctl diff sl").toSorted(), ["slug_docs", "slugs"]);
  assert.deepEqual(ask("busctl tasks --task o"), ["other"]);
  assert.deepEqual(ask("busctl --repo x pause t"), ["tidy"]);
  assert.equal(
    readFileSync(join(home, "asked"), "utf8").trim().split("\n").at(-1),
    "--repo x completion runs t",
  );
});

/** Types into an interactive zsh and waits, bounded, for each word to appear. */
const TYPIST = String.raw`
zmodload zsh/zpty
zpty -b z zsh -f -i
wait_for() {
  local all="" chunk; local -i n=0
  while (( n++ < 1200 )); do
    if zpty -r -t z chunk; then all+="$chunk"; [[ "$all" == *"$1"* ]] && return 0
    else zselect -t 5; fi
  done
  print -r -- "no $1 in: \${(V)all}"; zpty -d z; exit 1
}
zmodload zsh/zselect
zpty -w z 'PS1="> "; stty -echo; autoload -Uz compinit; compinit -u -D; source ./_busctl; print READY''_NOW'
wait_for READY_NOW
type_and_see() { zpty -w -n z "$1"$'\t'; wait_for "$2"; zpty -w -n z $'\x15'; }
type_and_see 'busctl ta' 'sks '
type_and_see 'busctl --repo . veri' 'fy '
type_and_see 'busctl tasks --meth' 'od '
type_and_see 'busctl completion fi' 'sh '
type_and_see 'busctl run pla' 'n.yaml '
type_and_see 'busctl --repo . diff oth' 'er '
type_and_see 'busctl tasks --run ti' 'dy '
zpty -d z
`.replaceAll("\\${", "${");

test("issue 2.6: zsh completes verbs, options, shells and plan files", (t) => {
  const home = homeWith(t, "zsh", "_busctl");
  if (home === undefined) return;
  const env = { PATH: pathWith(home), HOME: home, ZDOTDIR: home, TERM: "dumb", LANG: "C.UTF-8" };
  const ran = spawnSync("zsh", ["-f", "-c", TYPIST], { cwd: home, env, encoding: "utf8", timeout: 120_000 });
  assert.equal(ran.status, 0, ran.stdout + ran.stderr);
});
