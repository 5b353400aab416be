// What speaks against the anchors of a repository, and what its refs tell of a state that is not this one. Pure.

import assert from "node:assert/strict";
import { test } from "node:test";
import { sealAnchor } from "../../bus/state/anchor.ts";
import { anchorFault } from "../../bus/state/anchor-note.ts";
import { Base } from "../../bus/state/base.ts";
import { compareBranches } from "../../bus/state/branches.ts";
import { findFormer, type Placed } from "../../bus/state/former.ts";
import type { Run } from "../../schemas/task.ts";
import { oid } from "../helpers/state.ts";

const at = "2030-01-01T00:00:00.000Z";
const point = (seq: number) => ({ seq, mac: "1".repeat(32), at });
const kind = (...given: [number[], number, number | undefined, number]) => {
  const [points, strangers, noted, landings] = given;
  const note = noted === undefined ? undefined : point(noted);
  return anchorFault(points.map(point), strangers, note, landings, "refs/busbar/anchor")?.kind;
};

test("issue 3.5: the table of what is found in the ref, noted beside the key and recorded", () => {
  assert.equal(kind([], 0, undefined, 0), undefined, "nothing has landed yet");
  assert.equal(kind([], 0, undefined, 2), "missing");
  assert.equal(kind([], 0, 9, 0), "missing");
  assert.equal(kind([], 3, 9, 2), "foreign");
  assert.equal(kind([], 3, undefined, 2), undefined, "another state's: former.ts says it");
  assert.equal(kind([5], 0, 9, 2), "older");
  assert.equal(kind([9, 5], 0, 9, 2), undefined);
  assert.equal(kind([12, 9], 1, 9, 2), undefined, "the bus died before the note");
});

const here = { common: "/w/repo/.git", state_dir: "/s/aa" };
const none = { branches: new Map<string, string>(), attempts: new Set<string>() };
const stranger = (seq: number) => sealAnchor(Buffer.alloc(32, 3), point(seq));
const strange = (...seqs: number[]) => ({ strangers: seqs.map(stranger), between: 0 });
const former = (placed: Placed, base = new Base()) =>
  findFormer(base, strange(812), { branches: new Map([["s", oid(1)]]), attempts: new Set(["r"]) }, placed);

test("issue 3.5: a state that is not here any more: which case it is, as far as facts tell", () => {
  const there = { ...here, repository: true, state: false };
  for (const [placed, wanted, words] of [
    [{ here }, "unknown", /deleted, or lies under another BUSBAR_STATE_DIR/],
    [{ here, there }, "gone", /the state in \/s\/aa was deleted or replaced/],
    [
      { here, there: { ...there, common: "/w/old/.git", state_dir: "/s/bb", state: true } },
      "copy",
      /a copy of \/w\/old\/\.git/,
    ],
    [
      { here, there: { common: "/w/old/.git", state_dir: "/s/bb", repository: false, state: true } },
      "moved",
      /moved here from \/w\/old\/\.git, and its state is still in \/s\/bb/,
    ],
    [
      { here, there: { ...there, state_dir: "/t/aa", state: true } },
      "elsewhere",
      /its state is still in \/t\/aa/,
    ],
  ] as [Placed, string, RegExp][]) {
    const found = former(placed);
    assert.equal(found?.kind, wanted);
    assert.match(found.why, words);
    assert.match(found.why, /\(record 812 anchored on 2030-01-01T00:00:00\.000Z; runs r, s\)/);
    assert.match(found.help, /`busctl repair`/);
    assert.doesNotMatch(found.why, /\n/);
  }
});

test("issue 3.5: what was given up is not said again, what is newer is; a bare branch of that name is nobody's state", () => {
  const base = new Base();
  base.noteGap({ from: 1, to: 812, why: "w", former: { anchor: stranger(812), runs: ["r", "s"] } }, at);
  assert.equal(former({ here }, base), undefined);
  assert.equal(findFormer(base, strange(900, 812), none, { here })?.seq, 900);
  assert.equal(
    findFormer(new Base(), strange(), { ...none, branches: new Map([["x", oid(1)]]) }, { here }),
    undefined,
  );
  assert.deepEqual(
    findFormer(new Base(), { strangers: ["no anchor at all"], between: 0 }, none, { here })?.seq,
    undefined,
  );
});

test("issue 3.5: branches that do not hold what landed on them; what people put on top is theirs", async () => {
  const base = new Base();
  const landed = [{ task: "a", attempt: 1, commit: oid(5), tree: oid(6), at }];
  base.putRun({ run: "r", head: oid(5), landed, order: [] } as unknown as Run);
  const history = new Map([
    [oid(5), [oid(4)]],
    [oid(7), [oid(5), oid(4)]],
  ]);
  const contains = async (tip: string, commit: string) => history.get(tip)?.includes(commit) ?? false;
  const found = async (tip: string, run = "r") =>
    (await compareBranches(base, { ...none, branches: new Map([[run, tip]]) }, { contains })).map(
      (f) => f.kind,
    );
  assert.deepEqual(await found(oid(5)), []);
  assert.deepEqual(await found(oid(7)), [], "a commit of a person on top");
  assert.deepEqual(await found(oid(4)), ["older"]);
  assert.deepEqual(await found(oid(9)), ["other"]);
  assert.deepEqual(await found(oid(9), "x"), ["unknown"]);
});
