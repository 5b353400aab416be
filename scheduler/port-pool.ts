// Numbers for PORT: none is given twice at the same time (case 52 gate-not-isolated). The range lies below the
// ephemeral ports of common systems; schedulers of different repositories begin at different places in it.

const FIRST_PORT = 20_000;
const PORT_COUNT = 10_000;

export interface PortPool {
  /** The next free number; the holder gives it back. */
  lease(): { port: number; release(): void };
}

/** `seed`: any number; where in the range to begin. */
export function portPool(seed: number): PortPool {
  const held = new Set<number>();
  let next = Math.abs(Math.trunc(seed)) % PORT_COUNT;
  return {
    lease() {
      for (let i = 0; i < PORT_COUNT && held.has(FIRST_PORT + next); i += 1) next = (next + 1) % PORT_COUNT;
      const port = FIRST_PORT + next;
      next = (next + 1) % PORT_COUNT;
      held.add(port);
      return { port, release: () => void held.delete(port) };
    },
  };
}
