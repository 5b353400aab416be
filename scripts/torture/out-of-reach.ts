// Fault points that no plan of the torture comes by: what each would take, and the test that makes exactly that.
// `test/unit/torture-list.test.ts` checks that the tests exist and speak of it, and that no entry has outlived its points.

import type { FaultPoint } from "../../schemas/fault-points.ts";

export interface OutOfReach {
  needs: string;
  /** The test that covers these points, and a word by which it is known that it still does. */
  test: string;
  word: string;
  /** Names, or what names begin with. */
  points: readonly string[];
}

export const OUT_OF_REACH: readonly OutOfReach[] = [
  {
    needs: "a disk that fails",
    test: "test/fault/disk-table.test.ts",
    word: "case 70",
    points: [
      "bus.checkpoint.before-clean-up",
      "bus.index.before-clean-up",
      "bus.journal.before-cut-failed-write",
      "bus.journal.before-write-again",
      "bus.manifest.before-clean-up",
      "bus.pack.before-clean-up",
    ],
  },
  {
    needs: "a file that cannot get its name",
    test: "test/unit/half-written.test.ts",
    word: "half-written",
    points: [
      "shared.durable-file.before-clean-up",
      "scheduler.control.before-clean-up",
      "scheduler.patch.before-clean-up",
      "shim.durable-file.before-clean-up",
    ],
  },
  {
    needs: "a workspace that cannot be made",
    test: "test/e2e/git-shape.test.ts",
    word: "WORKSPACE_FAILED",
    points: ["scheduler.workspace.before-clean-up"],
  },
  {
    needs: "a journal that was cut in the middle of a record, which a kill of one process does not do",
    test: "test/e2e/cases-journal.test.ts",
    word: "torn bytes are kept",
    points: ["bus.torn."],
  },
  {
    needs: "a repository whose objects lie on another disk than the state, which may be full",
    test: "test/e2e/cases-disk.test.ts",
    word: "the disk of the repository fills up",
    points: [
      "shared.kept-pack.before-copy",
      "shared.kept-pack.before-rename",
      "shared.kept-pack.before-remove",
    ],
  },
  {
    needs: "a segment that is full",
    test: "test/fault/journal-packed.test.ts",
    word: "segmentBytes",
    points: ["bus.segment.", "bus.pack.", "bus.index."],
  },
  {
    needs: "a check whose input was green before",
    test: "test/e2e/engine-verdicts.test.ts",
    word: "dies on the way to a cached verdict",
    points: ["scheduler.verdicts."],
  },
  {
    needs: "set-up steps with key files, and files of the checkout that are copied",
    test: "test/fault/setup-cache.test.ts",
    word: "W8",
    points: ["scheduler.setup.", "scheduler.copies.", "scheduler.copy."],
  },
  {
    needs: "`audit` that keeps less than all",
    test: "test/fault/journal-retention.test.ts",
    word: "bus.retention.",
    points: ["bus.retention.", "bus.file.before-remove"],
  },
  {
    needs: "a damaged journal and `busctl repair`",
    test: "test/fault/killed-commands.test.ts",
    word: "bus.repair.",
    points: ["bus.repair.", "bus.gap."],
  },
  {
    needs: "a state that comes back older than the branch",
    test: "test/fault/restore.test.ts",
    word: "scheduler.recover.",
    points: ["scheduler.recover."],
  },
  {
    needs: "an end in peace, which nothing is killed in",
    test: "test/fault/killed-commands.test.ts",
    word: "bus.end.",
    points: ["bus.end.", "scheduler.identity.before-remove"],
  },
  {
    needs: "`busctl gc`, or hours without work",
    test: "test/fault/killed-commands.test.ts",
    word: "scheduler.archive.",
    points: ["scheduler.archive.", "scheduler.gc.", "scheduler.workspace.before-forget"],
  },
  {
    needs: "a shim that is stopped, or a check of half a lease",
    test: "test/fault/scheduler-adopt.test.ts",
    word: "lease",
    points: ["scheduler.lease.before-renew"],
  },
  {
    needs: "a shim that dies while no scheduler lives for longer than a lease",
    test: "test/fault/scheduler-adopt.test.ts",
    word: "leaseOver",
    points: ["scheduler.task-socket.before-sweep"],
  },
  {
    needs: "a disk that cannot be written while an agent's work is taken",
    test: "test/fault/hold.test.ts",
    word: "scheduler/hold.ts",
    points: ["scheduler.hold."],
  },
  {
    needs: "a disk that an attempt has filled",
    test: "test/e2e/engine-blame.test.ts",
    word: "ENOSPC",
    points: ["scheduler.room."],
  },
  {
    needs: "a repository with submodules, sparse tasks, a shallow or partial clone",
    test: "test/e2e/git-shape.test.ts",
    word: "submodule",
    points: [
      "scheduler.submodule.",
      "scheduler.checkout.before-sparse-index",
      "scheduler.checkout.before-skip-all",
      "scheduler.checkout.before-take-some",
      "scheduler.checkout.before-write-some",
      "scheduler.capture.before-skip-sparse",
      "scheduler.control.before-copy-shallow",
      "scheduler.partial.",
    ],
  },
  {
    needs: "protected files",
    test: "test/e2e/cases-scope.test.ts",
    word: "protect",
    points: ["scheduler.place.before-protect", "scheduler.place.before-remove-index"],
  },
  {
    needs: "checks that lay files beside the tree",
    test: "test/fault/place-pool.test.ts",
    word: "between two checks",
    points: ["scheduler.beside.", "scheduler.pool.before-index-anew"],
  },
  {
    needs: "agents that make links, close files or directories, or replace their working tree",
    test: "test/e2e/git-agent.test.ts",
    word: "chmod",
    points: [
      "scheduler.capture.before-make-aside",
      "scheduler.capture.before-move-aside",
      "scheduler.capture.before-make-readable",
      "scheduler.capture.before-write-link",
      "scheduler.remove.before-second-try",
      "scheduler.remove.before-open-directory",
      "scheduler.sweep.before-permit",
      "shared.private-directory.before-close",
    ],
  },
  {
    needs: "agents that put pipes where git looks for files",
    test: "test/e2e/git-snares.test.ts",
    word: "pipe",
    points: ["scheduler.snare."],
  },
  {
    needs: "agents that commit by themselves",
    test: "test/e2e/git-agent.test.ts",
    word: "commit",
    points: ["scheduler.harvest."],
  },
  {
    needs: "more than 4 MB of output",
    test: "test/fault/shim-output.test.ts",
    word: "LOG_TAIL_BYTES",
    points: ["shim.log.before-remove-ring"],
  },
  {
    needs: "a place that is not used again",
    test: "test/fault/place-pool.test.ts",
    word: "not used again",
    points: ["scheduler.pool.before-set-aside", "scheduler.pool.before-move-away"],
  },
  {
    needs: "a task that is cancelled, or a branch that somebody else moves, within a landing",
    test: "test/fault/landing-points.test.ts",
    word: "scheduler.reconcile.before-move-back",
    points: ["scheduler.halt.", "scheduler.land.before-move-back", "scheduler.reconcile.before-move-back"],
  },
  {
    needs: "an agent that hides from every look, and whose shim is killed",
    test: "test/fault/groups.test.ts",
    word: "forks away",
    points: ["scheduler.groups.before-kill", "scheduler.groups.before-signal"],
  },
  {
    needs: "a person who asks `busctl doctor`",
    test: "test/e2e/ctl-doctor.test.ts",
    word: "doctor",
    points: ["scheduler.doctor."],
  },
  {
    needs: "limits of a control group, or a version 2 of them that has controllers",
    test: "test/fault/groups.test.ts",
    word: "memory_kills",
    points: [
      "scheduler.group-host.before-enable",
      "scheduler.groups.before-leave",
      "shim.group.before-limit",
    ],
  },
  {
    needs: "a sandbox, in which agents could not write their marks beside the workspace",
    test: "test/e2e/shim-sandbox.test.ts",
    word: "bubblewrap",
    points: ["shim.sandbox."],
  },
  {
    needs: "systemd, which starts the shims and wants to be told",
    test: "test/unit/services.test.ts",
    word: "systemd",
    points: ["scheduler.unit.", "shared.service."],
  },
  {
    needs: "a run with `into`",
    test: "test/e2e/git-merge.test.ts",
    word: "into",
    points: ["scheduler.into."],
  },
];

export const isNamedBy = (entry: OutOfReach, name: string) =>
  entry.points.some((start) => name.startsWith(start));

/** Why a plan does not come by a point; undefined: it must. */
export function outOfReach(name: FaultPoint): OutOfReach | undefined {
  return OUT_OF_REACH.find((entry) => isNamedBy(entry, name));
}
