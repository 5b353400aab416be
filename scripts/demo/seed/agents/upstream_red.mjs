// Never gets the syntax right.

import { write } from "./kit.mjs";

write("busbar-demo/src/lines.mjs", "export function lines(text) {\n  return text.split('\\n');\n");
