// What the refs of the user's repository tell about runs (bus/state/former.ts, bus/state/branches.ts), and the note in its git
// directory of where it lies and where its state does: <common>/busbar/home.json. Reads, but for that note.

import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { faultPoint } from "../schemas/fault-points.ts";
import { idFault } from "../schemas/ids.ts";
import { git } from "./git/run.ts";
import { type BusPaths, writeDurably } from "./paths.ts";
import type { BusbarRefs, Home, Repository } from "./state/former.ts";

const BRANCH = /^refs\/heads\/busbar\/([^/]+)$/;
const ATTEMPT = /^refs\/busbar\/attempts\/([^/]+)\//;

export function gitRefs(paths: Pick<BusPaths, "common" | "state" | "endpoint">): Repository {
  const { common, state } = paths;
  const options = { gitDir: common, trust: [common] };
  const note = join(dirname(paths.endpoint), "home.json");
  const here: Home = { common, state_dir: state };
  return {
    async refs() {
      const words = [
        "for-each-ref",
        "--format=%(objectname) %(refname)",
        "refs/heads/busbar/",
        "refs/busbar/attempts/",
      ];
      return sorted((await git(words, options)).stdout);
    },
    async contains(tip, commit) {
      // 128: one of them is not here (any more).
      const found = await git(["merge-base", "--is-ancestor", commit, tip], {
        ...options,
        okExits: [0, 1, 128],
      });
      return found.exit === 0;
    },
    placed() {
      const there = readHome(note);
      if (!there) return { here };
      return {
        here,
        there: {
          ...there,
          repository: existsSync(there.common),
          state: existsSync(join(there.state_dir, "bus")),
        },
      };
    },
    settle() {
      const there = readHome(note);
      if (there?.common === common && there.state_dir === state) return;
      faultPoint("bus.home.before-write");
      writeDurably(note, `${JSON.stringify({ v: 1, ...here })}\n`);
    },
  };
}

function sorted(text: string): BusbarRefs {
  const branches = new Map<string, string>();
  const attempts = new Set<string>();
  for (const line of text.split("\n")) {
    const [oid = "", name = ""] = line.split(" ");
    const run = BRANCH.exec(name)?.[1] ?? ATTEMPT.exec(name)?.[1];
    if (run === undefined || idFault(run) !== undefined) continue; // no run of ours
    if (BRANCH.test(name)) branches.set(run, oid);
    else attempts.add(run);
  }
  return { branches, attempts };
}

function readHome(path: string): Home | undefined {
  try {
    const { common, state_dir } = JSON.parse(readFileSync(path, "utf8")) as Partial<Home>;
    return typeof common === "string" && typeof state_dir === "string" ? { common, state_dir } : undefined;
  } catch {
    return undefined; // not there, or not to be understood: then it tells nothing
  }
}
