// Secrets that nobody declared, known by their looks (L6). Documented in SECURITY.md; a rule that blacks out
// ordinary words would make logs useless, so each asks for a prefix and a length.
//
// A rule begins at one of its triggers. `shape` is matched there (sticky); its group 1 is what is replaced.

export interface SecretRule {
  name: string;
  triggers: string[];
  shape: RegExp;
  /** The byte before the trigger must not be a letter, digit or `_`. */
  boundary: boolean;
  /** A match that touches the end of what is known goes on while these characters come. */
  more: RegExp;
  /** After this many bytes from the trigger without a match there is none. */
  reach: number;
  /** When this stands behind the trigger, the rule can be decided. */
  settled: RegExp;
  /** True: not even a match counts before it is settled. */
  whole?: boolean;
  /** The match is only the beginning; all up to this word and the dashes after it belongs to it. */
  until?: string;
}

const LINE_END = /[\r\n]/;
const WORD = /[A-Za-z0-9_-]/;
const TOKEN68 = /[A-Za-z0-9._~+/=-]/;

function prefixed(name: string, triggers: string[], min: number): SecretRule {
  const shape = new RegExp(`((?:${triggers.join("|")})[A-Za-z0-9_-]{${min},})`, "dy");
  return { name, triggers, shape, boundary: true, more: WORD, reach: 128, settled: /[^A-Za-z0-9_-]/ };
}

export const SECRET_RULES: readonly SecretRule[] = [
  {
    name: "authorization",
    triggers: ["authorization", "Authorization", "AUTHORIZATION"],
    shape:
      /[A-Za-z]{13}\\?["']?[ \t]*[:=][ \t]*\\?["']?(?:(?:bearer|basic|token)[ \t]+)?([A-Za-z0-9._~+/=-]{8,})/diy,
    boundary: false,
    more: TOKEN68,
    reach: 256,
    settled: LINE_END,
  },
  {
    name: "bearer-token",
    triggers: ["bearer", "Bearer", "BEARER"],
    shape: /[A-Za-z]{6}[ \t]+([A-Za-z0-9._~+/=-]{20,})/dy,
    boundary: true,
    more: TOKEN68,
    reach: 256,
    settled: LINE_END,
  },
  prefixed("api-key", ["sk-"], 16),
  prefixed("github-token", ["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"], 20),
  prefixed("gitlab-token", ["glpat-"], 16),
  prefixed("slack-token", ["xoxb-", "xoxa-", "xoxp-", "xoxr-", "xoxs-", "xapp-"], 10),
  prefixed("npm-token", ["npm_"], 30),
  prefixed("google-api-key", ["AIza"], 30),
  prefixed("aws-access-key", ["AKIA", "ASIA"], 16),
  {
    name: "aws-secret-key",
    triggers: ["aws_secret_access_key", "AWS_SECRET_ACCESS_KEY", "secretAccessKey", "SecretAccessKey"],
    shape: /\w+\\?["']?[ \t]*[:=][ \t]*\\?["']?([A-Za-z0-9/+=]{30,})/dy,
    boundary: false,
    more: /[A-Za-z0-9/+=]/,
    reach: 256,
    settled: LINE_END,
  },
  {
    name: "private-key",
    triggers: ["-----BEGIN "],
    shape: /(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)/dy,
    boundary: false,
    more: /[^\s\S]/,
    reach: 100,
    settled: LINE_END,
    until: "-----END ",
  },
  {
    name: "url-password",
    triggers: ["://"],
    shape: /:\/\/[^\s/?#@:"'<>]*:([^\s/?#"'<>]+)@/dy,
    boundary: false,
    more: /[^\s\S]/,
    reach: 512,
    settled: /^:\/\/[^\s/?#"'<>]*[\s/?#"'<>]/,
    whole: true,
  },
];
