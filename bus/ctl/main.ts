#!/usr/bin/env node
// busctl: the bus for people. A client like any other.
//
// 1. A verb of systemd's busctl goes to that tool (handover.ts).
// 2. --version, --help and unknown verbs are answered here, from the verb table.
// 3. The verb's own file is loaded (only then), and run. Its number is the exit code (exit-codes.ts).

import { realpathSync } from "node:fs";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { BusbarError, isCode } from "../../schemas/errors.ts";
import { showId } from "../../schemas/ids.ts";
import { nearest } from "../../schemas/plan/nearest.ts";
import { VERSION } from "../version.ts";
import { type Ctx, type Io, usage } from "./context.ts";
import { leave, realIo, realSignals } from "./edge.ts";
import { EXIT, exitCodeOf } from "./exit-codes.ts";
import { failureText } from "./failure.ts";
import { findSystemTool, handOver, NEAREST_OF_OURS, SYSTEMD_VERBS, verbOf } from "./handover.ts";
import { mainHelp, verbHelp } from "./render/help.ts";
import { palette, wantsColor, wantsUnicode } from "./render/palette.ts";
import { GLOBAL_OPTIONS, type VerbDef } from "./verb-def.ts";
import { findVerb, VERBS } from "./verb-table.ts";

async function main(io: Io, argv: readonly string[]): Promise<number> {
  const verb = verbOf(argv);
  if (verb !== undefined && SYSTEMD_VERBS.has(verb)) return systemVerb(verb, argv);
  const p = palette(
    wantsColor(io.outTty, process.env, argv.includes("--no-color")),
    wantsUnicode(process.env),
  );
  const help = () => io.out(mainHelp(VERBS, p, Math.min(io.columns(), 110)));
  if (verb === undefined) {
    if (argv.some((word) => word === "--version" || word === "-V")) {
      await io.out(`busctl (busbar) ${VERSION}\n`);
      return EXIT.ok;
    }
    const stray = argv.find((word) => word.startsWith("-") && !isGlobal(word));
    if (stray) throw usage(`there is no option ${showId(stray)} without a verb`);
    await help();
    return argv.some((word) => word === "--help" || word === "-h") ? EXIT.ok : EXIT.refused;
  }
  if (verb === "help") {
    const about = findVerb(argv[argv.indexOf("help") + 1] ?? "");
    await (about ? io.out(verbHelp(about, p, Math.min(io.columns(), 110))) : help());
    return EXIT.ok;
  }
  const def = findVerb(verb);
  if (!def) throw unknownVerb(verb);
  return runVerb(def, io, withoutVerb(argv, verb), p).catch((error: unknown) => {
    throw explained(error, def);
  });
}

async function runVerb(def: VerbDef, io: Io, argv: string[], p: Ctx["p"]): Promise<number> {
  const { parseVerb } = await import("./parse.ts");
  const args = parseVerb(def, argv);
  if (args.flag("help")) {
    await io.out(verbHelp(def, p, Math.min(io.columns(), 110)));
    return EXIT.ok;
  }
  const dir = resolve(args.text("repo") ?? ".");
  const ctx: Ctx = {
    io,
    env: process.env,
    dir,
    json: args.flag("json"),
    p,
    now: () => Date.now(),
    connect: async () => {
      const { commonDirOf, openBus } = await import("./connect.ts");
      return openBus(await commonDirOf(dir));
    },
    onSignal: realSignals,
  };
  return (await def.load()).run(ctx, args);
}

/** What a verb does not take is explained by its own help. */
function explained(error: unknown, def: VerbDef): unknown {
  if (!isCode(error, "USAGE") || error.data.help !== undefined) return error;
  const help = `\`busctl ${def.name} --help\` says what it takes.`;
  return new BusbarError("USAGE", error.message, { ...error.data, help });
}

function isGlobal(word: string): boolean {
  return GLOBAL_OPTIONS.some(
    (o) => word === `--${o.name}` || word.startsWith(`--${o.name}=`) || word === `-${o.short}`,
  );
}

function withoutVerb(argv: readonly string[], verb: string): string[] {
  // The value of an option may read like the verb: the verb is found the way verbOf found it.
  for (let i = 0; i < argv.length; i++) {
    if (argv[i] === verb && verbOf(argv.slice(0, i)) === undefined && verbOf(argv.slice(0, i + 1)) === verb) {
      return [...argv.slice(0, i), ...argv.slice(i + 1)];
    }
  }
  return [...argv];
}

function unknownVerb(verb: string): Error {
  const near = nearest(
    verb,
    VERBS.map((v) => v.name),
  );
  return usage(`there is no verb ${showId(verb)}${near ? `; did you mean \`busctl ${near}\`?` : ""}`);
}

async function systemVerb(verb: string, argv: readonly string[]): Promise<number> {
  const tool = findSystemTool(process.env.PATH, realpathSync(fileURLToPath(import.meta.url)));
  if (tool) return handOver(tool, argv);
  const ours = NEAREST_OF_OURS.get(verb) ?? "tasks";
  throw usage(
    `\`${verb}\` is a verb of systemd's busctl, which is not installed here; busbar's nearest is \`busctl ${ours}\``,
  );
}

const io = realIo();
const argv = process.argv.slice(2);
try {
  await leave(io, await main(io, argv));
} catch (error) {
  const color = wantsColor(process.stderr.isTTY === true, process.env, argv.includes("--no-color"));
  const json = argv.includes("--json");
  const { isTTY, columns } = process.stderr;
  const width = isTTY ? columns || 80 : Number.POSITIVE_INFINITY;
  const debug = process.env.BUSBAR_DEBUG === "1";
  io.err(failureText(error, { json, debug, p: palette(color), width }));
  await leave(io, exitCodeOf(error));
}
