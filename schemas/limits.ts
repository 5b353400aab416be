// Every limit, size and time-out of the product. Units are in the names. A number that must exceed
// another says so; `test/unit/limits.test.ts` checks those relations.

/** One JSON text per line; a longer line fails that call only (design section 5). */
export const MAX_FRAME_BYTES = 16 * 1024 * 1024;
/** Nesting of a frame beyond this is refused before JSON.parse may overflow its stack. */
export const MAX_FRAME_DEPTH = 256;
/** JSON-RPC batches are bounded so that one line cannot hold the loop. */
export const MAX_BATCH_CALLS = 100;
/** The id of a call comes back with its answer. JSON may take six bytes for a character: must stay below MAX_FRAME_BYTES. */
export const MAX_ID_TEXT_CHARS = 2_500_000;
/** A peer that has not said `hello` by then is cut off; `ping` is answered before it. */
export const HANDSHAKE_TIMEOUT_MS = 5_000;
/** A reader this far behind is cut off instead of buffered; must exceed MAX_FRAME_BYTES. */
export const MAX_UNSENT_BYTES = 48 * 1024 * 1024;
/** The same for all readers together; two hundred that are each behind by what stops their reading (1 MiB) fit. */
export const MAX_ALL_UNSENT_BYTES = 256 * 1024 * 1024;
/** A peer that takes nothing of what is due to it, or stops within a frame, for so long is cut off. */
export const STALLED_PEER_MS = 60_000;
/** A variable cannot hold more than 128 KiB with its name (MAX_ARG_STRLEN); half of it is no secret any more. */
export const MAX_SECRET_BYTES = 64 * 1024;
/** What `cmd:` of a secret may take; a person may have to unlock something. */
export const SECRET_COMMAND_MS = 30_000;
/** For so long what it printed is not asked again. */
export const SECRET_KEPT_MS = 60_000;
/** Set-ups kept for later workspaces: those used last. */
export const MAX_KEPT_SETUPS = 8;
/** sockaddr_un holds 108 bytes with the NUL; Node 20 cuts longer names silently. */
export const MAX_SOCKET_PATH_BYTES = 107;
/** What a client waits for an answer before it says TIMEOUT. */
export const CALL_TIMEOUT_MS = 30_000;
/** Version of the wire protocol spoken by this build. */
export const PROTOCOL_VERSION = 1;
/** Version of journal records and checkpoints written by this build. */
export const STATE_VERSION = 1;

/** A segment of the journal is closed beyond this size and the next one begun. */
export const JOURNAL_SEGMENT_BYTES = 64 * 1024 * 1024;
/** Checkpoints are written when this many events came since the last one ... */
export const CHECKPOINT_EVERY_EVENTS = 2_000;
/** ... or when the bus has been at rest for this long with something new. */
export const CHECKPOINT_IDLE_MS = 2_000;
/** Read records may wait this long for the disk; state changes never wait (design section 5). */
export const ACCESS_FLUSH_MS = 20;

/** Blob cache of `get_file`, in bytes of JSON-encoded text (a project's hot set is 2 to 7 MB, facts B). */
export const BLOB_CACHE_BYTES = 48 * 1024 * 1024;
/** A blob larger than this is answered with FILE_TOO_LARGE; must stay below MAX_FRAME_BYTES encoded. */
export const MAX_BLOB_BYTES = 8 * 1024 * 1024;
/** A read slower than this is recorded as slow, with the advice to run `git fsck` (B4). */
export const SLOW_READ_MS = 250;
/** `list_files` answers at most this many entries; `next` goes on. */
export const MAX_LIST_ENTRIES = 10_000;

/** What an agent's `publish` waits for its snapshot. */
export const PUBLISH_TIMEOUT_MS = 60_000;
/** What is waited for the answer to a call that may be a `publish`: the bus gives up on it first, and says so. */
export const LONGEST_ANSWER_MS = PUBLISH_TIMEOUT_MS + CALL_TIMEOUT_MS;

/** How often a shim says that it lives. */
export const HEARTBEAT_MS = 5_000;
/** A running attempt without a sign of life for this long is lost; must exceed 3 heartbeats. `lease_s` sets another. */
export const LEASE_MS = 60_000;
/** The shortest lease that may be set. */
export const MIN_LEASE_S = 6;
/** A shim that could not register by then starts nothing and reports that. */
export const REGISTER_WAIT_MS = 60_000;
/** The shim looks at its tree (usage, deadline) this often. */
export const SAMPLE_MS = 1_000;
/** An outcome that nobody took for this long stays in the outbox only. */
export const REPORT_GIVE_UP_MS = 24 * 3600_000;
/** Connections that one agent may hold open at its task socket. */
export const MAX_TASK_CONNECTIONS = 64;
/** A connection at the task socket waits this long for a bus that is away. */
export const TASK_SOCKET_WAIT_MS = 10_000;
/** A shim's job: read from its standard input, at most this long and this much. */
export const JOB_READ_MS = 5_000;
export const MAX_JOB_BYTES = 8 * 1024 * 1024;
/** A shim that found the bus away tries again after 100 ms, doubled up to this. */
export const RECONNECT_MAX_MS = 5_000;

