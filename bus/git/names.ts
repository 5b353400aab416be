// What a name or a link's target means beside what it says. Pure: the file system is not asked.

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

/**
 * Why a link's target is not inside the repository, or undefined when it is. The file system is not asked, so `..`
 * may only lead the target: behind a name that is a link itself, it goes up from wherever that link points.
 */
export function linkFault(path: string, target: string): string | undefined {
  if (target === "") return "to nowhere";
  if (target.startsWith("/")) return `to the absolute path ${target}`;
  const parts = path.split("/").slice(0, -1);
  let named = false;
  for (const part of target.split("/")) {
    if (part === "" || part === ".") continue;
    if (part !== "..") {
      parts.push(part);
      named = true;
    } else if (named) return `with ".." behind a name (${target}): ".." may stand only at its beginning`;
    else if (parts.pop() === undefined) return `that leaves the repository (${target})`;
  }
  return gitLikePart(parts.join("/")) === undefined ? undefined : `into .git (${target})`;
}
