import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { ioError } from "../../../schemas/errors.ts";
import type { Task } from "../../../schemas/task.ts";
import { VERSION } from "../../version.ts";
import { resolveRun } from "../address.ts";
import { changeOf, filesOf } from "../changes.ts";
import { commonDirOf } from "../connect.ts";
import { type Args, type Ctx, usage } from "../context.ts";
import { EXIT } from "../exit-codes.ts";
import { buildReport, type FileChange, reportMarkdown } from "../render/report.ts";
import { hanging } from "../render/width.ts";

/** git children at once. */
const AT_ONCE = 8;

export async function run(ctx: Ctx, args: Args): Promise<number> {
  const format = args.text("format") ?? (ctx.json ? "json" : "md");
  if (format !== "md" && format !== "json") throw usage("--format is md or json");
  const output = args.text("output");
  const commonDir = await commonDirOf(ctx.dir);
  const bus = await ctx.connect();
  try {
    const { run: name } = await resolveRun(bus, args.word(0));
    const state = await bus.call("get_run", { run: name });
    const files = await allFiles(commonDir, state.tasks);
    const report = buildReport({ ...state, files, now: ctx.now(), version: VERSION });
    const text = format === "json" ? `${JSON.stringify(report, null, 2)}\n` : reportMarkdown(report);
    if (output === undefined) await ctx.io.out(format === "md" ? folded(text, ctx.io.columns()) : text);
    else write(resolve(output), text);
    return EXIT.ok;
  } finally {
    bus.close();
  }
}

/** Prose of Markdown broken between words for a terminal; tables, headings and what can be copied stay whole. */
function folded(markdown: string, width: number): string {
  let code = false;
  const lines = markdown.split("\n").flatMap((line) => {
    if (line.startsWith("```")) code = !code;
    return code || /^[|#]/.test(line) ? [line] : hanging(line, width);
  });
  return lines.join("\n");
}

function write(path: string, text: string): void {
  try {
    writeFileSync(path, text);
  } catch (error) {
    throw ioError("writing the report", path, error);
  }
}

async function allFiles(commonDir: string, tasks: readonly Task[]): Promise<Map<string, FileChange[]>> {
  const found = new Map<string, FileChange[]>();
  const queue = tasks.filter((task) => task.attempts.some((one) => one.snapshots.some((s) => s.version > 0)));
  const work = async () => {
    for (let task = queue.shift(); task; task = queue.shift()) {
      // A snapshot that was archived away is not worth losing the report for.
      const files = await filesOf(commonDir, changeOf(task)).catch(() => undefined);
      if (files) found.set(task.spec.id, files);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return found;
}
