// Who may speak as whom. Tokens of person and scheduler are random and lie in 0600 files of the private
// runtime directory; tokens of shim and agent are computed from the bus's secret key, so that none is stored:
// `<role>.<run>/<task>/<attempt>.<hmac>`. The hmac is over the attempt's label and the nonce of its claim: after a loss of
// state a number may be given again, and whoever holds the token of the forgotten attempt speaks for nobody. No token
// ever goes by argument or environment.

import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { lstatSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { BusbarError } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import { type AttemptRef, attemptLabel, idFault } from "../schemas/ids.ts";
import type { Role } from "../schemas/methods.ts";
import { writeDurably } from "./paths.ts";
import type { StateView } from "./state/view.ts";

/** Roles whose token is a file. */
export const FILE_ROLES = ["person", "scheduler"] as const;
type FileRole = (typeof FILE_ROLES)[number];
export type AttemptRole = "shim" | "agent";

const TOKEN = /^[0-9a-f]{64}$/;

/** What the state knows of an attempt; undefined: nothing, or it is of a version without nonces. */
export type NonceOf = (ref: AttemptRef) => string | undefined;

export function nonceIn(view: Pick<StateView, "task">): NonceOf {
  return ({ run, task, attempt }) =>
    view.task(run, task)?.attempts.findLast((record) => record.attempt === attempt)?.nonce;
}

/** The token of one attempt. `key` is the bus's secret, which agents cannot read. */
export function attemptToken(key: Buffer, role: AttemptRole, ref: AttemptRef, nonce?: string): string {
  return `${role}.${ref.run}/${ref.task}/${ref.attempt}.${attemptMac(key, role, ref, nonce)}`;
}

function attemptMac(key: Buffer, role: AttemptRole, ref: AttemptRef, nonce: string | undefined): string {
  return createHmac("sha256", key)
    .update(`${role}:${attemptLabel(ref)}${nonce === undefined ? "" : `:${nonce}`}`)
    .digest("hex");
}

/** The attempt that a token stands for, or undefined when the token is not ours or for another role. */
export function readAttemptToken(
  key: Buffer,
  role: AttemptRole,
  token: string,
  nonceOf: NonceOf = () => undefined,
): AttemptRef | undefined {
  const match = /^(shim|agent)\.([^/]+)\/([^/]+)\/([1-9]\d{0,8})\.([0-9a-f]{64})$/.exec(token);
  if (!match || match[1] !== role) return undefined;
  const ref = { run: match[2]!, task: match[3]!, attempt: Number(match[4]) };
  if (idFault(ref.run) || idFault(ref.task)) return undefined;
  return equal(match[5]!, attemptMac(key, role, ref, nonceOf(ref))) ? ref : undefined;
}

function equal(a: string, b: string): boolean {
  const left = Buffer.from(a);
  const right = Buffer.from(b);
  return left.length === right.length && timingSafeEqual(left, right);
}

/** All tokens of one bus. */
export class Tokens {
  readonly #key: Buffer;
  readonly #files: Map<FileRole, string>;

  /** Takes over the token files of an earlier bus where they are sound, else writes new ones. */
  constructor(
    dir: string,
    key: Buffer,
    uid: number,
    private readonly nonceOf: NonceOf = () => undefined,
  ) {
    this.#key = key;
    this.#files = new Map(FILE_ROLES.map((role) => [role, tokenFile(join(dir, role), uid)]));
  }

  /** For shim and agent: the attempt. Throws BAD_TOKEN, which never repeats what was sent. */
  check(role: Role, token: string): AttemptRef | undefined {
    if (role === "shim" || role === "agent") {
      const ref = readAttemptToken(this.#key, role, token, this.nonceOf);
      if (ref) return ref;
    } else if (equal(token, this.#files.get(role)!)) return undefined;
    throw new BusbarError("BAD_TOKEN", `the token is not valid for role ${role}`, { role });
  }
}

function tokenFile(path: string, uid: number): string {
  const known = soundToken(path, uid);
  if (known) return known;
  const token = randomBytes(32).toString("hex");
  faultPoint("bus.tokens.before-write");
  writeDurably(path, token);
  return token;
}

function soundToken(path: string, uid: number): string | undefined {
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (!stat?.isFile() || stat.uid !== uid || (stat.mode & 0o077) !== 0) return undefined;
  const text = readFileSync(path, "utf8").trim();
  return TOKEN.test(text) ? text : undefined;
}