/** S5: default time of one attempt. */
export const DEFAULT_TIMEOUT_S = 600;
export const MAX_TIMEOUT_S = 24 * 3600;
/** A shim alone takes longer than a shorter limit to start anything. */
export const MIN_TIMEOUT_S = 1;
/** Between TERM and KILL. */
export const KILL_GRACE_MS = 5_000;
/** The same for what a process left behind when it ended by itself: `status.done` is due within 1 s (W10). */
export const LEFTOVER_GRACE_MS = 300;
/** How long the shim goes on killing and looking before it reports survivors. */
export const KILL_SETTLE_MS = 10_000;
/** After the exit of the process its output is drained for at most this long. */
export const DRAIN_MS = 500;
/** `agent.log` keeps this much of the beginning ... */
export const LOG_HEAD_BYTES = 4 * 1024 * 1024;
/** ... and this much of the end, with a line between that says how much was left out. */
export const LOG_TAIL_BYTES = 4 * 1024 * 1024;
/** What of a log goes into evidence for the next attempt and into verdicts. */
export const EVIDENCE_BYTES = 8 * 1024;

/** S6: default tries after the first for bad work. */
export const DEFAULT_RETRIES = 3;
/** Causes that are nobody's fault (infra, lost, rate_limited) are tried again at most this often. */
export const MAX_INNOCENT_RETRIES = 10;
/** Of these, ends that nothing explains (infra, lost) are free so often; each further one counts as a failed try. */
export const FREE_LOSSES = 2;
/** And so often when other attempts were hit at the same time; must be less than MAX_INNOCENT_RETRIES, or it says nothing. */
export const FREE_WAVES = 6;
/** Trouble of the machine: at least so many other attempts were hit too, so close in time. */
export const WIDESPREAD_OTHERS = 2;
export const WIDESPREAD_MS = 30_000;
/** S6: pause before try n+1 = base * factor^n, with jitter of +-20 %. */
export const RETRY_BASE_MS = 1_000;
export const RETRY_FACTOR = 1.5;
export const RETRY_MAX_MS = 60_000;

/** Inputs of checks whose verdict is remembered; the oldest are forgotten. */
export const MAX_PROVEN_INPUTS = 20_000;
/** A verdict older than this stands for no other check: what nobody knows of may have changed meanwhile. */
export const VERDICT_AGE_MS = 7 * 24 * 3600_000;
/** One in so many uses of a verdict is a run of the check instead, to see whether it still holds. */
export const VERDICT_SAMPLE = 20;

/** W6: no workspace is made beyond this use of the disk. */
export const DISK_LIMIT_PERCENT = 85;
/** W9: an idle workspace is archived after this long. */
export const GC_IDLE_S = 2 * 3600;
/** A captured file larger than this is out of scope unless the spec allows it by name. */
export const MAX_CAPTURED_FILE_BYTES = 10 * 1024 * 1024;
/** Beyond this no name helps: apparent size, decided before anything is read (a sparse file has terabytes). */
export const MAX_ALLOWED_FILE_BYTES = 1024 * 1024 * 1024;
/** All files that one capture reads; must be more than one of the largest. */
export const MAX_CAPTURED_BYTES = 2 * 1024 * 1024 * 1024;
/** No git call of ours runs longer; a checkout of a large repository may take minutes. */
export const GIT_TIMEOUT_MS = 120_000;
/** How long `busctl` lets git look for what a checkout holds uncommitted; a note is not worth more waiting. */
export const CHECKOUT_LOOK_MS = 5_000;
/** A git that is ended removes its locks and temporary files after TERM; then it is killed. */
export const GIT_GRACE_MS = 500;

/** L2: values for a process without a sandbox are the host's, with one, the sandbox's. */
export const NOFILE_HOST = 65_536;
export const NOFILE_SANDBOX = 1_024;
/** Processes and threads of a user, all programs together: against a fork bomb where no control group counts. */
export const NPROC_HOST = 8_192;
/** Node hangs for ever at its start when it gets less than about 8; fewer than this is refused. */
export const MIN_NPROC = 32;

export const MAX_ID_CHARS = 64;
export const MAX_TASKS_PER_RUN = 50_000;
export const MAX_PLAN_BYTES = 32 * 1024 * 1024;
/** YAML aliases multiply; when they stand for more values than this the file is refused (a "bomb"). */
export const MAX_ALIASED_VALUES = 50_000;
/** The YAML parser reads less than 1 MB a second; larger plans are written as JSON or as several files. */
export const MAX_YAML_BYTES = 8 * 1024 * 1024;
/** A file pattern is no longer than a path may be. */
export const MAX_PATTERN_CHARS = 4_096;
/** `{a,b}{c,d}` has four readings; more than this many in one pattern are refused. */
export const MAX_BRACE_READINGS = 256;

/** S2: thresholds of the plan check; beyond them a warning. */
export const LINT = {
  maxFilesToChange: 3,
  maxContextFiles: 5,
  minGoalChars: 300,
  maxGoalChars: 800,
  maxExpectedLines: 500,
} as const;

/**
 * L2, L3: `limits: {preset: ...}`. Medium is what practitioners give one agent. Reading and writing a second is in none:
 * hardly any host lets others than root limit it, and what cannot be held is said at every attempt.
 */
export const LIMIT_PRESETS = {
  small: { memory: 512 * 1024 ** 2, pids: 64, cpus: 0.25, nofile: NOFILE_SANDBOX, disk: 1024 ** 3 },
  medium: { memory: 1024 ** 3, pids: 256, cpus: 0.5, nofile: NOFILE_SANDBOX, disk: 4 * 1024 ** 3 },
  large: { memory: 4 * 1024 ** 3, pids: 1_024, cpus: 2, nofile: 8_192, disk: 16 * 1024 ** 3 },
} as const;

/** S3: attempts at once when neither plan nor configuration says: by cores, within these bounds. */
export const WORKERS_PER_CORE = 4;
export const MAX_WORKERS = 200;
/** Bus and scheduler started by `busctl run` end by themselves after this long without work or clients. */
export const IDLE_EXIT_MS = 10 * 60_000;
