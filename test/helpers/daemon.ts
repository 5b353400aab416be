// The real bus in the process of the test: the daemon as busd makes it, with its store at hand.

import { type ChangeMethods, type Daemon, startDaemon } from "../../bus/daemon.ts";
import { makeMethods } from "../../bus/methods/index.ts";
import type { BusPaths } from "../../bus/paths.ts";
import { Store } from "../../bus/state/store.ts";
import { attemptToken, nonceIn } from "../../bus/tokens.ts";
import { Config } from "../../schemas/config.ts";
import { jsonLog, systemClock } from "../../schemas/ports.ts";

/** `write` gets the lines of its log; `over` takes the place of what changes state. */
export async function daemonInProcess(
  paths: BusPaths,
  write: (line: string) => void,
  over: Partial<ChangeMethods> = {},
): Promise<{ daemon: Daemon; store: Store }> {
  const log = jsonLog(write);
  let store: Store | undefined;
  const daemon = await startDaemon({
    paths,
    uid: process.getuid?.() ?? 0,
    version: "0.0.0",
    clock: systemClock,
    log,
    life: "test",
    idleExitMs: 3_600_000,
    openStore: async (dir) => {
      store = await Store.open({ dir, clock: systemClock, log });
      return store;
    },
    methods: (opened) => ({
      ...makeMethods({
        store: opened,
        clock: systemClock,
        log,
        random: () => 0.5,
        config: Config.parse({}),
        stateDir: paths.state,
        runtimeDir: paths.runtime,
        tokenFor: (role, ref) => attemptToken(opened.key, role, ref, nonceIn(opened.view)(ref)),
      }),
      ...over,
    }),
  });
  return { daemon, store: store as Store };
}
