// Blobs by object id (B2, B4): cache, damage, size, a git child that dies.

import assert from "node:assert/strict";
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { Blobs, encode } from "../../bus/blobs.ts";
import { CatFile, type GitObject } from "../../bus/cat-file.ts";
import { Manifests } from "../../bus/manifests.ts";
import { isCode } from "../../schemas/errors.ts";
import { MAX_BLOB_BYTES, MAX_FRAME_BYTES } from "../../schemas/limits.ts";
import { GitRepo } from "../helpers/git-repo.ts";
import { tempDir } from "../helpers/temp.ts";
import { until } from "../helpers/wait.ts";

function bench(t: TestContext, init: string[] = [], maxBytes = MAX_BLOB_BYTES) {
  const repo = new GitRepo(join(tempDir(t, "blobs"), "repo"), init);
  const objects = new CatFile(repo.common, maxBytes);
  const blobs = new Blobs(objects);
  t.after(() => blobs.close());
  const text = async (oid: string) => JSON.parse((await blobs.get(oid)).json.toString());
  return { repo, objects, blobs, text };
}

const loose = (repo: GitRepo, oid: string) => join(repo.common, "objects", oid.slice(0, 2), oid.slice(2));

function damage(repo: GitRepo, oid: string, bytes: Buffer): void {
  chmodSync(loose(repo, oid), 0o644);
  writeFileSync(loose(repo, oid), bytes);
}

for (const format of ["sha1", "sha256"]) {
  test(`B2: many reads at once come back in order (${format})`, async (t) => {
    const { repo, text } = bench(t, [`--object-format=${format}`]);
    const contents = Array.from({ length: 60 }, (_, i) => `text ${i} ${"é".repeat(i * 97)}`);
    const oids = contents.map((each) => repo.blob(each));
    assert.deepEqual(await Promise.all(oids.map(text)), contents);
  });
}

test("B4: a missing object is OBJECT_MISSING, a damaged one OBJECT_DAMAGED with advice; others are served", async (t) => {
  const { repo, blobs, text } = bench(t);
  const [good, bad, torn, good2] = ["good", "bad", "torn ".repeat(99), "good2"].map((each) =>
    repo.blob(each),
  );
  damage(repo, bad!, Buffer.from("nonsense"));
  damage(repo, torn!, readFileSync(loose(repo, torn!)).subarray(0, 24)); // the header is whole, git dies of the rest
  const isDamaged = (e: unknown) => isCode(e, "OBJECT_DAMAGED") && /git fsck/.test(e.message);
  await Promise.all([
    assert.rejects(blobs.get(bad!), isDamaged),
    text(good!),
    assert.rejects(blobs.get(torn!), isDamaged),
    text(good2!),
  ]);
  await assert.rejects(blobs.get("1".repeat(40)), (e) => isCode(e, "OBJECT_MISSING"));
  assert.equal(await text(good!), "good");
});

test("B4: bytes that do not match their id never leave", async () => {
  const wrong: GitObject = { kind: "object", type: "blob", bytes: Buffer.from("other bytes") };
  const blobs = new Blobs({ read: async () => wrong, close: () => {} });
  await assert.rejects(blobs.get("2".repeat(40)), (e) => isCode(e, "OBJECT_DAMAGED"));
  await assert.rejects(blobs.get("2".repeat(64)), (e) => isCode(e, "OBJECT_DAMAGED"));
});

test("B2: a file beyond the bound is FILE_TOO_LARGE, and those behind it are served", async (t) => {
  const { repo, blobs, text } = bench(t, [], 1_000);
  const [large, small] = [repo.blob("x".repeat(2_000_000)), repo.blob("small")];
  const refused = assert.rejects(blobs.get(large), (e) => isCode(e, "FILE_TOO_LARGE"));
  assert.equal(await text(small), "small");
  await refused;
});

test("B2: only full object ids reach git; a tree or commit is no file", async (t) => {
  const { repo, blobs, objects } = bench(t);
  repo.write("f", "1");
  const commit = repo.commit();
  for (const oid of [commit, repo.git("rev-parse", "HEAD^{tree}")])
    await assert.rejects(blobs.get(oid), (e) => isCode(e, "NOT_A_FILE"));
  for (const text of ["HEAD", "HEAD:f", "--help", commit.slice(1), `${commit}0`, `${commit}\n${commit}`])
    await assert.rejects(objects.read(text), (e) => isCode(e, "NO_SUCH_FILE"));
});

test("B7: a git child killed from outside is replaced, reads on their way are not lost", async (t) => {
  const { repo, objects, text } = bench(t);
  const [a, b] = [repo.blob("a"), repo.blob("b")];
  assert.equal(await text(a), "a");
  const first = objects.pid!;
  process.kill(first, "SIGKILL");
  assert.equal(await text(b), "b");
  await until("another child", () => objects.pid !== undefined && objects.pid !== first);
});

test("the cache is bounded by bytes and drops what was used longest ago", async (t) => {
  const reads: string[] = [];
  const repo = new GitRepo(join(tempDir(t, "lru"), "repo"));
  const real = new CatFile(repo.common, MAX_BLOB_BYTES);
  const read = (oid: string) => {
    reads.push(oid);
    return real.read(oid);
  };
  const blobs = new Blobs({ read, close: () => real.close() }, 5_000);
  t.after(() => blobs.close());
  const [a, b, c] = ["a", "b", "c"].map((each) => repo.blob(each.repeat(1_500))) as [string, string, string];
  for (const oid of [a, b, a, c, a]) await blobs.get(oid);
  assert.deepEqual(reads, [a, b, c]);
  await Promise.all([blobs.get(b), blobs.get(b)]);
  assert.deepEqual(reads, [a, b, c, b], "the same read is shared");
  assert.ok(blobs.cacheBytes <= 5_000);
});

test("every content fits a frame: text whose escapes would not goes as base64", () => {
  const blob = encode(Buffer.alloc(MAX_BLOB_BYTES, 1));
  assert.equal(blob.encoding, "base64");
  assert.ok(blob.json.length < MAX_FRAME_BYTES);
  assert.equal(encode(Buffer.from('"'.repeat(1_000))).encoding, "utf8");
});

test("B2: the manifest of a later base is a difference to the first, and says the same as git", async (t) => {
  const repo = new GitRepo(join(tempDir(t, "man"), "repo"));
  for (let i = 0; i < 40; i++) repo.write(`d${i % 4}/f${i}`, `${i}`);
  repo.write("d-evil/x", "twin");
  const first = repo.commit();
  repo.write("d0/f0", "changed");
  repo.write("d0/new", "new");
  repo.git("rm", "-q", "d1/f1");
  const second = repo.commit();
  const manifests = new Manifests(repo.common);
  for (const commit of [first, second]) {
    const manifest = await manifests.get(commit);
    const lines = [...manifest.paths()].map(
      (path) => `${manifest.get(path)?.mode} ${manifest.get(path)?.oid} ${path}`,
    );
    const want = repo
      .git("ls-tree", "-r", "--format=%(objectmode) %(objectname) %(path)", commit)
      .split("\n");
    assert.deepEqual(lines.sort(), want.sort());
    assert.ok(manifest.isDirectory("d0") && !manifest.isDirectory("d0/f0") && !manifest.isDirectory("d"));
  }
  await assert.rejects(manifests.get("3".repeat(40)), (e) => isCode(e, "OBJECT_MISSING"));
  await assert.rejects(manifests.get("HEAD"), (e) => isCode(e, "NO_SUCH_COMMIT"));
});
