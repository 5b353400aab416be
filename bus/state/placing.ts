// The text of batches for the journal: every record gets its number and its mac, every batch its place.

import type { JournalRecord } from "../../schemas/events.ts";
import { seal } from "./chain.ts";
import type { Batch, Position } from "./journal.ts";

/** A batch that stands in the file, and the place after it. */
export interface Written {
  batch: Batch;
  records: JournalRecord[];
  end: Position;
}

export function place(key: Buffer, tail: Position, batches: Batch[]): { text: string; placed: Written[] } {
  let { seq, mac, offset, lines } = tail;
  let text = "";
  const placed: Written[] = [];
  for (const batch of batches) {
    const records: JournalRecord[] = [];
    for (const record of batch.records) {
      seq += 1;
      lines += 1;
      const full: JournalRecord = { v: 1, seq, ...record };
      const sealed = seal(key, mac, JSON.stringify(full));
      mac = sealed.mac;
      text += sealed.line;
      text += "\n";
      offset += Buffer.byteLength(sealed.line) + 1;
      records.push(full);
    }
    placed.push({ batch, records, end: { seq, mac, segment: tail.segment, offset, lines } });
  }
  return { text, placed };
}
