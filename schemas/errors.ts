// The one catalogue of errors. A code never changes its meaning; retired numbers are listed at the end.
// Branch on `code` (the name), never on the message. PROTOCOL.md lists the same table (test/unit/errors.test.ts).

interface Entry {
  /** JSON-RPC error number. */
  rpc: number;
  /** True when the same call may succeed later without a change. */
  retryable: boolean;
  /** What a person can do about it. */
  help: string;
}

export const ERRORS = {
  // JSON-RPC's own
  PARSE_ERROR: { rpc: -32700, retryable: false, help: "Send one JSON text per line, in UTF-8." },
  INVALID_REQUEST: {
    rpc: -32600,
    retryable: false,
    help: "Send a JSON-RPC 2.0 request object with method and id.",
  },
  METHOD_NOT_FOUND: { rpc: -32601, retryable: false, help: "See PROTOCOL.md for the methods." },
  INVALID_PARAMS: {
    rpc: -32602,
    retryable: false,
    help: "See PROTOCOL.md for the parameters of this method.",
  },
  INTERNAL: {
    rpc: -32603,
    retryable: false,
    help: "This is a fault of busbar; the bus log has the detail under the request id.",
  },
  // connection
  NOT_GREETED: { rpc: 1001, retryable: false, help: "Call `hello` first." },
  PROTOCOL_MISMATCH: {
    rpc: 1002,
    retryable: false,
    help: "Bring both sides to versions that share a protocol.",
  },
  BAD_TOKEN: {
    rpc: 1003,
    retryable: false,
    help: "Read the token file of this bus again; it changes when the bus is set up anew.",
  },
  FORBIDDEN: {
    rpc: 1004,
    retryable: false,
    help: "This role may not call this method; PROTOCOL.md says which may.",
  },
  FRAME_TOO_LARGE: { rpc: 1005, retryable: false, help: "Send a smaller message." },
  TIMEOUT: {
    rpc: 1006,
    retryable: true,
    help: "Try again; if it stays so, look whether the process is stopped (`busctl up`).",
  },
  BUS_AWAY: { rpc: 1007, retryable: true, help: "Start it with `busctl up`." },
  BUS_NOT_ANSWERING: {
    rpc: 1008,
    retryable: true,
    help: "The process that holds the lock does not answer; it may be stopped (SIGSTOP) or busy. Continue or end it.",
  },
  SOCKET_PATH_TOO_LONG: {
    rpc: 1009,
    retryable: false,
    help: "Set BUSBAR_RUNTIME_DIR to a shorter directory.",
  },
  SOCKET_OBSTRUCTED: {
    rpc: 1010,
    retryable: false,
    help: "Something that is not a dead socket lies at the path; look at it and move it away.",
  },
  ALREADY_RUNNING: {
    rpc: 1011,
    retryable: false,
    help: "Use the one that runs, or end it with `busctl down`.",
  },
  UNSAFE_DIRECTORY: {
    rpc: 1012,
    retryable: false,
    help: "The directory must belong to you and be closed to others (mode 0700).",
  },
  LOCK_UNAVAILABLE: {
    rpc: 1013,
    retryable: false,
    help: "busbar needs the program `flock` (package util-linux).",
  },
  DIRECTORY_UNUSABLE: {
    rpc: 1014,
    retryable: false,
    help: "Set BUSBAR_STATE_DIR (state) or BUSBAR_RUNTIME_DIR (sockets) to a directory that you can write to.",
  },
  SCHEDULER_NOT_ANSWERING: {
    rpc: 1015,
    retryable: true,
    help: "The scheduler may be stopped (SIGSTOP) or busy. Continue or end it.",
  },
  STATE_IN_USE: {
    rpc: 1016,
    retryable: true,
    help: "A bus of another repository or machine works on this state: end it there, or set BUSBAR_STATE_DIR.",
  },
  // state
  NO_SUCH_RUN: { rpc: 1101, retryable: false, help: "`busctl tasks` lists the runs." },
  NO_SUCH_TASK: { rpc: 1102, retryable: false, help: "`busctl tasks` lists the tasks." },
  RUN_EXISTS: {
    rpc: 1103,
    retryable: false,
    help: "Another plan runs under that name: give this one another name, or cancel the other.",
  },
  ILLEGAL_MOVE: {
    rpc: 1104,
    retryable: false,
    help: "The task is not in a state that allows this; look at it with `busctl tasks --task`.",
  },
  STALE: { rpc: 1105, retryable: false, help: "Newer state exists; read it again." },
  FENCED: {
    rpc: 1106,
    retryable: false,
    help: "This attempt is over; a newer one or another worker has the task.",
  },
  BAD_PLAN: { rpc: 1107, retryable: false, help: "Mend the plan; every fault is listed with its place." },
  WORKER_EXISTS: { rpc: 1108, retryable: false, help: "One scheduler works here already." },
  NOT_CLAIMABLE: { rpc: 1109, retryable: true, help: "The task is not ready, or the run is paused." },
  STORAGE: {
    rpc: 1110,
    retryable: true,
    help: "The state could not be written; make room or mend the file system, then try again.",
  },
  JOURNAL_DAMAGED: {
    rpc: 1111,
    retryable: false,
    help: "Restore the state directory from a backup, or take the damaged records out with `busctl repair`, which keeps a copy.",
  },
  STATE_TOO_NEW: { rpc: 1112, retryable: false, help: "A newer busbar wrote this state; use that version." },
  SHUTTING_DOWN: { rpc: 1113, retryable: true, help: "The bus is ending; try again when it is back." },
  BAD_ID: { rpc: 1114, retryable: false, help: "Use letters, digits, '_', '-' and '.', at most 64." },
  STALE_HEAD: {
    rpc: 1115,
    retryable: true,
    help: "The integration branch moved; build the candidate anew from its head.",
  },
  UNPROVEN: {
    rpc: 1116,
    retryable: false,
    help: "Every check of the plan must have passed on exactly the tree that lands.",
  },
  KEY_UNUSABLE: {
    rpc: 1117,
    retryable: false,
    help: "Bring back the key of this state from a backup; it must be a file of yours with mode 0600.",
  },
  LANDED_RED: {
    rpc: 1118,
    retryable: false,
    help: "The commit landed before the state was lost, and is red now. Mend what makes it red and `busctl resume`; or move the branch back as the message says, then `busctl resume`: the task is run anew.",
  },
  // snapshot reads
  BAD_PATH: {
    rpc: 1201,
    retryable: false,
    help: "Give a path from the top of the repository, as git prints it.",
  },
  NO_SUCH_FILE: {
    rpc: 1202,
    retryable: false,
    help: "`busctl ls TASK` (method list_files) says what the snapshot holds.",
  },
  NOT_A_FILE: {
    rpc: 1203,
    retryable: false,
    help: "The path is a directory or a submodule; `busctl ls TASK:PATH` (method `list_files`) says what is below it.",
  },
  NO_SUCH_SNAPSHOT: {
    rpc: 1204,
    retryable: false,
    help: "The task has no such version yet; leave `version` out for the newest.",
  },
  NOT_READABLE: {
    rpc: 1205,
    retryable: false,
    help: "A task may read itself and what it depends on; `reads: run` in the plan opens the run.",
  },
  OBJECT_MISSING: {
    rpc: 1206,
    retryable: false,
    help: "Run `git fsck` in the repository; in a partial clone fetch the objects first.",
  },
  OBJECT_DAMAGED: {
    rpc: 1207,
    retryable: false,
    help: "The bytes do not match their hash; run `git fsck` in the repository.",
  },
  FILE_TOO_LARGE: {
    rpc: 1208,
    retryable: false,
    help: "Read it from the workspace, or with `git cat-file`.",
  },
  // repository
  NOT_A_REPOSITORY: {
    rpc: 1301,
    retryable: false,
    help: "Go into a git repository, or name one with --repo.",
  },
  UNBORN_HEAD: { rpc: 1302, retryable: false, help: "Make a first commit." },
  DETACHED_HEAD: {
    rpc: 1303,
    retryable: false,
    help: "Say which commit to start from: `base:` in the plan or --base.",
  },
  NO_SUCH_COMMIT: { rpc: 1304, retryable: false, help: "Name a commit or branch that exists here." },
  NOT_TRUSTED: {
    rpc: 1305,
    retryable: false,
    help: "git does not trust the owner of this repository: `git config --global --add safe.directory PATH` if you do.",
  },
  REF_CLASH: {
    rpc: 1306,
    retryable: false,
    help: "Rename the branch that is in the way, or give the run another name.",
  },
  SUBMODULE_MISSING: {
    rpc: 1307,
    retryable: false,
    help: "Run `git submodule update --init --recursive` in the repository first.",
  },
  GIT_TOO_OLD: {
    rpc: 1308,
    retryable: false,
    help: "busbar needs git 2.38 or newer (merge-tree --write-tree).",
  },
  GIT_FAILED: { rpc: 1309, retryable: false, help: "git's own words are in the message." },
  GIT_TIMEOUT: {
    rpc: 1310,
    retryable: true,
    help: "git did not end in time; look for a lock, a slow disk or a hanging filter.",
  },
  OBJECTS_UNREACHABLE: {
    rpc: 1311,
    retryable: true,
    help: "This is a partial clone and its remote cannot be reached; fetch once when it can.",
  },
  NOT_FAST_FORWARD: {
    rpc: 1312,
    retryable: false,
    help: "The branch has commits of its own; merge the integration branch by hand.",
  },
  BRANCH_CHECKED_OUT: {
    rpc: 1313,
    retryable: false,
    help: "busbar never touches a checkout; run `git merge --ff-only` there yourself.",
  },
  GIT_STOPPED: {
    rpc: 1314,
    retryable: true,
    help: "It was ended because nobody waits for it any more: the task was cancelled, or the scheduler ends.",
  },
  // work
  DISK_FULL: {
    rpc: 1401,
    retryable: true,
    help: "`busctl gc` removes what is idle; or raise disk_limit_percent.",
  },
  WORKSPACE_FAILED: {
    rpc: 1402,
    retryable: true,
    help: "The reason is in the message; nothing of the workspace is left.",
  },
  SPAWN_FAILED: {
    rpc: 1403,
    retryable: false,
    help: "The program could not be started; check that it is installed and on PATH.",
  },
  SECRET_UNAVAILABLE: {
    rpc: 1404,
    retryable: true,
    help: "Try the source by hand where the scheduler runs: the variable, the file, the command.",
  },
  COPY_UNAVAILABLE: {
    rpc: 1405,
    retryable: true,
    help: "Put it back into your checkout, or take it off `copy` of the plan.",
  },
  // files from people
  BAD_CONFIG: { rpc: 1501, retryable: false, help: "Mend the configuration file at the place named." },
  NO_SUCH_PROFILE: {
    rpc: 1502,
    retryable: false,
    help: "Name an agent that exists; `command:` runs any program.",
  },
  IO: { rpc: 1503, retryable: true, help: "The message names the file and what was being done to it." },
  USAGE: { rpc: 1504, retryable: false, help: "`busctl --help` says what can be said." },
  LIMIT_NOT_HELD: {
    rpc: 1505,
    retryable: false,
    help: "`busctl doctor` says what this host can hold, and the cure; or leave `strict` out.",
  },
  SANDBOX_UNAVAILABLE: {
    rpc: 1506,
    retryable: false,
    help: "Make sandboxes possible on this host (`busctl up` says what is missing), or say `sandbox: auto`.",
  },
  NO_DESCRIPTORS: {
    rpc: 1507,
    retryable: true,
    help: "Raise the limit on open files (`ulimit -n`) where busbar is started, or end what holds so many; then try again.",
  },
} as const satisfies Record<string, Entry>;

