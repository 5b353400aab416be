// What could prove a change in this repository, judged by the files that lie at its top. Pure: texts in, checks
// out. It proposes; the person edits.

export interface Found {
  /** Names of files and directories at the top. */
  names: ReadonlySet<string>;
  /** Text of a file at the top, where it was read. */
  text(name: string): string | undefined;
}

export interface Proposal {
  /** What it was made from, for the comment. */
  from: string[];
  setup: { run: string; key: string[] }[];
  shallow: NamedCheck[];
  middle: NamedCheck[];
  deep: NamedCheck[];
  /** Public files: one lane. */
  serial: string[];
  /** Restored before every check. */
  protect: string[];
}

export interface NamedCheck {
  name: string;
  run: string;
}

const LOCK_FILES = [
  "package.json",
  "package-lock.json",
  "pnpm-lock.yaml",
  "yarn.lock",
  "pyproject.toml",
  "poetry.lock",
  "uv.lock",
  "requirements.txt",
  "Cargo.toml",
  "Cargo.lock",
  "go.mod",
  "go.sum",
];
const CI = [".github", ".gitlab-ci.yml", ".circleci", ".ci"];

export function proposeGate(found: Found): Proposal {
  const proposal: Proposal = {
    from: [],
    setup: [],
    shallow: [],
    middle: [],
    deep: [],
    serial: LOCK_FILES.filter((name) => found.names.has(name)),
    protect: CI.filter((name) => found.names.has(name)).map((name) =>
      name.endsWith(".yml") ? name : `${name}/**`,
    ),
  };
  fromNode(found, proposal);
  fromPython(found, proposal);
  fromCargo(found, proposal);
  fromGo(found, proposal);
  // A Makefile often only wraps what was found already.
  if (proposal.from.length === 0) fromMake(found, proposal);
  return proposal;
}

export function hasChecks(proposal: Proposal): boolean {
  return proposal.shallow.length + proposal.middle.length + proposal.deep.length > 0;
}

function fromNode(found: Found, proposal: Proposal): void {
  const text = found.text("package.json");
  if (text === undefined) return;
  proposal.from.push("package.json");
  const scripts = scriptsOf(text);
  const { tool, install, lock } = packageManager(found.names);
  if (install) proposal.setup.push({ run: install, key: [lock] });
  const add = (into: NamedCheck[], ...names: string[]) => {
    const name = names.find((one) => scripts.has(one));
    if (name) into.push({ name, run: name === "test" ? `${tool} test` : `${tool} run ${name}` });
  };
  add(proposal.shallow, "typecheck", "type-check", "types", "tsc", "check-types");
  add(proposal.middle, "lint");
  add(proposal.middle, "build");
  add(proposal.deep, "test");
}

/** Scripts of a package.json that do something; npm's own "no test specified" does not. */
function scriptsOf(text: string): Set<string> {
  try {
    const { scripts } = JSON.parse(text) as { scripts?: unknown };
    if (typeof scripts !== "object" || scripts === null) return new Set();
    const real = Object.entries(scripts).filter(
      ([, line]) => typeof line === "string" && line !== "" && !line.includes("no test specified"),
    );
    return new Set(real.map(([name]) => name));
  } catch {
    return new Set();
  }
}

function packageManager(names: ReadonlySet<string>): { tool: string; install?: string; lock: string } {
  if (names.has("pnpm-lock.yaml")) {
    return { tool: "pnpm", install: "pnpm install --frozen-lockfile", lock: "pnpm-lock.yaml" };
  }
  if (names.has("yarn.lock"))
    return { tool: "yarn", install: "yarn install --frozen-lockfile", lock: "yarn.lock" };
  if (names.has("package-lock.json")) return { tool: "npm", install: "npm ci", lock: "package-lock.json" };
  return { tool: "npm", lock: "" };
}

function fromPython(found: Found, proposal: Proposal): void {
  const text = found.text("pyproject.toml");
  if (text === undefined) return;
  proposal.from.push("pyproject.toml");
  if (text.includes("[tool.ruff")) proposal.middle.push({ name: "ruff", run: "ruff check ." });
  if (text.includes("[tool.mypy")) proposal.shallow.push({ name: "mypy", run: "mypy ." });
  if (text.includes("[tool.pytest") || found.names.has("tests") || found.names.has("test")) {
    proposal.deep.push({ name: "pytest", run: "python -m pytest -q" });
  }
}

function fromCargo(found: Found, proposal: Proposal): void {
  if (!found.names.has("Cargo.toml")) return;
  proposal.from.push("Cargo.toml");
  proposal.shallow.push({ name: "check", run: "cargo check --all-targets" });
  proposal.deep.push({ name: "test", run: "cargo test" });
}

function fromGo(found: Found, proposal: Proposal): void {
  if (!found.names.has("go.mod")) return;
  proposal.from.push("go.mod");
  proposal.shallow.push({ name: "vet", run: "go vet ./..." });
  proposal.deep.push({ name: "go-test", run: "go test ./..." });
}

function fromMake(found: Found, proposal: Proposal): void {
  const text = found.text("Makefile");
  if (text === undefined) return;
  const targets = new Set([...text.matchAll(/^([A-Za-z][A-Za-z0-9_-]*)\s*:(?!=)/gm)].map(([, name]) => name));
  if (targets.has("lint")) proposal.middle.push({ name: "lint", run: "make lint" });
  const deep = ["check", "test"].find((name) => targets.has(name));
  if (deep) proposal.deep.push({ name: deep, run: `make ${deep}` });
  if (hasChecks(proposal)) proposal.from.push("Makefile");
}
