// `scheduler --gc --json [--dry-run] [--idle-s N]`: one collection, told as one JSON line on stdout. It only reads at the
// bus, so it may run beside the scheduler.

import { connectBus } from "../bus/client/client.ts";
import { findBus, readToken } from "../bus/client/find.ts";
import { probeRepository } from "../bus/git/probe.ts";
import { BusbarError } from "../schemas/errors.ts";
import { GC_IDLE_S } from "../schemas/limits.ts";
import { openControl } from "./control.ts";
import { collect, type GcAnswer } from "./gc.ts";

export interface GcWords {
  repo: string;
  dry: boolean;
  idleS: number | undefined;
}

/** Throws BUS_AWAY: without the bus nobody knows what is in use. */
export async function runGc(words: GcWords): Promise<GcAnswer> {
  const { endpoint } = await findBus(words.repo);
  if (!endpoint) throw new BusbarError("BUS_AWAY", `collecting workspaces: no bus runs for ${words.repo}`);
  const client = await connectBus({
    socket: endpoint.socket,
    role: "scheduler",
    token: readToken(endpoint, "scheduler"),
    client: `gc ${process.pid}`,
  });
  try {
    const { tasks } = await client.call("list_tasks", {});
    const control = openControl(endpoint.state_dir, await probeRepository(words.repo));
    const idleMs = (words.idleS ?? GC_IDLE_S) * 1000;
    return await collect({
      control,
      stateDir: endpoint.state_dir,
      tasks,
      idleMs,
      now: Date.now(),
      dry: words.dry,
    });
  } finally {
    client.close();
  }
}
