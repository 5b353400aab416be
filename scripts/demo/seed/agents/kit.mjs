// What the agents of the demo share. An agent is any program: it starts in its workspace, finds what it should know
// in the file $BUSBAR_CONTEXT, and may speak to the bus with `busbar-call METHOD '{...}'`.

import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

/** Writes a file of the workspace; its folder is made. */
export function write(path, text) {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
  console.log(`wrote ${path}`);
}

/** What the task and its earlier attempts are about, as text; the evidence of a failure stands in it. */
export function contextText() {
  return readFileSync(process.env.BUSBAR_CONTEXT, "utf8");
}

/** Calls the bus as this attempt; gives the result. */
export function call(method, params) {
  return JSON.parse(execFileSync("busbar-call", [method, JSON.stringify(params)], { encoding: "utf8" }));
}
