// The one template of what an agent is told (S7). Pure. The whole of it is `prompt.md`; facts for programs are in
// context.json beside it.

import type { Context } from "./context.ts";

const RULES = [
  "Work in the current directory only. It is a repository of your own; commits are welcome but not needed: what the files hold at your end is the result.",
  "Change only files that are allowed above. Anything else makes the whole attempt fail.",
  'If you need a file that is not allowed, do not touch it: run `busbar-call request_files \'{"paths":["PATH"],"reason":"WHY"}\'` and end.',
  '`busbar-call get_file \'{"task_id":"ID","path":"PATH"}\'` shows a file of a task that this one depends on, as that task published it.',
  "End with exit code 0 when the work is done. The checks are run by others on exactly what you leave; saying that it works proves nothing.",
];

export function promptOf(context: Context): string {
  const { task } = context;
  const parts = [
    `# Task ${task.id}${context.attempt > 1 ? ` (attempt ${context.attempt})` : ""}`,
    section("Goal", task.goal || (task.command === undefined ? "" : `Run: ${task.command}`)),
    section("Interface", task.interface),
    section("Allowed files", list(context.allowed_files)),
    section("Forbidden files", list(context.forbidden_files)),
    section("Read these first", list(context.context_files.map((f) => f.path))),
    section(
      "Acceptance",
      list(task.acceptance.map((a) => [a.text, a.run && `\`${a.run}\``].filter(Boolean).join(": "))),
    ),
    section("Prohibited actions", list(task.prohibited_actions)),
    section(
      "Recent changes of these files",
      list(context.history.map((h) => `${h.commit.slice(0, 12)} ${h.subject}`)),
    ),
    section("What a person says about it", context.feedback ?? ""),
    ...context.earlier.slice(-3).map(earlier),
    section("Rules", list(RULES)),
  ];
  return `${parts.filter((part) => part !== "").join("\n\n")}\n`;
}

function section(title: string, body: string): string {
  return body.trim() === "" ? "" : `## ${title}\n\n${body.trim()}`;
}

function list(items: readonly string[]): string {
  return items.map((item) => `- ${item}`).join("\n");
}

function earlier(record: Context["earlier"][number]): string {
  const lines = [`## Attempt ${record.attempt} failed: ${record.cause}`, "", record.summary];
  if (record.paths.length > 0) lines.push("", list(record.paths));
  if (record.landed_since.length > 0)
    lines.push("", `Landed meanwhile: ${record.landed_since.join(", ")}. Look at what they changed.`);
  if (record.log.trim() !== "") lines.push("", ...fenced(record.log));
  return lines.join("\n");
}

/** Indented, so that no line of a log can end the block. */
function fenced(log: string): string[] {
  return log
    .trimEnd()
    .split("\n")
    .map((line) => `    ${line}`);
}
