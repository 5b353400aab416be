// The graph of tasks: waves, cycles, the critical path. Nothing recurses and nothing walks paths, so that a chain of
// 20,000 tasks and a ladder with 2^40 paths cost their edges and no more.

export interface Graph {
  /** Ids in the order of the plan. */
  ids: readonly string[];
  /** Per task, the indexes of the tasks that it waits for; unknown ids are left out. */
  needs: readonly (readonly number[])[];
  /** Per task, its wave (0 = waits for nothing), or -1 when it is on or behind a cycle. */
  wave: readonly number[];
}

export function buildGraph(tasks: readonly { id: string; depends_on: readonly string[] }[]): Graph {
  const index = new Map<string, number>();
  tasks.forEach((task, i) => {
    if (!index.has(task.id)) index.set(task.id, i);
  });
  const needs = tasks.map((task) => {
    const found = task.depends_on.map((id) => index.get(id)).filter((i) => i !== undefined);
    return [...new Set(found)];
  });
  return { ids: tasks.map((task) => task.id), needs, wave: waveNumbers(needs) };
}

/** Kahn's order: a task's wave is one more than the latest wave it waits for. */
function waveNumbers(needs: readonly (readonly number[])[]): number[] {
  const dependents: number[][] = needs.map(() => []);
  const open = needs.map((list) => list.length);
  needs.forEach((list, i) => {
    for (const need of list) dependents[need]?.push(i);
  });
  const wave = needs.map(() => -1);
  const height = needs.map(() => 0);
  const queue = open.flatMap((n, i) => (n === 0 ? [i] : []));
  for (let at = 0; at < queue.length; at += 1) {
    const i = queue[at] ?? 0;
    wave[i] = height[i] ?? 0;
    for (const next of dependents[i] ?? []) {
      height[next] = Math.max(height[next] ?? 0, (wave[i] ?? 0) + 1);
      open[next] = (open[next] ?? 0) - 1;
      if (open[next] === 0) queue.push(next);
    }
  }
  return wave;
}

/** Cycles without a common task, each as indexes a, what a waits for, ... , a; at most `bound`. */
export function findCycles(graph: Graph, bound = 10): number[][] {
  const seen = new Int32Array(graph.ids.length).fill(-1);
  const cycles: number[][] = [];
  for (let start = 0; start < graph.ids.length && cycles.length < bound; start += 1) {
    if (graph.wave[start] !== -1 || seen[start] !== -1) continue;
    const path: number[] = [];
    // every task without a wave waits for another one without: going there ends in a cycle or where we were before
    let at: number | undefined = start;
    while (at !== undefined && seen[at] === -1) {
      seen[at] = start;
      path.push(at);
      at = graph.needs[at]?.find((need) => graph.wave[need] === -1);
    }
    if (at === undefined || seen[at] !== start) continue;
    const ring = path.slice(path.indexOf(at));
    const first = ring.indexOf(ring.reduce((a, b) => Math.min(a, b)));
    cycles.push([...ring.slice(first), ...ring.slice(0, first), ring[first] ?? at]);
  }
  return cycles;
}

/** Ids wave by wave, in the order of the plan; tasks on or behind a cycle are in none. */
export function waves(graph: Graph): string[][] {
  const result: string[][] = [];
  graph.wave.forEach((wave, i) => {
    if (wave < 0) return;
    while (result.length <= wave) result.push([]);
    result[wave]?.push(graph.ids[i] ?? "");
  });
  return result;
}

/** The longest chain of tasks, each counted as 1, from its beginning to its end. */
export function criticalPath(graph: Graph): string[] {
  let at = graph.wave.reduce((best, wave, i) => (wave > (graph.wave[best] ?? -1) ? i : best), 0);
  if ((graph.wave[at] ?? -1) < 0) return [];
  const path: string[] = [];
  for (;;) {
    path.push(graph.ids[at] ?? "");
    const wave: number = graph.wave[at] ?? 0;
    const before = graph.needs[at]?.find((need) => graph.wave[need] === wave - 1);
    if (before === undefined) return path.reverse();
    at = before;
  }
}

/** In plans larger than this only tasks of one wave are taken as able to run together. */
export const MAX_EXACT_ORDER = 2_000;

/**
 * Pairs (i < j) that no dependency orders, so that they may run together, in a fixed order; none with a task on or
 * behind a cycle. Exact up to
 * MAX_EXACT_ORDER tasks; beyond it the pairs of each wave (a lower bound, and all that a schedule in waves has).
 */
export function* unorderedPairs(graph: Graph): Generator<[number, number]> {
  const n = graph.ids.length;
  if (n > MAX_EXACT_ORDER) {
    yield* pairsOfWaves(graph);
    return;
  }
  const before = ancestors(graph);
  const sound = graph.wave.flatMap((wave, i) => (wave < 0 ? [] : [i]));
  for (const [k, i] of sound.entries())
    for (const j of sound.slice(k + 1)) if (!has(before[i], j) && !has(before[j], i)) yield [i, j];
}

function* pairsOfWaves(graph: Graph): Generator<[number, number]> {
  const members = new Map<number, number[]>();
  graph.wave.forEach((wave, i) => {
    if (wave < 0) return;
    const list = members.get(wave);
    if (list) list.push(i);
    else members.set(wave, [i]);
  });
  for (const list of members.values())
    for (const [k, i] of list.entries()) for (const j of list.slice(k + 1, k + 1_001)) yield [i, j];
}

/** Per task a set of bits: everything it waits for, directly or not. */
function ancestors(graph: Graph): Uint32Array[] {
  const words = Math.ceil(graph.ids.length / 32);
  const sets = graph.ids.map(() => new Uint32Array(words));
  const order = graph.ids.map((_, i) => i).sort((a, b) => (graph.wave[a] ?? 0) - (graph.wave[b] ?? 0));
  for (const i of order) {
    const mine = sets[i];
    if (!mine) continue;
    for (const need of graph.needs[i] ?? []) {
      const theirs = sets[need];
      theirs?.forEach((word, w) => {
        mine[w] = (mine[w] ?? 0) | word;
      });
      mine[need >> 5] = (mine[need >> 5] ?? 0) | (1 << (need & 31));
    }
  }
  return sets;
}

function has(set: Uint32Array | undefined, i: number): boolean {
  return (((set?.[i >> 5] ?? 0) >>> (i & 31)) & 1) === 1;
}
