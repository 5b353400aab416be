// One bus per repository, by a lock of the operating system: flock(1) on our own open file, so that it is held
// exactly as long as this process lives, and no pid is ever believed.
//
// 1. Open the lock file, 2. flock it without waiting (a child that gets our descriptor as fd 3),
// 3. check that the path still names the file that we locked: a removed lock file would lock nobody out.
//
// Whoever asks only whether the lock is held takes it for an instant; so a first failure is not believed.

import { spawn } from "node:child_process";
import { closeSync, constants, fstatSync, openSync, statSync } from "node:fs";
import { BusbarError, ioError } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";

/** Proof that this process holds the lock; what only the holder may do asks for it. */
export class LockHold {
  readonly path: string;
  #fd: number;

  private constructor(path: string, fd: number) {
    this.path = path;
    this.#fd = fd;
  }

  /** Takes the lock, or undefined when somebody else holds it. Throws LOCK_UNAVAILABLE, IO. */
  static async take(path: string): Promise<LockHold | undefined> {
    for (let tries = 0; tries < 3; tries++) {
      const fd = openLock(path);
      if ((await flock(fd, path)) === "held") {
        closeSync(fd);
        return undefined;
      }
      const hold = new LockHold(path, fd);
      if (hold.stillOurs()) return hold;
      hold.release(); // removed while we took it: the next try makes a new one
    }
    return undefined;
  }

  /** False when the file at the path is not the one that we hold: another bus could start. */
  stillOurs(): boolean {
    const there = statSync(this.path, { throwIfNoEntry: false });
    const ours = fstatSync(this.#fd);
    return there !== undefined && there.ino === ours.ino && there.dev === ours.dev;
  }

  /** Only the descriptor is closed: a lock file that is removed would let two in. */
  release(): void {
    if (this.#fd < 0) return;
    closeSync(this.#fd);
    this.#fd = -1;
  }
}

function openLock(path: string): number {
  try {
    faultPoint("bus.lock.before-open");
    return openSync(path, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o600);
  } catch (error) {
    throw ioError("opening the lock", path, error);
  }
}

function flock(fd: number, path: string): Promise<"taken" | "held"> {
  return new Promise((resolve, reject) => {
    faultPoint("bus.lock.before-take");
    const child = spawn("flock", ["-n", "3"], { stdio: ["ignore", "ignore", "ignore", fd] });
    child.on("error", (error: NodeJS.ErrnoException) => {
      closeSync(fd);
      reject(
        new BusbarError("LOCK_UNAVAILABLE", `locking ${path}: flock: ${error.code}`, {}, { cause: error }),
      );
    });
    child.on("exit", (code, signal) => {
      if (code === 0) return resolve("taken");
      if (code === 1) return resolve("held");
      closeSync(fd);
      reject(new BusbarError("LOCK_UNAVAILABLE", `locking ${path}: flock ended with ${code ?? signal}`));
    });
  });
}
