// `init`: a first plan for this repository. What is there is never overwritten: a plan that exists is a reason
// to refuse, with --force a reason to write only what is missing.

import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { BusbarError, ioError } from "../../../schemas/errors.ts";
import { idFromFile } from "../../../schemas/plan/parse.ts";
import { git } from "../../git/run.ts";
import { commonDirOf } from "../connect.ts";
import { type Args, type Ctx, say, sayJson, usage } from "../context.ts";
import { EXIT } from "../exit-codes.ts";
import { hasChecks, proposeGate } from "../init-gate.ts";
import { EXAMPLE_TASK, planText } from "../init-text.ts";

const READ = ["package.json", "pyproject.toml", "Makefile"] as const;

export async function run(ctx: Ctx, args: Args): Promise<number> {
  await commonDirOf(ctx.dir);
  const top = await topOf(ctx.dir);
  const plan = join(top, "plan.yaml");
  const example = join(top, "tasks", "example.yaml");
  if (existsSync(plan) && !args.flag("force")) {
    throw new BusbarError("USAGE", `${plan} exists; nothing was written`, {
      help: "`busctl plan plan.yaml` checks it; --force writes what is missing beside it.",
    });
  }
  const texts = new Map(READ.map((name) => [name as string, readText(join(top, name))]));
  const proposal = proposeGate({ names: new Set(readdirSync(top)), text: (name) => texts.get(name) });
  const written: string[] = [];
  const kept: string[] = [];
  for (const [path, text] of [
    [plan, planText(idFromFile(`${basename(top)}.yaml`), proposal)],
    // Somebody's own tasks are not mixed with an example.
    ...(existsSync(dirname(example)) ? [] : [[example, EXAMPLE_TASK] as const]),
  ] as const) {
    (write(path, text) ? written : kept).push(path);
  }
  if (ctx.json) {
    await sayJson(ctx, { written, kept, gate: hasChecks(proposal) ? "checks" : "none", from: proposal.from });
    return EXIT.ok;
  }
  const gate = hasChecks(proposal)
    ? `The gate was made from ${proposal.from.join(", ")}; see that it fits.`
    : ctx.p.yellow("No checks were found: the plan says `gate: none`. Name your test command there.");
  await say(
    ctx,
    ...written.map((path) => `${ctx.p.green("wrote")} ${path}`),
    ...kept.map((path) => `kept  ${path}`),
    gate,
    ...((await isUnborn(ctx.dir))
      ? ["First: git add -A && git commit; a plan runs from a commit, and there is none yet."]
      : []),
    "Next: busctl plan plan.yaml && busctl run plan.yaml",
  );
  return EXIT.ok;
}

/** The top of the checkout that the directory lies in: also of a linked worktree. */
async function topOf(dir: string): Promise<string> {
  const answer = await git(["rev-parse", "--show-toplevel"], {
    cwd: dir,
    userConfig: true,
    okExits: [0, 128],
  });
  const top = answer.stdout.replace(/\n$/, "");
  if (top === "") throw usage("there is no checkout here to write a plan into (a bare repository?)");
  return top;
}

async function isUnborn(dir: string): Promise<boolean> {
  const words = ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"];
  return (await git(words, { cwd: dir, userConfig: true, okExits: [0, 1, 128] })).exit !== 0;
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}

/** False when the file is there already. */
function write(path: string, text: string): boolean {
  try {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text, { flag: "wx" });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw ioError("writing", path, error);
  }
}
