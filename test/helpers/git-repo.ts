// Small real repositories for tests, with a clean git environment.

import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

const ENV = {
  PATH: process.env.PATH ?? "/usr/bin:/bin",
  HOME: "/nonexistent",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_AUTHOR_NAME: "T",
  GIT_AUTHOR_EMAIL: "t@example.com",
  GIT_COMMITTER_NAME: "T",
  GIT_COMMITTER_EMAIL: "t@example.com",
  LC_ALL: "C",
};

export class GitRepo {
  readonly dir: string;

  constructor(dir: string, init: string[] = []) {
    this.dir = dir;
    mkdirSync(dir, { recursive: true });
    this.git("init", "-q", "-b", "main", ...init);
  }

  get common(): string {
    return join(this.dir, ".git");
  }

  git(...args: string[]): string {
    return execFileSync("git", args, { cwd: this.dir, env: ENV, encoding: "utf8" }).trimEnd();
  }

  write(path: string, content: string | Buffer): void {
    mkdirSync(dirname(join(this.dir, path)), { recursive: true });
    writeFileSync(join(this.dir, path), content);
  }

  /** Commits everything; returns the commit. */
  commit(message = "c"): string {
    this.git("add", "-A");
    this.git("commit", "-q", "--allow-empty", "-m", message);
    return this.git("rev-parse", "HEAD");
  }

  /** The blob of a string, written into the object store only. */
  blob(content: string): string {
    return execFileSync("git", ["hash-object", "-w", "--stdin"], {
      cwd: this.dir,
      env: ENV,
      input: content,
      encoding: "utf8",
    }).trim();
  }
}
