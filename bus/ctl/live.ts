// The block of lines at the bottom of a terminal that is drawn anew while a run goes on. Lines that stay are
// printed above it. The cursor is hidden meanwhile, and shown again on every way out.

import type { Io } from "./context.ts";
import { displayWidth } from "./render/width.ts";

const HIDE = "\x1b[?25l";
const SHOW = "\x1b[?25h";
/** To the first column, and clear from there to the end of the screen. */
const CLEAR_DOWN = "\r\x1b[J";

export class LiveBlock {
  readonly #io: Io;
  #lines: readonly string[] = [];
  #hidden = false;
  readonly #restore = () => {
    if (this.#hidden) process.stdout.write(SHOW);
  };

  constructor(io: Io) {
    this.#io = io;
    process.on("exit", this.#restore);
  }

  /** Lines that stay, above the block. */
  print(...lines: string[]): void {
    if (lines.length === 0) return;
    this.#write(`${this.#erase()}${lines.join("\n")}\n${this.#body(this.#lines)}`);
  }

  /** The block as it shall look now; nothing is written when it looks so already. */
  draw(lines: readonly string[]): void {
    if (lines.length === this.#lines.length && lines.every((line, i) => line === this.#lines[i])) return;
    const erase = this.#erase();
    this.#lines = lines;
    this.#write(`${this.#hidden ? "" : HIDE}${erase}${this.#body(lines)}`);
    this.#hidden = true;
  }

  /** Takes the block away and shows the cursor. */
  end(): void {
    this.#write(`${this.#erase()}${this.#hidden ? SHOW : ""}`);
    this.#lines = [];
    this.#hidden = false;
    process.off("exit", this.#restore);
  }

  #body(lines: readonly string[]): string {
    return lines.join("\n");
  }

  /** The cursor stands in the last line of the block. After a resize a line may fill several rows. */
  #erase(): string {
    if (this.#lines.length === 0) return "";
    const width = Math.max(1, this.#io.columns());
    const rows = this.#lines.reduce(
      (sum, line) => sum + Math.max(1, Math.ceil(displayWidth(line) / width)),
      0,
    );
    return rows > 1 ? `\x1b[${rows - 1}A${CLEAR_DOWN}` : CLEAR_DOWN;
  }

  #write(text: string): void {
    if (text !== "") void this.#io.out(text);
  }
}
