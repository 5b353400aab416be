// Makes a captured snapshot known: patch for people, manifest at the bus. And `publish` of an agent at work: the
// bus's event asks for a snapshot of the workspace as it is now.

import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { isCode } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import type { SnapshotInfo } from "../schemas/task.ts";
import type { Captured } from "./capture.ts";
import { makePrivateDir } from "./dirs.ts";
import type { Attempt, Kit } from "./kit.ts";
import { clearWay } from "./open-tree.ts";
import { writePatch } from "./patches.ts";
import { whileAway } from "./settle.ts";
import { type Concluding, captureNow, nextVersion } from "./snapshot.ts";

/** Null when nothing changed: version 0, the base, says it all. */
export async function publishCapture(
  kit: Kit,
  attempt: Attempt,
  captured: Captured,
): Promise<SnapshotInfo | null> {
  if (captured.changed.length === 0) return null;
  const { commit, tree } = captured;
  const changed = captured.changed.map(({ path, mode, oid }) => ({ path, mode, oid }));
  const answer = await whileAway(kit, attempt, () => {
    faultPoint("scheduler.publish.before-call");
    return kit.bus.call("publish_snapshot", { ...attempt.ref, base: attempt.base, commit, tree, changed });
  });
  // Named as the bus counts: the ref may have a higher number (capture.ts).
  await writeOutputPatch(kit, attempt, commit, `v${answer.version}`);
  return { version: answer.version, commit, tree, changed_count: changed.length };
}

/** output/<name>.patch of the attempt, for `git apply`. A patch that cannot be written loses nothing. */
async function writeOutputPatch(kit: Kit, attempt: Attempt, commit: string, name: string): Promise<void> {
  const dir = join(attempt.dir, "output");
  try {
    await clearWay(dir, "directory");
    makePrivateDir(dir);
    await writePatch({ control: kit.control, base: attempt.base, commit, file: join(dir, `${name}.patch`) });
  } catch (error) {
    kit.log.warn("the patch could not be written", { ...attempt.ref, commit, error: String(error) });
  }
}

/** output/landed.patch beside the version that it is. */
export function nameLandedPatch(kit: Kit, attempt: Attempt, version: number): void {
  const dir = join(attempt.dir, "output");
  try {
    faultPoint("scheduler.publish.before-name-landed");
    copyFileSync(join(dir, `v${version}.patch`), join(dir, "landed.patch"));
  } catch (error) {
    kit.log.warn("the patch of a landing could not be written", { ...attempt.ref, error: String(error) });
  }
}

/** Answers one request to publish; the agent's `publish` call is answered by the bus when the snapshot is there. */
export async function publishOnRequest(at: Concluding): Promise<void> {
  const { kit, attempt } = at;
  try {
    const { task } = await kit.bus.call("get_task", { run: attempt.ref.run, task: attempt.ref.task });
    const version = nextVersion(task, attempt.ref.attempt);
    const captured = await captureNow({ ...at, task }, version);
    const { commit, tree } = captured;
    const changed = captured.changed.map(({ path, mode, oid }) => ({ path, mode, oid }));
    faultPoint("scheduler.publish.before-answer-request");
    await kit.bus.call("publish_snapshot", { ...attempt.ref, base: attempt.base, commit, tree, changed });
  } catch (error) {
    if (isCode(error, "FENCED", "ILLEGAL_MOVE")) return;
    kit.log.warn("the snapshot asked for could not be published", { ...attempt.ref, error: String(error) });
  }
}
