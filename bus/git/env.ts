// What a git child of ours sees: an environment and `-c` flags that make the answer depend on the repository
// named and on nothing else (cases 17 to 21): no leaked GIT_DIR, no hooks, no signing, no prompts, English.

/** Variables that begin with GIT_ and are kept: how to reach a remote, and git's own test of ownership. */
const KEPT = /^GIT_(SSH|SSH_COMMAND|SSH_VARIANT|SSL_\w+|HTTP_\w+|PROXY_\w+|TEST_ASSUME_DIFFERENT_OWNER)$/;

/** Where the user's own configuration is; only for calls that ask for it. */
const USER_CONFIG = ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"];

export interface EnvironmentChoice {
  /**
   * True: the user's own and the system's configuration count. Only for what they alone know: whether the
   * repository is trusted (safe.directory) and how its remote is reached.
   */
  userConfig?: boolean;
  /** Directories trusted for this call whoever owns them: those that we made or that the user trusts. */
  trust?: readonly string[];
}

/**
 * The environment for a git child, from the host's. Everything of `git rev-parse --local-env-vars`, every
 * trace and every other GIT_ setting is gone; prompts are off; messages are in English; times in UTC.
 */
export function gitEnvironment(
  host: NodeJS.ProcessEnv,
  choice: EnvironmentChoice = {},
): Record<string, string> {
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(host)) {
    if (value === undefined) continue;
    if (name.startsWith("GIT_") ? KEPT.test(name) : !/^(LC_|LANG|LANGUAGE$|TZ$)/.test(name))
      env[name] = value;
  }
  const trust = [...(choice.trust ?? [])];
  if (choice.userConfig) {
    for (const name of USER_CONFIG) if (host[name] !== undefined) env[name] = host[name];
    trust.push(...safeDirectories(host));
  } else {
    env.GIT_CONFIG_NOSYSTEM = "1";
    env.GIT_CONFIG_GLOBAL = "/dev/null";
    env.GIT_ATTR_NOSYSTEM = "1";
  }
  trust.forEach((dir, n) => {
    env[`GIT_CONFIG_KEY_${n}`] = "safe.directory";
    env[`GIT_CONFIG_VALUE_${n}`] = dir;
  });
  if (trust.length > 0) env.GIT_CONFIG_COUNT = String(trust.length);
  return {
    ...env,
    LC_ALL: "C",
    TZ: "UTC",
    GIT_TERMINAL_PROMPT: "0",
    GIT_ASKPASS: "false",
    SSH_ASKPASS: "false",
    SSH_ASKPASS_REQUIRE: "never",
    GIT_OPTIONAL_LOCKS: "0",
    GIT_NO_REPLACE_OBJECTS: "1",
    GIT_LITERAL_PATHSPECS: "1",
    GIT_EDITOR: "false",
    GIT_PAGER: "cat",
  };
}

/** Trust that the user gave by environment (GIT_CONFIG_COUNT ...); nothing else of it is taken over. */
function safeDirectories(host: NodeJS.ProcessEnv): string[] {
  const count = Number(host.GIT_CONFIG_COUNT ?? 0);
  const found: string[] = [];
  for (let n = 0; n < Math.min(count || 0, 100); n++) {
    const value = host[`GIT_CONFIG_VALUE_${n}`];
    if (host[`GIT_CONFIG_KEY_${n}`]?.toLowerCase() === "safe.directory" && value !== undefined)
      found.push(value);
  }
  return found;
}

const SETTINGS: readonly string[] = [
  "core.hooksPath=/dev/null",
  "core.fsmonitor=false",
  "core.untrackedCache=false",
  "core.attributesFile=/dev/null",
  "core.quotePath=false",
  // A lock of the user's own git is waited for, never removed.
  "core.filesRefLockTimeout=3000",
  "core.packedRefsTimeout=5000",
  "commit.gpgSign=false",
  "tag.gpgSign=false",
  "gc.auto=0",
  "maintenance.auto=false",
  "protocol.ext.allow=never",
  "submodule.recurse=false",
  // What a task may change is judged by path: a rename must never carry an edit to another path (case 25).
  "diff.renames=false",
  "merge.renames=false",
  "merge.directoryRenames=false",
  "advice.detachedHead=false",
];

/** Goes before every subcommand. */
export const FIXED_FLAGS: readonly string[] = SETTINGS.flatMap((setting) => ["-c", setting]);
