// Fault points that no plan of the torture comes by, each with what it would take. Their deaths are looked at where
// that is made: failing disks, torn journals and archives have tests of their own.

const NEEDS: Readonly<Record<string, readonly string[]>> = {
  "a disk that fails (test/fault/store-disk.test.ts)": [
    "shared.durable-file.before-clean-up",
    "bus.checkpoint.before-clean-up",
    "bus.index.before-clean-up",
    "bus.journal.before-cut-failed-write",
    "bus.journal.before-write-again",
    "bus.manifest.before-clean-up",
    "bus.pack.before-clean-up",
    "scheduler.control.before-clean-up",
    "scheduler.patch.before-clean-up",
    "shim.durable-file.before-clean-up",
    "scheduler.workspace.before-clean-up",
  ],
  "a journal that was cut in the middle of a record, which a kill of one process does not do": ["bus.torn."],
  "a segment that is full": ["bus.segment.", "bus.pack.", "bus.index."],
  "an end in peace, which nothing is killed in": ["bus.end.", "scheduler.identity.before-remove"],
  "hours without work": ["scheduler.archive.", "scheduler.gc."],
  "a repository with submodules, sparse tasks, a shallow or partial clone": [
    "scheduler.submodule.",
    "scheduler.checkout.before-sparse-index",
    "scheduler.checkout.before-skip-all",
    "scheduler.checkout.before-take-some",
    "scheduler.checkout.before-write-some",
    "scheduler.capture.before-skip-sparse",
    "scheduler.control.before-copy-shallow",
    "scheduler.partial.",
  ],
  "protected files": ["scheduler.place.before-protect", "scheduler.place.before-remove-index"],
  "agents that make links, close files or directories, or replace their working tree": [
    "scheduler.capture.before-make-aside",
    "scheduler.capture.before-move-aside",
    "scheduler.capture.before-make-readable",
    "scheduler.capture.before-write-link",
    "scheduler.remove.before-second-try",
    "scheduler.remove.before-open-directory",
    "scheduler.sweep.before-permit",
    "shared.private-directory.before-close",
  ],
  "agents that commit by themselves": ["scheduler.harvest."],
  "a set-up step of the gate": ["scheduler.touched."],
  "more than 4 MB of output": ["shim.log.before-remove-ring"],
  "a place that is not used again, or a branch that somebody else moved": [
    "scheduler.pool.before-set-aside",
    "scheduler.pool.before-move-away",
    "scheduler.halt.",
    "scheduler.land.before-move-back",
  ],
  "a run with `into`": ["scheduler.into."],
};

/** Why a plan does not come by a point; undefined: it must. */
export function outOfReach(name: string): string | undefined {
  return Object.keys(NEEDS).find((why) => NEEDS[why]?.some((start) => name.startsWith(start)));
}
