// Quantities as people write them: durations, sizes, counts, money. Each parser returns undefined for a bad text;
// the patterns are what the published schema shows to an editor.

const DURATION = /^(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?$/;
export const DURATION_PATTERN = "^(?=\\d)(\\d+(\\.\\d+)?h)?(\\d+(\\.\\d+)?m)?(\\d+(\\.\\d+)?s)?$";
const SIZE = /^(\d+(?:\.\d+)?)\s*([kKmMgGtT]?)(?:i?[bB])?$/;
export const SIZE_PATTERN = "^\\d+(\\.\\d+)?\\s*[kKmMgGtT]?(i?[bB])?$";
const COUNT = /^(\d+(?:\.\d+)?)\s*([kKmMgG]?)$/;
export const COUNT_PATTERN = "^\\d+(\\.\\d+)?\\s*[kKmMgG]?$";
const MONEY = /^(\d+(?:\.\d{1,4})?)\s*([A-Z]{3})$/;
export const MONEY_PATTERN = "^\\d+(\\.\\d{1,4})?\\s*[A-Z]{3}$";

const POWERS = ["", "k", "m", "g", "t"];

/** Seconds: a number, or "90s", "10m", "1h30m". */
export function durationSeconds(value: string | number): number | undefined {
  if (typeof value === "number") return value;
  const found = DURATION.exec(value.trim());
  if (!found || value.trim() === "") return undefined;
  const [, h = "0", m = "0", s = "0"] = found;
  return Number(h) * 3600 + Number(m) * 60 + Number(s);
}

/** Bytes: a number, or "512M", "1G", "1.5GiB"; powers of 1024. */
export function sizeBytes(value: string | number): number | undefined {
  if (typeof value === "number") return value;
  const found = SIZE.exec(value.trim());
  if (!found) return undefined;
  return Math.round(Number(found[1]) * 1024 ** POWERS.indexOf((found[2] ?? "").toLowerCase()));
}

/** A plain count: a number, or "200k", "5M"; powers of 1000. */
export function count(value: string | number): number | undefined {
  if (typeof value === "number") return value;
  const found = COUNT.exec(value.trim());
  if (!found) return undefined;
  return Math.round(Number(found[1]) * 1000 ** POWERS.indexOf((found[2] ?? "").toLowerCase()));
}

/** "20 USD". */
export function money(value: string): { amount: number; currency: string } | undefined {
  const found = MONEY.exec(value.trim());
  return found?.[1] && found[2] ? { amount: Number(found[1]), currency: found[2] } : undefined;
}
