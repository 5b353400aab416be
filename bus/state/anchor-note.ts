// The newest anchor, noted beside the key: <bus dir>/anchored.json, sealed. The ref in the repository is anybody's who may write
// there; when it is gone, or an older one was put back, the note tells. Written after the ref has moved: a death
// between the two leaves a note that is older than the ref, which says nothing.

import { join } from "node:path";
import { STATE_VERSION } from "../../schemas/limits.ts";
import type { AnchorNote, AnchorPoint } from "./anchor.ts";
import { type DocumentPorts, DurableFile } from "./durable-document.ts";

/** `mac` is the name of the document's own seal. */
type NoteDoc = Omit<AnchorNote, "mac"> & { v: number; record_mac: string };

function document(ports: DocumentPorts): DurableFile<NoteDoc> {
  return new DurableFile(ports, join(ports.dir, "anchored.json"), [], "always");
}

/** Undefined where nothing was anchored yet. Throws where it was changed. */
export async function readAnchorNote(ports: DocumentPorts): Promise<AnchorNote | undefined> {
  const doc = await document(ports).read();
  if (!doc) return undefined;
  const { seq, record_mac: mac, at, broken } = doc;
  return { seq, mac, at, ...(broken && { broken }) };
}

export function writeAnchorNote(ports: DocumentPorts, note: AnchorNote): Promise<void> {
  const { mac: record_mac, ...rest } = note;
  return document(ports).write({ v: STATE_VERSION, ...rest, record_mac });
}

/** What speaks against the anchors of a repository. */
export interface AnchorFault {
  /** None is there; none is of this state; the newest was taken away; they, or the note, cannot be read. */
  kind: "missing" | "foreign" | "older" | "unread";
  why: string;
}

const NO_MORE = "whether the end of the log was cut off cannot be told from the repository";

/** Pure. `landings` are those that the state has; each is anchored within a second. */
export function anchorFault(
  points: readonly AnchorPoint[],
  strangers: number,
  note: AnchorNote | undefined,
  landings: number,
  ref: string,
): AnchorFault | undefined {
  const newest = points.reduce((most, { seq }) => Math.max(most, seq), 0);
  if (points.length > 0) {
    if (!note || newest >= note.seq) return undefined;
    const why = `the newest anchor in ${ref} names record ${newest}, but record ${note.seq} was anchored on ${note.at}: an older one was put back there`;
    return { kind: "older", why };
  }
  if (note && strangers > 0) {
    const why = `${ref} holds ${strangers} anchor(s), none of them of this log, of which record ${note.seq} was anchored on ${note.at}: it was replaced; ${NO_MORE}`;
    return { kind: "foreign", why };
  }
  if (note) {
    const why = `no anchor was found in ${ref}, but record ${note.seq} was anchored there on ${note.at}: it was deleted; ${NO_MORE}`;
    return { kind: "missing", why };
  }
  if (landings === 0 || strangers > 0) return undefined; // nothing had to be anchored yet, or former.ts says it
  const why = `no anchor was found in ${ref} although ${landings} landing(s) are recorded: it was deleted, or never could be written; ${NO_MORE}`;
  return { kind: "missing", why };
}
