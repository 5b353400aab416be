// Partial clones: the objects of the base's tree are fetched once, in one fetch, before any agent starts; after
// that nothing of ours needs the network (case 06).

import { BusbarError } from "../../schemas/errors.ts";
import { faultPoint } from "../../schemas/fault-points.ts";
import { isOid } from "../../schemas/ids.ts";
import type { RepoFacts } from "./facts.ts";
import { git } from "./run.ts";

/** Trees first, then what they name; a server may give less than asked for. */
const MAX_ROUNDS = 6;
/** A large project's blobs; an unreachable remote ends much sooner by the settings below. */
const FETCH_TIMEOUT_MS = 15 * 60_000;
const NETWORK = ["http.lowSpeedLimit=1000", "http.lowSpeedTime=20", "fetch.negotiationAlgorithm=noop"];

/** Objects of the commit's tree that are not here. Fetches nothing. */
export async function missingObjects(facts: RepoFacts, commit: string): Promise<string[]> {
  const { stdout } = await git(["rev-list", "--objects", "--no-walk", "--missing=print", commit], {
    gitDir: facts.commonDir,
    env: { GIT_NO_LAZY_FETCH: "1" },
  });
  return stdout
    .split("\n")
    .filter((line) => line.startsWith("?"))
    .map((line) => line.slice(1))
    .filter(isOid);
}

/** Error: OBJECTS_UNREACHABLE with the number of objects and the remote. */
export async function completeTree(facts: RepoFacts, commit: string): Promise<void> {
  if (facts.partial === null) return;
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const missing = await missingObjects(facts, commit);
    if (missing.length === 0) return;
    await fetchObjects(facts, facts.partial, missing);
  }
  throw unreachable(facts, await missingObjects(facts, commit), undefined);
}

async function fetchObjects(facts: RepoFacts, remote: string, missing: string[]): Promise<void> {
  const own = await git(["config", "core.sshCommand"], {
    gitDir: facts.commonDir,
    userConfig: true,
    okExits: [0, 1],
  });
  const ssh: Record<string, string> =
    own.exit === 0 || process.env.GIT_SSH_COMMAND || process.env.GIT_SSH
      ? {}
      : { GIT_SSH_COMMAND: "ssh -o BatchMode=yes -o ConnectTimeout=10" };
  const args = ["fetch", "-q", "--no-tags", "--no-prune", "--no-write-fetch-head", "--no-auto-gc"];
  try {
    faultPoint("scheduler.partial.before-fetch");
    await git(
      [...args, "--recurse-submodules=no", "--filter=blob:none", "--stdin", "--end-of-options", remote],
      {
        gitDir: facts.commonDir,
        // How the remote is reached is in the user's own configuration: credentials, proxy, insteadOf.
        userConfig: true,
        config: NETWORK,
        env: ssh,
        input: missing.map((oid) => `${oid}\n`).join(""),
        timeoutMs: FETCH_TIMEOUT_MS,
      },
    );
  } catch (cause) {
    throw unreachable(facts, missing, cause);
  }
}

function unreachable(facts: RepoFacts, missing: string[], cause: unknown): BusbarError {
  const why = cause instanceof Error ? ` (${cause.message.split("\n").at(-1)})` : "";
  return new BusbarError(
    "OBJECTS_UNREACHABLE",
    `${missing.length} objects of the base are not here and could not be fetched from the promisor remote ${facts.partial}${why}`,
    { missing: missing.length, remote: facts.partial, first: missing[0] },
    { cause },
  );
}