export type ErrorCode = keyof typeof ERRORS;

/** Numbers that once meant something; never given again. */
export const RETIRED_RPC_NUMBERS: readonly number[] = [];

/** An error of the catalogue. `message` says what was being done to what; `data` holds the facts. */
export class BusbarError extends Error {
  override name = "BusbarError";
  constructor(
    readonly code: ErrorCode,
    message: string,
    readonly data: Record<string, unknown> = {},
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
  get help(): string {
    return ERRORS[this.code].help;
  }
  get retryable(): boolean {
    return ERRORS[this.code].retryable;
  }
}

export function isCode(error: unknown, ...codes: ErrorCode[]): error is BusbarError {
  return error instanceof BusbarError && codes.includes(error.code);
}

/** The shape of an error on the wire: JSON-RPC `error` with our code name inside `data`. */
export interface WireError {
  code: number;
  message: string;
  data?: { code: ErrorCode; help: string; retryable: boolean; [fact: string]: unknown };
}

/** An error of the catalogue as it is, and whatever comes of a process, or machine, that can open no more files. */
export function knownError(error: unknown): BusbarError | undefined {
  if (error instanceof BusbarError) return error;
  for (let at: unknown = error; at instanceof Error; at = at.cause) {
    const { code, syscall } = at as NodeJS.ErrnoException;
    if (code !== "EMFILE" && code !== "ENFILE") continue;
    const whose = code === "EMFILE" ? "this process" : "this machine";
    return new BusbarError(
      "NO_DESCRIPTORS",
      `${whose} can open no more files (${syscall ?? "open"}: ${code})`,
    );
  }
  return undefined;
}

/** To the wire. What is not of the catalogue becomes INTERNAL and keeps its text to itself. */
export function toWireError(failed: unknown, requestId?: string): WireError {
  const error = knownError(failed);
  if (error) {
    const entry = ERRORS[error.code];
    const { help: own } = error.data;
    const help = typeof own === "string" ? own : entry.help;
    return {
      code: entry.rpc,
      message: error.message,
      data: { ...error.data, code: error.code, help, retryable: entry.retryable },
    };
  }
  const entry = ERRORS.INTERNAL;
  return {
    code: entry.rpc,
    message: "internal error",
    data: { code: "INTERNAL", help: entry.help, retryable: false, request_id: requestId },
  };
}

/** From the wire, for clients. */
export function fromWireError(error: WireError): BusbarError {
  const name = error.data?.code;
  const known = name !== undefined && Object.hasOwn(ERRORS, name) ? name : codeOfNumber(error.code);
  return new BusbarError(known, error.message, error.data ?? {});
}

function codeOfNumber(rpc: number): ErrorCode {
  for (const [name, entry] of Object.entries(ERRORS)) if (entry.rpc === rpc) return name as ErrorCode;
  return "INTERNAL";
}

/** An I/O error with path and deed: `writing the checkpoint /x/y: ENOSPC`. Disk trouble becomes `code`. */
export function ioError(deed: string, path: string, cause: unknown, code: ErrorCode = "IO"): BusbarError {
  const errno = (cause as NodeJS.ErrnoException | undefined)?.code ?? String(cause);
  return new BusbarError(code, `${deed} ${path}: ${errno}`, { path, errno }, { cause });
}
