// Puts a job into its sandbox, as plan and host want it (schemas/sandbox.ts) and as this host can (sandbox-host.ts).
//
// `required` where none can be made throws SANDBOX_UNAVAILABLE: nothing is started. `auto` goes without, and what is
// missing is told with the job's outcome.

import { existsSync, realpathSync } from "node:fs";
import { dirname, isAbsolute, join } from "node:path";
import { BusbarError } from "../schemas/errors.ts";
import type { ShimJob } from "../schemas/job.ts";
import { type ProcessKind, type SandboxWish, sandboxWish } from "../schemas/sandbox.ts";
import type { Run } from "../schemas/task.ts";
import { programDirs } from "./environment.ts";
import { type JobBase, type JobPlace, pathOf } from "./jobs.ts";
import type { Kit } from "./kit.ts";
import type { ShimProgram } from "./launch.ts";
import { objectStores } from "./own-repo.ts";
import { isBelow, planSandbox } from "./sandbox.ts";
import { probeSandbox, type SandboxHost } from "./sandbox-host.ts";

type Host = Pick<Kit, "sandbox" | "config" | "repo" | "stateDir" | "runtimeDir" | "home" | "shim">;

/** The job, in its sandbox where there is to be one. `given`: what of ours it may read. Throws SANDBOX_UNAVAILABLE. */
export function confined(
  host: Host,
  run: Pick<Run, "spec">,
  kind: ProcessKind,
  job: ShimJob,
  place: JobPlace,
  given: readonly string[] = [],
): ShimJob {
  const wish = sandboxWish(run.spec.sandbox, host.config.sandbox);
  const { facts, tools } = host.sandbox;
  if (wish.mode === "off") return job;
  if (!tools) {
    if (wish.mode === "required") throw unavailable(facts.said, facts.cure);
    return { ...job, lacking: [`sandbox: ${facts.said}`] };
  }
  const { read, write } = named(host, wish);
  const { work, homes } = place;
  const own = [work, ...Object.values(homes)];
  const sandbox = planSandbox(
    tools,
    {
      cwd: job.cwd,
      tmp: homes.tmp,
      read: [...read, ...given, ...objectStores(host.repo), ...place.submodules],
      write: [...write, ...own, ...(job.task_socket === undefined ? [] : [job.task_socket])],
    },
    wish.network[kind],
  );
  return { ...job, sandbox };
}

function unavailable(why: string, help: string | undefined): BusbarError {
  return new BusbarError("SANDBOX_UNAVAILABLE", `a sandbox is required, and ${why}`, help ? { help } : {});
}

/** Paths that plan and configuration name. None of them opens what is ours. */
function named(host: Host, wish: SandboxWish): Pick<SandboxWish, "read" | "write"> {
  const ours = [host.stateDir, host.runtimeDir, host.repo].flatMap((top) => [top, realOf(top)]);
  // What is above ours by another way than its own path would show it beside what is hidden.
  const shows = (path: string, top: string) => path !== realOf(path) && isBelow(top, realOf(path));
  const place = (key: "read" | "write") => (said: string) => {
    const path = said.startsWith("~/") ? join(host.home, said.slice(2)) : said;
    const fault = !existsSync(path)
      ? "does not exist"
      : ours.some(
            (top) => [path, realOf(path)].some((at) => at === top || isBelow(at, top)) || shows(path, top),
          )
        ? "is busbar's or the repository's own"
        : undefined;
    if (fault === undefined) return path;
    throw new BusbarError("SANDBOX_UNAVAILABLE", `sandbox.${key} names ${said}, which ${fault}`, {
      help: "Correct the path in the plan or in the configuration.",
    });
  };
  return { read: wish.read.map(place("read")), write: wish.write.map(place("write")) };
}

function realOf(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

/** What `busbar-call` is made of: the bundled file, or in development all of the sources. */
export function programFiles({ args }: ShimProgram): string[] {
  const files = args.filter(isAbsolute);
  const isBundled = args.length === files.length;
  return isBundled ? files : files.map((file) => dirname(dirname(file)));
}

/** Asked once, at the start. */
export async function sandboxOf(
  of: Pick<JobBase, "repo" | "topLevel" | "stateDir" | "runtimeDir" | "node" | "host"> & { home: string },
): Promise<SandboxHost> {
  return await probeSandbox({
    env: of.host,
    uid: process.getuid?.() ?? 0,
    home: of.home,
    programDirs: programDirs({ host: of.host, binFirst: [], ...pathOf(of) }),
    hidden: [
      of.home,
      "/etc/busbar",
      // With the states and sockets of other repositories.
      dirname(of.stateDir),
      dirname(of.runtimeDir),
      of.repo,
      ...(of.topLevel === null ? [] : [of.topLevel]),
    ],
  });
}
