// A real disk with knobs for the next failure.

import { type Disk, type DiskFile, systemDisk } from "../../bus/state/disk.ts";

export class FaultyDisk implements Disk {
  /** The error that calls of a kind give, until taken away. */
  readonly faults = new Map<"write" | "datasync" | "truncate" | "open" | "rename", string>();
  /** Bytes of a write that reach the file before it fails. */
  shortWrite = 0;
  /** Only files whose path holds this are faulty. */
  only = "";
  /** A sync waits for this. */
  beforeDatasync: Promise<void> | undefined;
  readonly calls = { write: 0, datasync: 0 };

  list = systemDisk.list;
  mkdir = systemDisk.mkdir;
  unlink = systemDisk.unlink;
  syncDir = systemDisk.syncDir;

  async open(path: string, flags: string, mode?: number): Promise<DiskFile> {
    if (flags !== "r") this.check("open", path);
    const file = await systemDisk.open(path, flags, mode);
    const fault = (kind: "write" | "datasync" | "truncate") => this.check(kind, path);
    return {
      read: (...args) => file.read(...args),
      write: async (buffer, offset, length, position) => {
        this.calls.write += 1;
        try {
          fault("write");
        } catch (error) {
          if (this.shortWrite > 0)
            await file.write(buffer, offset, Math.min(this.shortWrite, length), position);
          throw error;
        }
        return file.write(buffer, offset, length, position);
      },
      writeNow: (buffer, offset, length, position) => {
        this.calls.write += 1;
        try {
          fault("write");
        } catch (error) {
          if (this.shortWrite > 0) file.writeNow(buffer, offset, Math.min(this.shortWrite, length), position);
          throw error;
        }
        return file.writeNow(buffer, offset, length, position);
      },
      datasync: async () => {
        this.calls.datasync += 1;
        await this.beforeDatasync;
        fault("datasync");
        await file.datasync();
      },
      sync: () => file.sync(),
      truncate: async (length) => {
        fault("truncate");
        await file.truncate(length);
      },
      stat: () => file.stat(),
      close: () => file.close(),
    };
  }

  async rename(from: string, to: string): Promise<void> {
    this.check("rename", to);
    await systemDisk.rename(from, to);
  }

  private check(kind: "write" | "datasync" | "truncate" | "open" | "rename", path: string): void {
    const code = this.faults.get(kind);
    if (code === undefined || !path.includes(this.only)) return;
    throw Object.assign(new Error(`${code}: injected`), { code });
  }
}
