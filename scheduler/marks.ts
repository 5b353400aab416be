// Which attempts and checks have a process now: one look at all processes of the machine, however many attempts are
// asked about. Asynchronous and in small parts: a look at each process for each attempt once held the loop for half a
// minute.

import { readdir, readFile } from "node:fs/promises";
import { DIR_VARIABLE } from "./strays.ts";

/** Processes read at once. */
const AT_ONCE = 16;

/** The directories that stand in BUSBAR_DIR of a living process. Throws where there is no /proc. */
export async function markedDirs(): Promise<ReadonlySet<string>> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const found = new Set<string>();
  for (let n = 0; n < pids.length; n += AT_ONCE) {
    const dirs = await Promise.all(pids.slice(n, n + AT_ONCE).map(dirOf));
    for (const dir of dirs) if (dir !== undefined) found.add(dir);
  }
  return found;
}

async function dirOf(pid: string): Promise<string | undefined> {
  try {
    const environ = await readFile(`/proc/${pid}/environ`, "utf8");
    const prefix = `${DIR_VARIABLE}=`;
    return environ
      .split("\0")
      .find((entry) => entry.startsWith(prefix))
      ?.slice(prefix.length);
  } catch {
    return undefined; // gone, or not ours
  }
}
