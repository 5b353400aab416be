// How far the journal can be believed when it is opened: from the checkpoint on where it is large, all of it (from `start` on,
// its beginning) where it is small or where the checkpoint's place is not in it.

import type { Position } from "./journal.ts";
import { type Scan, type ScanPorts, START, scan } from "./journal-scan.ts";
import { listSegments, segmentPath, seqOf } from "./segments.ts";

/** A journal up to this size is proven whole at every start; of a larger one, what comes after the checkpoint. */
export const VERIFY_AT_START_BYTES = 4 * 1024 * 1024;

export async function proveStart(
  ports: ScanPorts,
  checkpoint: Position | undefined,
  onLine: (line: Buffer, mac: string) => void,
  start = START,
): Promise<Scan> {
  if (!checkpoint) return scan({ ...ports, from: start, onLine });
  if (!(await isSmall(ports))) {
    const found = await scan({ ...ports, from: checkpoint, onLine });
    const absent = found.damage?.kind === "cut" && found.end === checkpoint;
    if (!absent) return found;
  }
  let macThere = start.seq === checkpoint.seq ? start.mac : undefined;
  const found = await scan({
    ...ports,
    from: start,
    onLine: (line, mac) => {
      if (seqOf(line) === checkpoint.seq) macThere = mac;
      onLine(line, mac);
    },
  });
  const { seq } = checkpoint;
  const inGap = found.gaps?.some(({ from, to }) => from <= seq && seq <= to);
  if (found.damage || found.end.seq < seq || macThere === checkpoint.mac || inGap) return found;
  const why = `the checkpoint rests on record ${seq} with mac ${checkpoint.mac}, the journal has ${macThere}: one of them is not of this bus, or was restored`;
  const file = segmentPath(ports.dir, checkpoint.segment);
  return { ...found, damage: { kind: "replaced", file, line: checkpoint.lines, seq, why } };
}

/** Whether so little is there that all of it is proven at every start. */
async function isSmall({ disk, dir }: ScanPorts): Promise<boolean> {
  let sum = 0;
  for (const { path, packed } of await listSegments(disk, dir)) {
    if (packed) return false;
    const file = await disk.open(path, "r");
    sum += await file
      .stat()
      .then(({ size }) => size)
      .finally(() => file.close());
  }
  return sum <= VERIFY_AT_START_BYTES;
}
