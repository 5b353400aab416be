// Forgets the small words at its first try. The acceptance test says so, and the evidence reaches the second try.

import { contextText, write } from "./kit.mjs";

const told = contextText().includes("small words stay small");
const small = told ? 'const SMALL = new Set(["a", "an", "and", "of", "the", "to"]);\n' : "";
const word = told ? "(word, i) => (i > 0 && SMALL.has(word) ? word : capital(word))" : "capital";
write(
  "busbar-demo/src/title.mjs",
  `${small}const capital = (word) => word.charAt(0).toUpperCase() + word.slice(1);

/** "the lord of the rings" -> "The Lord of the Rings". */
export function titleCase(text) {
  return text.split(" ").map(${word}).join(" ");
}
`,
);
console.log(told ? "small words are small now" : "every word gets a capital letter");
