// Handlers that read: files of snapshots, tasks, the manifest, events, and the bus itself.
//
// `get_file` never touches a working tree or a disk path: task -> snapshot -> path's object id -> object store
// (B2). When all of that is in memory it answers without waiting for anything.

import { BusbarError } from "../../schemas/errors.ts";
import { showId } from "../../schemas/ids.ts";
import { MAX_LIST_ENTRIES, SLOW_READ_MS } from "../../schemas/limits.ts";
import type { ListAnswer, Parsed, Ping, Result } from "../../schemas/methods.ts";
import type { Clock } from "../../schemas/ports.ts";
import { pathFault } from "../../schemas/repo-path.ts";
import type { Blobs, EncodedBlob } from "../blobs.ts";
import type { Call, Handlers } from "../dispatch.ts";
import { writeManifestFiles } from "../manifest-file.ts";
import type { Entry, Manifest, Manifests } from "../manifests.ts";
import type { Snapshots, Source } from "../snapshot.ts";
import type { StateStore } from "../state/view.ts";
import { RawResult } from "../wire/rpc.ts";
import { type RecordSource, subscribe } from "./subscribe.ts";

export interface ReadParts {
  store: StateStore & RecordSource;
  snapshots: Snapshots;
  manifests: Manifests;
  blobs: Blobs;
  /** The tree of a commit. */
  treeOf(commit: string): Promise<string>;
  clock: Clock;
  /** Facts of the process for `ping`. */
  facts(): Omit<Ping, "live_tasks" | "degraded" | "former">;
}

/** One answer of `list_files` stops here even if `limit` is not reached: names may be long. */
const MAX_LIST_CHARS = 4 * 1024 * 1024;
const LIVE: ReadonlySet<string> = new Set(["ready", "running", "retrying"]);

export function readHandlers(parts: ReadParts): Handlers {
  return {
    ping: () => ping(parts),
    get_task: (call, params) => getTask(parts, call, params),
    get_file: (call, params) => {
      const { restoring } = parts.snapshots;
      return restoring ? restoring.then(() => getFile(parts, call, params)) : getFile(parts, call, params);
    },
    list_files: async (call, params) => {
      await parts.snapshots.restoring;
      return listFiles(parts, call, params);
    },
    write_manifest: (_call, params) => writeManifest(parts, params),
    subscribe: (call, params) => subscribe(parts.store, call.peer, params),
  };
}

function ping(parts: ReadParts): Ping {
  const { degraded, former } = parts.store;
  return {
    ...parts.facts(),
    live_tasks: liveTasks(parts.store),
    ...(degraded ? { degraded } : {}),
    ...(former && { former: { why: former.why, help: former.help } }),
  };
}

/** Tasks that go on without a person: while there is one the bus has work. */
export function liveTasks(store: StateStore): number {
  let live = 0;
  for (const run of store.view.runs())
    for (const task of store.view.tasks(run.run)) if (LIVE.has(task.state.name)) live += 1;
  return live;
}

function getTask(parts: ReadParts, call: Call, params: Parsed<"get_task">): Result<"get_task"> {
  const id = params.task ?? call.attempt?.task;
  const name = params.run ?? call.attempt?.run;
  if (id === undefined || name === undefined)
    throw new BusbarError(
      "INVALID_PARAMS",
      "get_task: run and task are needed: this caller is not an attempt",
    );
  if (call.role === "agent" && call.attempt) parts.snapshots.checkReadable(call.attempt, name, id);
  const run = parts.store.view.run(name);
  if (!run) throw new BusbarError("NO_SUCH_RUN", `there is no run ${name}`, { run: name });
  const task = parts.store.view.task(name, id);
  if (!task) throw new BusbarError("NO_SUCH_TASK", `run ${name} has no task ${id}`, { run: name, task: id });
  return { task, run, ...(call.attempt ? { attempt: call.attempt.attempt } : {}) };
}

// --- get_file --------------------------------------------------------------------------------------

function getFile(parts: ReadParts, call: Call, params: Parsed<"get_file">): RawResult | Promise<RawResult> {
  checkPath("get_file", params.path);
  const source = parts.snapshots.resolve(call, params);
  call.access.version = source.version;
  const manifest = parts.manifests.cached(source.base);
  if (!manifest)
    return parts.manifests.get(source.base).then((got) => fromTree(parts, call, params.path, source, got));
  return fromTree(parts, call, params.path, source, manifest);
}

function fromTree(
  parts: ReadParts,
  call: Call,
  path: string,
  source: Source,
  manifest: Manifest,
): RawResult | Promise<RawResult> {
  const entry = entryAt(path, source, manifest);
  call.access.oid = entry.oid;
  const blob = parts.blobs.cached(entry.oid);
  if (blob) return fileAnswer(parts, call, source, entry, blob);
  return parts.blobs.get(entry.oid).then(
    (read) => fileAnswer(parts, call, source, entry, read),
    (error) => {
      noteSlow(parts, call);
      throw error;
    },
  );
}

