// Handlers for agents that change state. The connection is the attempt.

import { BusbarError } from "../../schemas/errors.ts";
import { type AttemptRef, attemptLabel, showId } from "../../schemas/ids.ts";
import { PUBLISH_TIMEOUT_MS } from "../../schemas/limits.ts";
import type { SnapshotInfo } from "../../schemas/task.ts";
import type { Handlers } from "../dispatch.ts";
import { askPublish, progress, requestFiles } from "../state/decide-attempt.ts";
import type { Store } from "../state/store.ts";
import type { CallContext } from "../state/view.ts";
import type { Deps } from "./deps.ts";
import { attemptOf } from "./shim.ts";

export function agentHandlers({ store }: Deps): Handlers {
  return {
    task_status_update: (ctx, p) => {
      const ref = attemptOf(ctx);
      if (p.task_id !== undefined && p.task_id !== ref.task) {
        throw new BusbarError(
          "FORBIDDEN",
          `task_status_update: this connection is task ${showId(ref.task)}, not ${showId(p.task_id)}`,
        );
      }
      return store.change(ctx, (d) => progress(d, ref, p));
    },
    request_files: (ctx, p) => store.change(ctx, (d) => requestFiles(d, attemptOf(ctx), p)),
    publish: (ctx) => publish(store, ctx, attemptOf(ctx)),
  };
}

/** Waits for the next snapshot of the attempt; TIMEOUT, or FENCED when the attempt ends before. */
async function publish(store: Store, ctx: CallContext, ref: AttemptRef): Promise<SnapshotInfo> {
  const next = nextSnapshot(store, ref);
  try {
    await store.change(ctx, (d) => askPublish(d, ref));
    return await next.snapshot;
  } finally {
    next.stop();
  }
}

function nextSnapshot(store: Store, ref: AttemptRef): { snapshot: Promise<SnapshotInfo>; stop(): void } {
  let stop = () => {};
  const snapshot = new Promise<SnapshotInfo>((resolve, reject) => {
    const timer = setTimeout(() => {
      const text = `publish of ${attemptLabel(ref)}: no snapshot within ${PUBLISH_TIMEOUT_MS} ms`;
      reject(new BusbarError("TIMEOUT", text));
    }, PUBLISH_TIMEOUT_MS);
    timer.unref();
    const off = store.onRecord(({ run, task, event }) => {
      if (run !== ref.run || task !== ref.task || !event) return;
      if (event.type === "task.snapshot" && event.attempt === ref.attempt) resolve(event.snapshot);
      const state = store.view.task(ref.run, ref.task)?.state;
      if (state?.name === "running" && state.attempt === ref.attempt) return;
      reject(new BusbarError("FENCED", `publish of ${attemptLabel(ref)}: the attempt is over`, { ...ref }));
    });
    stop = () => {
      clearTimeout(timer);
      off();
    };
  });
  snapshot.catch(() => {}); // the change may fail first; then nobody waits for this
  return { snapshot, stop };
}
