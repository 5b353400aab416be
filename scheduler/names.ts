// Names that git, or another file system, takes for `.git`. Pure.

/** Code points that HFS+ ignores in names. */
const HFS_IGNORED = /[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/g;

/**
 * The first part of a path that stands for `.git` somewhere: another case, the short name `git~1`, trailing dots
 * and spaces, a stream (`.git::$INDEX_ALLOCATION`), ignored code points. Git refuses such paths in an index.
 */
export function gitLikePart(path: string): string | undefined {
  // A '\' separates directories on Windows: git looks behind it too.
  return path.split(/[/\\]/).find((part) => {
    const plain = part.replace(HFS_IGNORED, "").toLowerCase();
    const [before = ""] = plain.split(":");
    return /^(\.git|git~1)[. ]*$/.test(before);
  });
}
