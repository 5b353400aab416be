// The real terminal, signals and pipes. Everything else in bus/ctl gets them through Ctx.
//
// A reader that goes away (`busctl cat x | head`) ends busctl quietly. Nothing is lost by it: the bus has
// answered, and a run goes on without its watcher.

import type { Ctx, Io } from "./context.ts";
import { EXIT } from "./exit-codes.ts";

export function realIo(): Io {
  const { stdout, stderr, stdin } = process;
  quietPipe(stdout);
  quietPipe(stderr);
  return {
    out: (text) =>
      new Promise((resolve, reject) => {
        stdout.write(text, (error) => {
          if (!error || isPipeError(error)) resolve();
          else reject(error);
        });
      }),
    err: (text) => {
      stderr.write(text);
    },
    outTty: stdout.isTTY === true,
    inTty: stdin.isTTY === true,
    columns: () => (stdout.isTTY ? stdout.columns || 80 : Number.POSITIVE_INFINITY),
    rows: () => stdout.rows || 24,
    onResize: (fn) => {
      stdout.on("resize", fn);
      return () => stdout.off("resize", fn);
    },
  };
}

function quietPipe(stream: NodeJS.WriteStream): void {
  stream.on("error", (error) => {
    if (isPipeError(error)) process.exit(EXIT.ok);
    throw error;
  });
}

function isPipeError(error: Error): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === "EPIPE" || code === "ERR_STREAM_DESTROYED";
}

export const realSignals: Ctx["onSignal"] = (signal, fn) => {
  process.on(signal, fn);
  return () => process.off(signal, fn);
};

/** Ends the process after what was written has left it. */
export async function leave(io: Io, code: number): Promise<never> {
  await io.out("").catch(() => {});
  await new Promise<void>((resolve) => process.stderr.write("", () => resolve()));
  process.exit(code);
}
