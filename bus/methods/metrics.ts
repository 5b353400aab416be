// `metrics`: counters and gauges as Prometheus text. Everything here is counted where it happens; nothing is sampled.

import { STATES } from "../../schemas/task.ts";
import type { Deps } from "./deps.ts";

type Kind = "counter" | "gauge";

export function metricsText({ store, peers, workers }: Deps): string {
  const { counters, journalCounters: j } = store;
  const lines: string[] = [];
  const add = (name: string, kind: Kind, help: string, values: [labels: string, value: number][]) => {
    lines.push(`# HELP busbar_${name} ${help}`, `# TYPE busbar_${name} ${kind}`);
    for (const [labels, value] of values) lines.push(`busbar_${name}${labels} ${value}`);
  };
  const one = (name: string, kind: Kind, help: string, value: number) => add(name, kind, help, [["", value]]);
  one("events_total", "counter", "Events made durable.", counters.events);
  one("calls_recorded_total", "counter", "Calls in the audit log.", counters.accesses);
  one("changes_refused_total", "counter", "Changes that could not be written.", counters.refused);
  one("journal_seq", "gauge", "Sequence number of the newest record.", store.seq);
  one("journal_records_total", "counter", "Records written.", j.records);
  one("journal_bytes_total", "counter", "Bytes written.", j.bytes);
  one("journal_writes_total", "counter", "Writes; each holds the records of a tick.", j.writes);
  one("journal_syncs_total", "counter", "Writes that waited for the disk.", j.syncs);
  one("journal_failures_total", "counter", "Writes that failed.", j.failures);
  one("journal_reads_dropped_total", "counter", "Records of reads lost while the disk refused.", j.dropped);
  one("journal_write_seconds_total", "counter", "Time in writes and syncs.", j.write_ms / 1000);
  one("checkpoints_total", "counter", "Checkpoints written.", counters.checkpoints);
  one("checkpoint_seconds_total", "counter", "Time in checkpoints.", counters.checkpoint_ms / 1000);
  one("degraded", "gauge", "1 while state cannot be written.", store.degraded === undefined ? 0 : 1);
  one("scheduler_up", "gauge", "1 while a scheduler is registered.", workers.current === null ? 0 : 1);
  one("attempts_connected", "gauge", "Attempts with a shim connected.", peers.size);
  add(
    "tasks",
    "gauge",
    "Tasks by state.",
    [...tasksByState({ store })].map(([state, n]) => [`{state="${state}"}`, n]),
  );
  return `${lines.join("\n")}\n`;
}

function tasksByState({ store }: Pick<Deps, "store">): Map<string, number> {
  const counts = new Map<string, number>(STATES.map((state) => [state, 0]));
  for (const run of store.view.runs()) {
    for (const { state } of store.view.tasks(run.run)) counts.set(state.name, counts.get(state.name)! + 1);
  }
  return counts;
}
