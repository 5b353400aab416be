// `bus-shim call METHOD [JSON_PARAMS]`: one request to the bus, for agents that have a shell and nothing else.
// The connection to $BUSBAR_SOCKET is the attempt, so nobody has to say who he is.

import { answerTimeoutMs, openThin } from "../bus/client/thin.ts";
import { BusbarError } from "../schemas/errors.ts";
import { TASK_SOCKET_WAIT_MS } from "../schemas/limits.ts";

/** The exit code: 0 with the result as JSON on `out`, 1 with message and help on `err`. */
export async function callMode(
  args: readonly string[],
  socket: string | undefined,
  out: (text: string) => void,
  err: (text: string) => void,
): Promise<number> {
  try {
    const { method, params } = parseCall(args);
    if (!socket) throw new BusbarError("USAGE", "BUSBAR_SOCKET is not set: this is not inside an attempt");
    const client = await openThin(socket);
    try {
      // The shim waits for a bus that is away before it answers, so this waits longer than one call.
      out(
        `${JSON.stringify(await client.call(method, params, TASK_SOCKET_WAIT_MS + answerTimeoutMs(method)))}\n`,
      );
      return 0;
    } finally {
      client.close();
    }
  } catch (error) {
    const known = error instanceof BusbarError ? error : undefined;
    err(`bus-shim: ${known?.message ?? String(error)}\n${known ? `${known.help}\n` : ""}`);
    return 1;
  }
}

function parseCall(args: readonly string[]): { method: string; params: unknown } {
  const [method, text = "{}", ...more] = args;
  if (method === undefined || more.length > 0)
    throw new BusbarError("USAGE", "usage: bus-shim call METHOD [JSON_PARAMS]");
  try {
    return { method, params: JSON.parse(text) };
  } catch {
    throw new BusbarError("USAGE", `the parameters of ${method} are not JSON`);
  }
}
