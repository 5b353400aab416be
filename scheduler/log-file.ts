// logs/scheduler.log of the state directory: JSON lines, appended at once, so that a kill loses none. Begun anew beyond
// a size; the one before is kept.

import { appendFileSync, mkdirSync, renameSync, statSync } from "node:fs";
import { join } from "node:path";
import { jsonLog, type Log } from "../schemas/ports.ts";

const MAX_LOG_BYTES = 16 * 1024 * 1024;

export function fileLog(stateDir: string): Log {
  const dir = join(stateDir, "logs");
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const path = join(dir, "scheduler.log");
  let bytes = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  return jsonLog((line) => {
    try {
      if (bytes > MAX_LOG_BYTES) {
        renameSync(path, `${path}.1`);
        bytes = 0;
      }
      appendFileSync(path, line, { mode: 0o600 });
      bytes += line.length;
    } catch {
      // A full disk must not end the scheduler; what it does is in the journal of the bus.
    }
  });
}
