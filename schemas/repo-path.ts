// The rules for paths: those of a repository, '/'-separated, from its top, as git stores them; and directories of the machine.

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

/** Why `path` is not the name of a directory of this machine, written in one way only; undefined when it is. */
export function placeFault(path: string): string | undefined {
  if (path.includes("\0")) return "holds a NUL";
  if (path.length > 4096) return "is longer than 4096 characters";
  if (!path.startsWith("/")) return "is not absolute";
  for (const part of path.slice(1).split("/")) {
    if (part === "") return "holds an empty part ('//', or a '/' at the end)";
    if (part === "." || part === "..") return `holds '${part}'`;
  }
  return undefined;
}
