// Colours: only on a terminal, never under NO_COLOR; and the signs that stand for states.

export interface Palette {
  color: boolean;
  unicode: boolean;
  red(text: string): string;
  green(text: string): string;
  yellow(text: string): string;
  blue(text: string): string;
  cyan(text: string): string;
  dim(text: string): string;
  bold(text: string): string;
}

const paint = (on: boolean, open: number, close: number) => (text: string) =>
  on && text !== "" ? `\x1b[${open}m${text}\x1b[${close}m` : text;

export function palette(color: boolean, unicode = true): Palette {
  return {
    color,
    unicode,
    red: paint(color, 31, 39),
    green: paint(color, 32, 39),
    yellow: paint(color, 33, 39),
    blue: paint(color, 34, 39),
    cyan: paint(color, 36, 39),
    dim: paint(color, 2, 22),
    bold: paint(color, 1, 22),
  };
}

type Env = Readonly<Record<string, string | undefined>>;

/** https://no-color.org: any value but the empty one switches colours off; --no-color does so too. */
export function wantsColor(tty: boolean, env: Env, noColor: boolean): boolean {
  if (noColor || (env.NO_COLOR ?? "") !== "") return false;
  if ((env.FORCE_COLOR ?? "") !== "" && env.FORCE_COLOR !== "0") return true;
  return tty && env.TERM !== "dumb";
}

export function wantsUnicode(env: Env): boolean {
  return /utf-?8/i.test(env.LC_ALL || env.LC_CTYPE || env.LANG || "");
}

/** State as people see it: `merged` and `landing` are both `passed` in the state machine. */
export type Shown =
  | "pending"
  | "ready"
  | "running"
  | "landing"
  | "merged"
  | "failed"
  | "retrying"
  | "blocked"
  | "cancelled";

const SIGNS: Record<Shown, readonly [string, string]> = {
  pending: ["·", "."],
  ready: ["○", "o"],
  running: ["●", "*"],
  landing: ["◆", ">"],
  merged: ["✓", "+"],
  failed: ["✗", "x"],
  retrying: ["↻", "~"],
  blocked: ["■", "!"],
  cancelled: ["⊘", "-"],
};

export function sign(shown: Shown, p: Palette): string {
  return paintState(shown, SIGNS[shown][p.unicode ? 0 : 1], p);
}

/** `text` in the colour of the state. */
export function paintState(shown: Shown, text: string, p: Palette): string {
  switch (shown) {
    case "merged":
      return p.green(text);
    case "running":
    case "landing":
      return p.blue(text);
    case "retrying":
      return p.yellow(text);
    case "failed":
    case "blocked":
      return p.red(text);
    case "pending":
    case "cancelled":
      return p.dim(text);
    case "ready":
      return text;
  }
}
