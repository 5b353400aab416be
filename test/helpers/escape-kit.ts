// What an attempt to escape is (escapes.ts), and the words that several of them are made of.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** What the test has made, and the agent knows of by variables of these names. */
export interface Targets {
  /** A folder of the host, with `secret`, `service.sock`, and nothing of the attempt. */
  OUT: string;
  /** The person's home, with `.ssh/id`. */
  PERSON: string;
  REPO: string;
  STATE: string;
  RUNTIME: string;
  /** A process of the host: works in OUT, holds a file open as descriptor 9, has HOST_SECRET in its environment. */
  HOST_PID: string;
  /** Where somebody listens on 127.0.0.1. */
  LOCAL_PORT: string;
  /** A word that nobody else uses. */
  WORD: string;
}

/** When an attempt gets through where there is no sandbox. */
export type Open =
  | "always"
  /** Only where busbar runs as root. */
  | "root"
  /** Only where there are no control groups. */
  | "ungrouped"
  /** The host may forbid it to everybody, or not. */
  | "perhaps"
  | "never";

export interface Escape {
  name: string;
  /** For people, behind "an agent can". */
  can: string;
  open: Open;
  script: string;
  /** Instead of the exit code. */
  seen?: (targets: Targets, attempt: string) => boolean;
}

/** A program of one line. */
export const python = (code: string) => `python3 -c '${code}'`;
/** Succeeds when somebody listens there. */
export const connect = (family: string, at: string) =>
  python(`import os,socket as s; c=s.socket(s.${family}); c.settimeout(3); c.connect(${at})`);
/** Whether a process with this word still runs. */
export const runs = (marker: string) => (targets: Targets) => pidsWith(marker + targets.WORD).length > 0;
export const libc = "import ctypes,os; l=ctypes.CDLL(None,use_errno=True)";
/** Starts what is to outlive the attempt, and waits until it runs. */
export const daemon = (marker: string, how: string) => {
  const code = `import time; open("${marker}up", "w"); time.sleep(300)`;
  const start = `${how} python3 -c '${code}' ${marker}$WORD >/dev/null 2>&1 </dev/null &`;
  return `${start}\nuntil [ -e ${marker}up ]; do sleep 0.02; done; rm ${marker}up`;
};
/** Whether a file stands in OUT. */
export const inOut = (name: string) => (targets: Targets) => existsSync(join(targets.OUT, name));

/** Of all whose command line holds it. */
export function pidsWith(word: string): number[] {
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => {
      try {
        return pid > 0 && readFileSync(`/proc/${pid}/cmdline`, "latin1").includes(word);
      } catch {
        return false;
      }
    });
}
