// The rule for paths: repository paths, '/'-separated, from the top of the repository, as git stores them.

/** Why `path` is not a repository path, or undefined when it is. No file system is asked. */
export function pathFault(path: unknown): string | undefined {
  if (typeof path !== "string") return "must be a string";
  if (path === "") return "is empty";
  if (path.includes("\0")) return "holds a NUL";
  if (path.length > 4096) return "is longer than 4096 characters";
  if (path.startsWith("/")) return "is absolute; give it from the top of the repository";
  if (path.endsWith("/")) return "ends with '/'; a file is asked for";
  for (const part of path.split("/")) {
    if (part === "") return "holds an empty part ('//')";
    if (part === "." || part === "..") return `holds '${part}'`;
    if (part.toLowerCase() === ".git") return "reaches into '.git'";
  }
  return undefined;
}
