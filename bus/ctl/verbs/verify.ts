import type { VerifyAnswer } from "../../../schemas/answers.ts";
import { type Args, type Ctx, say, sayJson } from "../context.ts";
import { EXIT } from "../exit-codes.ts";
import { plural } from "../render/time.ts";
import { displayWidth, harmless, wrap } from "../render/width.ts";
import { unknownBranchLines } from "../unknown-branches.ts";

export async function run(ctx: Ctx, _args: Args): Promise<number> {
  const bus = await ctx.connect();
  try {
    const answer = await bus.call("verify", {}, { timeoutMs: VERIFY_TIMEOUT_MS });
    if (ctx.json) await sayJson(ctx, answer);
    else {
      const said = lines(ctx, answer).flatMap((line) => wrapped(line, ctx.io.columns()));
      const unknown = (answer.branches ?? []).filter(({ kind }) => kind === "unknown");
      await say(
        ctx,
        ...said,
        ...unknownBranchLines(
          ctx,
          unknown.map(({ branch }) => branch),
        ),
      );
    }
    return answer.ok ? EXIT.ok : EXIT.unfinished;
  } finally {
    bus.close();
  }
}

/** What goes on in a further line stands as deep as the first. */
function wrapped(line: string, width: number): string[] {
  // A line with colours of its own is left to the terminal.
  if (displayWidth(line) <= width || line.includes("\x1b")) return [line];
  const deep = /^ */.exec(line)?.[0] ?? "";
  return wrap(line.slice(deep.length), width - deep.length - 2).map(
    (part, i) => `${deep}${i > 0 ? "  " : ""}${part}`,
  );
}

/** Every record is proven and replayed: a million of them take some ten seconds. */
const VERIFY_TIMEOUT_MS = 30 * 60_000;

type Said = (ctx: Ctx, answer: VerifyAnswer) => string[];

/** The verdict first, then what speaks against it with what to do, then what it rests on. */
function lines(ctx: Ctx, answer: VerifyAnswer): string[] {
  return [verdict, damage, gaps, outside, branches, removed, anchored, replayed].flatMap((said: Said) =>
    said(ctx, answer),
  );
}

function verdict({ p }: Ctx, { ok, records, first_bad: bad, gaps, replay }: VerifyAnswer): string[] {
  const chain = `the chain of ${plural(records, "record")} holds`;
  if (bad) return [];
  if (ok) return [`${p.green("whole")}: ${chain}`];
  if (replay && !replay.same) return [`${p.red("not whole")}: ${chain}, but it does not lead to this state`];
  if (gaps) return [`${p.yellow("not whole")}: ${chain}, but some are lost for ever:`];
  return [`${p.yellow("in doubt")}: ${chain}, but the repository does not agree with it:`];
}

function damage({ p }: Ctx, { first_bad: bad }: VerifyAnswer): string[] {
  if (!bad) return [];
  const { seq, kind, why, file, line } = bad;
  return [
    `${p.red("damaged")}: record ${seq}: ${kind}: ${harmless(why)}`,
    `  in ${harmless(file)}, line ${line}`,
    ...advice(
      p,
      `What comes before record ${seq} is proven, what stands behind it is not. Copy the state directory now, before anything else; then bring back a backup, or see what \`busctl down\` and \`busctl repair\` would take out.`,
    ),
  ];
}

function gaps(_ctx: Ctx, { gaps: lost = [] }: VerifyAnswer): string[] {
  return lost.map(
    ({ from, to, at, why }) =>
      `  ${from === to ? `record ${from}` : `records ${from} to ${to}`}, found missing on ${at}: ${harmless(why)}`,
  );
}

function outside({ p }: Ctx, { anchor_fault: fault, former }: VerifyAnswer): string[] {
  return [
    ...(fault
      ? [
          `${p.yellow("anchor")} ${fault.kind}: ${harmless(fault.why)}`,
          ...advice(p, ANCHOR_ADVICE[fault.kind]),
        ]
      : []),
    ...(former ? [`${p.yellow("another state")}: ${harmless(former.why)}`, ...advice(p, former.help)] : []),
  ];
}

type Kind = NonNullable<VerifyAnswer["anchor_fault"]>["kind"];

const ANEW = "The bus anchors the log anew at the next landing and when it ends.";
const ANCHOR_ADVICE: Record<Kind, string> = {
  missing: `Find out who deleted it: \`git for-each-ref refs/busbar\` shows what is left. ${ANEW}`,
  foreign: `Find out who put it there: \`git log refs/busbar/anchor\` shows it. ${ANEW}`,
  older: `Find out who moved it: \`git log refs/busbar/anchor\` shows it; a restored repository has an older one, too. ${ANEW}`,
  unread: "Look with `git log refs/busbar/anchor` why it cannot be read; then verify again.",
};

function branches({ p }: Ctx, { branches: found = [] }: VerifyAnswer): string[] {
  // Those of no run are named below, with what to do.
  const faults = found.filter(({ kind }) => kind !== "unknown");
  return [
    ...faults.map(({ branch, why }) => `${p.yellow(`branch ${harmless(branch)}`)} ${harmless(why)}`),
    ...(faults.length > 0
      ? advice(
          p,
          "Somebody moved it, or the repository was restored from an older copy; `git reflog` of the branch may tell.",
        )
      : []),
  ];
}

function replayed({ p }: Ctx, { replay }: VerifyAnswer): string[] {
  if (!replay) return [];
  if (replay.same) return ["  replayed, it leads to the state as it is"];
  return [
    `${p.red("differs")}: the first that replay makes otherwise: ${harmless(replay.differs ?? "")}`,
    ...advice(
      p,
      "Copy the state directory: this is a fault of busbar or of the memory of this machine, and the copy shows which.",
    ),
  ];
}

function removed(_ctx: Ctx, { removed: gone }: VerifyAnswer): string[] {
  if (!gone) return [];
  const { to, at, rule } = gone;
  return [
    `  records 1 to ${to} were removed by retention on ${at} (${rule}); what is proven begins with record ${to + 1}`,
  ];
}

function anchored(_ctx: Ctx, { anchors }: VerifyAnswer): string[] {
  const { newest, broken, held } = anchors ?? {};
  return [
    ...(newest
      ? [
          `  ${plural(held ?? 0, "anchor")} in the repository found in it, the newest at record ${newest.seq} of ${newest.at}`,
        ]
      : []),
    ...(broken
      ? [`  anchors up to record ${broken.seq} were deleted or moved by another hand, found on ${broken.at}`]
      : []),
  ];
}

function advice(p: Ctx["p"], text: string): string[] {
  return [`  ${p.dim("->")} ${harmless(text)}`];
}
