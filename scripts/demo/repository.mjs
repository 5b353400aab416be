// The repository that the demo works on: a clone, or, where this project came without git, a new one made of its files.

import { cpSync, existsSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { git } from "./kit.mjs";

const SEED = join(dirname(fileURLToPath(import.meta.url)), "seed");
const NOT_COPIED = new Set(["node_modules", "dist", "coverage", ".git"]);
/** Nobody's identity or signing key is needed, and no hook of a template runs. */
const COMMIT = [
  "-c",
  "user.name=demo",
  "-c",
  "user.email=demo@localhost",
  "-c",
  "commit.gpgsign=false",
  "-c",
  "core.hooksPath=/dev/null",
];

/** Clones `source` to `repo` and commits the seed on top. */
export function makeRepository(source, repo) {
  if (existsSync(join(source, ".git")) || existsSync(join(source, "HEAD"))) {
    git(dirname(repo), "clone", "-q", "--no-local", source, repo);
    // A CI often has a detached HEAD, and a clone inherits it; the demo needs a branch to start from.
    git(repo, "checkout", "-q", "-B", "demo-base");
  } else {
    cpSync(source, repo, {
      recursive: true,
      filter: (path) => !NOT_COPIED.has(path.slice(source.length + 1).split("/")[0]),
    });
    git(repo, "init", "-q", "-b", "main");
    git(repo, "add", "-A");
    git(repo, ...COMMIT, "commit", "-q", "-m", "Files of the project");
  }
  if (existsSync(join(repo, "busbar-demo"))) rmSync(join(repo, "busbar-demo"), { recursive: true });
  cpSync(SEED, join(repo, "busbar-demo"), { recursive: true });
  git(repo, "add", "-A", "--force", "busbar-demo");
  git(
    repo,
    ...COMMIT,
    "commit",
    "-q",
    "--no-verify",
    "-m",
    "Add the plan, the agents and the gate of the demo",
  );
  console.log(`${source}\n  -> ${repo} (${git(repo, "rev-parse", "--short", "HEAD").trim()})`);
}
