// A real disk that waits for nothing: for tests that open many states and are not about durability.

import { type Disk, systemDisk } from "../../bus/state/disk.ts";

const atOnce = async () => {};

export const quickDisk: Disk = {
  ...systemDisk,
  syncDir: atOnce,
  open: async (path, flags, mode) => {
    const file = await systemDisk.open(path, flags, mode);
    return {
      read: (...args) => file.read(...args),
      write: (...args) => file.write(...args),
      writeNow: (...args) => file.writeNow(...args),
      truncate: (length) => file.truncate(length),
      stat: () => file.stat(),
      close: () => file.close(),
      sync: atOnce,
      datasync: atOnce,
    };
  },
};
