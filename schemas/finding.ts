// What `busctl doctor` finds out, one thing each. Types only.

export type FindingPart = "limits" | "isolation" | "host" | "repository" | "state";

export interface Finding {
  part: FindingPart;
  name: string;
  /** `bad`: something that the configuration, or busbar itself, needs is missing. `poor`: it works without. */
  state: "good" | "poor" | "bad";
  /** What was seen, in one sentence. */
  said: string;
  /** What a person can do; absent where nothing is to be done. */
  cure?: string;
}
