// What the machine has: for slots, for the disk check and for run_metadata.json (W5, W6).

import { statfs } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { mem, osInfo } from "systeminformation";

export interface MachineFacts {
  cores: number;
  /** Bytes. */
  memory_total: number;
  memory_free: number;
  disk_total: number;
  disk_free: number;
  os: string;
  kernel: string;
}

export interface DiskUse {
  total: number;
  free: number;
  /** 0 to 100, of what an ordinary user may use, as `df` counts. */
  usedPercent: number;
}

export interface Machine {
  cores: number;
  facts(dir: string): Promise<MachineFacts>;
  disk(dir: string): Promise<DiskUse>;
  /** Bytes that programs could get now. */
  freeMemory(): Promise<number>;
}

export function thisMachine(): Machine {
  let os: Promise<{ distro: string; kernel: string }> | undefined;
  return {
    cores: availableParallelism(),
    disk: diskUse,
    freeMemory: async () => (await mem()).available,
    async facts(dir) {
      os ??= osInfo().then(
        ({ distro, release, kernel }) => ({ distro: `${distro} ${release}`.trim(), kernel }),
        () => ({ distro: process.platform, kernel: "" }),
      );
      const [memory, disk, system] = await Promise.all([mem(), diskUse(dir), os]);
      return {
        cores: availableParallelism(),
        memory_total: memory.total,
        memory_free: memory.available,
        disk_total: disk.total,
        disk_free: disk.free,
        os: system.distro,
        kernel: system.kernel,
      };
    },
  };
}

async function diskUse(dir: string): Promise<DiskUse> {
  const fs = await statfs(dir);
  const used = fs.blocks - fs.bfree;
  const usable = used + fs.bavail;
  return {
    total: fs.blocks * fs.bsize,
    free: fs.bavail * fs.bsize,
    usedPercent: usable > 0 ? (used / usable) * 100 : 0,
  };
}
