// Files that decide what a check does, whatever its command says: whoever changes one can make it green. Pure; names
// only, wherever in the tree they lie, upper and lower case alike.

export type GateFileKind = "ci" | "lock" | "build" | "lint" | "git" | "busbar";

/** The first that fits counts. */
const TABLE: readonly (readonly [GateFileKind, RegExp])[] = [
  ["ci", /(?:^|\/)\.(?:github|gitlab|circleci|buildkite|woodpecker|forgejo|gitea)\//],
  [
    "ci",
    /(?:^|\/)(?:\.gitlab-ci|\.travis|\.drone|appveyor|azure-pipelines|bitbucket-pipelines|\.?codecov)\.ya?ml$/,
  ],
  ["ci", /(?:^|\/)(?:jenkinsfile|\.ci\/.+|dockerfile|containerfile|docker-compose[^/]*\.ya?ml)$/],
  [
    "lock",
    /(?:^|\/)(?:package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml|bun\.lockb?|deno\.lock|cargo\.lock|poetry\.lock|pdm\.lock|uv\.lock|pipfile\.lock|gemfile\.lock|composer\.lock|go\.sum|gradle\.lockfile|mix\.lock|pubspec\.lock|flake\.lock|packages\.lock\.json)$/,
  ],
  [
    "build",
    /(?:^|\/)(?:package\.json|deno\.jsonc?|pnpm-workspace\.yaml|lerna\.json|nx\.json|turbo\.json|\.npmrc|\.yarnrc(?:\.yml)?|bunfig\.toml|tsconfig[^/]*\.json|babel\.config\.[^/]+|\.babelrc[^/]*|(?:vite|webpack|rollup|esbuild|rspack|tsup)\.config\.[^/]+)$/,
  ],
  [
    "build",
    /(?:^|\/)(?:vitest|vitest\.workspace|jest|playwright|cypress|karma|ava|wdio|\.mocharc|\.nycrc|\.c8rc|\.taprc|mocha|nyc|jest\.setup|vitest\.setup)(?:\.config)?(?:\.[^/]+)?$/,
  ],
  [
    "build",
    /(?:^|\/)(?:makefile|gnumakefile|[^/]+\.mk|justfile|taskfile\.ya?ml|cmakelists\.txt|meson\.build|build|build\.bazel|workspace|module\.bazel|\.bazelrc|build\.gradle(?:\.kts)?|settings\.gradle(?:\.kts)?|gradle\.properties|pom\.xml|build\.sbt|build\.xml|[^/]+\.(?:cs|fs|vb)proj|directory\.build\.(?:props|targets))$/,
  ],
  [
    "build",
    /(?:^|\/)(?:cargo\.toml|\.cargo\/.+|rust-toolchain(?:\.toml)?|build\.rs|go\.mod|go\.work|pyproject\.toml|setup\.(?:py|cfg)|pipfile|requirements[^/]*\.txt|tox\.ini|noxfile\.py|pytest\.ini|conftest\.py|sitecustomize\.py|usercustomize\.py|\.coveragerc|gemfile|rakefile|\.rspec|composer\.json|phpunit\.xml(?:\.dist)?|mix\.exs|\.tool-versions|\.nvmrc|\.node-version|\.python-version|\.ruby-version|mise\.toml|\.env[^/]*)$/,
  ],
  [
    "lint",
    /(?:^|\/)(?:\.eslintrc[^/]*|eslint\.config\.[^/]+|\.eslintignore|biome\.jsonc?|\.oxlintrc\.json|\.prettierrc[^/]*|prettier\.config\.[^/]+|\.prettierignore|\.stylelintrc[^/]*|\.editorconfig|\.pre-commit-config\.yaml|\.golangci\.[^/]+|\.?clippy\.toml|\.?rustfmt\.toml|\.?ruff\.toml|\.flake8|\.pylintrc|mypy\.ini|\.rubocop[^/]*|\.clang-(?:tidy|format)|\.shellcheckrc|\.yamllint[^/]*|knip\.[^/]+)$/,
  ],
  ["lint", /(?:^|\/)(?:\.husky|\.githooks)\//],
  ["git", /(?:^|\/)\.git(?:attributes|modules|ignore)$/],
  ["busbar", /(?:^|\/)(?:\.busbar\/.+|busbar\.ya?ml|plan\.ya?ml)$/],
];

/** Undefined: the file decides nothing but by what reads it. */
export function gateFileKind(path: string): GateFileKind | undefined {
  const name = path.toLowerCase();
  return TABLE.find(([, form]) => form.test(name))?.[0];
}