function checkPath(method: string, path: string): void {
  const fault = pathFault(path);
  if (fault) throw new BusbarError("BAD_PATH", `${method}: path ${showId(path)} ${fault}`, { param: "path" });
}

/** Changed paths first, then the list of the base. Throws NO_SUCH_FILE, NOT_A_FILE. */
function entryAt(path: string, source: Source, manifest: Manifest): Entry {
  const changed = source.changed.get(path);
  const entry = changed ? existing(changed) : manifest.get(path);
  if (entry && entry.mode !== "160000") return entry;
  const where = `${showId(path)} in version ${source.version} of task ${source.task}`;
  if (entry) throw new BusbarError("NOT_A_FILE", `${where} is a submodule`, { mode: entry.mode });
  if (whole(source, manifest).isDirectory(path))
    throw new BusbarError("NOT_A_FILE", `${where} is a directory`, { mode: "040000" });
  throw new BusbarError("NO_SUCH_FILE", `there is no ${where}`);
}

function existing(changed: { mode: string | null; oid: string | null }): Entry | undefined {
  return changed.mode === null || changed.oid === null ? undefined : { mode: changed.mode, oid: changed.oid };
}

/** The tree of a snapshot: its base with the changes on top. */
function whole(source: Source, manifest: Manifest): Manifest {
  const changes = new Map<string, Entry | null>();
  for (const [path, changed] of source.changed) changes.set(path, existing(changed) ?? null);
  return manifest.with(changes);
}

function fileAnswer(
  parts: ReadParts,
  call: Call,
  source: Source,
  entry: Entry,
  blob: EncodedBlob,
): RawResult {
  const ms = noteSlow(parts, call);
  const tail =
    `,"encoding":"${blob.encoding}","oid":"${entry.oid}","mode":"${entry.mode}","size":${blob.size}` +
    `,"version":${source.version},"commit":"${source.commit}","request_id":"${call.requestId}"` +
    `,"response_time_ms":${ms}}`;
  return new RawResult('{"content":', blob.json, tail);
}

/** Milliseconds since the request came. A slow read once meant a damaged pack: the record says so (B4). */
function noteSlow(parts: ReadParts, call: Call): number {
  const ms = Math.round((parts.clock.monotonic() - call.arrived) * 1000) / 1000;
  if (ms > SLOW_READ_MS) call.access.slow = `took ${Math.round(ms)} ms; run \`git fsck\` in the repository`;
  return ms;
}

// --- list_files and the manifest -------------------------------------------------------------------

async function listFiles(parts: ReadParts, call: Call, params: Parsed<"list_files">): Promise<ListAnswer> {
  const prefix = params.prefix ?? "";
  if (prefix.replace(/\/$/, "") !== "") checkPath("list_files", prefix.replace(/\/$/, ""));
  const source = parts.snapshots.resolve(call, params);
  call.access.version = source.version;
  const tree = whole(source, await parts.manifests.get(source.base));
  const limit = Math.min(params.limit ?? MAX_LIST_ENTRIES, MAX_LIST_ENTRIES);
  const answer: ListAnswer = { version: source.version, commit: source.commit, files: [] };
  const after = params.after === undefined ? "" : `${params.after}\0`; // the first string behind it
  let chars = 0;
  for (const path of tree.paths([prefix, after].sort()[1])) {
    if (!path.startsWith(prefix)) break;
    if (answer.files.length >= limit || chars > MAX_LIST_CHARS) {
      answer.next = answer.files.at(-1)!.path;
      break;
    }
    answer.files.push({ path, ...tree.get(path)! });
    chars += path.length + 80;
  }
  return answer;
}

async function writeManifest(
  parts: ReadParts,
  params: Parsed<"write_manifest">,
): Promise<Result<"write_manifest">> {
  const { run, task, attempt } = params;
  const record = parts.store.view.task(run, task)?.attempts.find((each) => each.attempt === attempt);
  if (!record) throw new BusbarError("NO_SUCH_TASK", `there is no attempt ${run}/${task}#${attempt}`);
  const shot = parts.store.view.snapshots(run, task, attempt).at(-1);
  const base = record.base;
  const source = {
    run,
    task,
    attempt,
    version: shot?.version ?? 0,
    commit: shot?.commit ?? base,
    base: shot?.base ?? base,
    changed: shot?.changed ?? new Map(),
  };
  const tree = shot?.tree ?? (await parts.treeOf(base));
  const manifest = whole(source, await parts.manifests.get(source.base));
  const facts = { run, task, attempt, base: source.base, commit: source.commit, tree };
  return writeManifestFiles(record.workspace, facts, manifest);
}
