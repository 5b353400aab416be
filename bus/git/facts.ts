// What is known about the user's repository after one look (probe.ts).

export type HeadFacts =
  | { kind: "branch"; name: string; commit: string }
  | { kind: "detached"; commit: string }
  | { kind: "unborn"; name: string };

export interface RepoFacts {
  /** Real path of the common git directory: the identity of the repository (cases 04, 63). */
  commonDir: string;
  /** The main checkout; null for a bare repository. */
  topLevel: string | null;
  bare: boolean;
  /** HEAD of the main checkout, not of the linked worktree that the command ran in (case 04). */
  head: HeadFacts;
  objectFormat: "sha1" | "sha256";
  /** The promisor remote of a partial clone. */
  partial: string | null;
  shallow: boolean;
  /** The main checkout is sparse. */
  sparse: boolean;
  gitVersion: string;
}
