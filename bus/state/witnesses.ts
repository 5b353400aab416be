// What outside of the journal knows how far it went: the anchors in the repository and the note of the newest beside the key. Read
// by a start, which goes on behind what they saw, and by `verify`, which tells what speaks against them.

import { AnchorCheck, type AnchorNote, type AnchorPoint, type AnchorPort, readAnchors } from "./anchor.ts";
import { readAnchorNote } from "./anchor-note.ts";
import type { DocumentPorts } from "./durable-document.ts";

export interface Witnesses {
  check: AnchorCheck;
  /** Anchors of this state. */
  points: readonly AnchorPoint[];
  /** Texts of others, the newest first. */
  strangers: readonly string[];
  between: number;
  note?: AnchorNote;
  /** What could not be read, and why. */
  unread?: string;
}

export async function readWitnesses(
  ports: DocumentPorts,
  anchor: AnchorPort | undefined,
  limit: number,
): Promise<Witnesses> {
  const unread: string[] = [];
  const failed = (what: string) => (error: unknown) => {
    unread.push(`${what}: ${error instanceof Error ? error.message : String(error)}`);
    return undefined;
  };
  const there =
    anchor &&
    (await readAnchors(ports.key, anchor, limit).catch(
      failed("the anchors in the repository cannot be read"),
    ));
  const note =
    anchor && (await readAnchorNote(ports).catch(failed("the note of the newest anchor cannot be believed")));
  const { points = [], strangers = [], between = 0 } = there ?? {};
  const noted = note && !points.some(({ seq, mac }) => seq === note.seq && mac === note.mac) ? [note] : [];
  return {
    check: new AnchorCheck([...points, ...noted]),
    points,
    strangers,
    between,
    ...(note && { note }),
    ...(unread.length > 0 && { unread: unread.join("; ") }),
  };
}
