// Where bus and scheduler are services of systemd (scripts/systemd), busctl starts neither: what it started would lie
// outside of their units and keep them from coming up. It waits for them, and says who can start them.

import { BusbarError } from "../../schemas/errors.ts";
import type { DaemonName } from "../client/last-words.ts";
import type { Env } from "../paths.ts";
import type { Program } from "./launch.ts";

/** Whose services they are; set for their user by the installed `busctl`. */
const SERVICES_VARIABLE = "BUSBAR_SERVICES";

export function areServices(env: Env): boolean {
  return env[SERVICES_VARIABLE] === "systemd";
}

/** As `systemd-escape --path` has it. */
export function escapedPath(path: string): string {
  const trimmed = path.replace(/\/+/g, "/").replace(/^\/|\/$/g, "");
  return [...Buffer.from(trimmed)]
    .map((byte, at) => {
      const char = String.fromCharCode(byte);
      if (char === "/") return "-";
      if (/[A-Za-z0-9:_]/.test(char) || (char === "." && at > 0)) return char;
      return `\\x${byte.toString(16).padStart(2, "0")}`;
    })
    .join("");
}

/** Stands for a program that somebody else starts. */
export function awaitService(name: DaemonName, commonDir: string): Program {
  const unit = `busbar-${name === "busd" ? "bus" : "scheduler"}@${escapedPath(commonDir)}.service`;
  return {
    pid: undefined,
    running: () => true,
    killedBy: () => undefined,
    failed: (what) =>
      new BusbarError("BUS_AWAY", `${what} is a service of this machine, and it does not run`, {
        help: `As root: systemctl start '${unit}'; why it ended: journalctl -u '${unit}'.`,
      }),
  };
}
