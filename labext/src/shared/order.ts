/** Steps of a layered drawing that know nothing of ops: cycles, layers, crossings, positions. */

export interface Link {
  from: number;
  to: number;
}

/** Indices of the links to turn round so that no cycle is left; nodes that stand first are visited first. */
export function cycleBreakers(nodes: number, links: readonly Link[]): Set<number> {
  const out: number[][] = Array.from({ length: nodes }, () => []);
  links.forEach((link, i) => out[link.from].push(i));
  const state = new Uint8Array(nodes);
  const turned = new Set<number>();
  for (let start = 0; start < nodes; start++) {
    if (state[start]) continue;
    const stack: [number, number][] = [[start, 0]];
    state[start] = 1;
    while (stack.length) {
      const top = stack[stack.length - 1];
      const [node, at] = top;
      if (at === out[node].length) {
        state[node] = 2;
        stack.pop();
        continue;
      }
      top[1] += 1;
      const link = out[node][at];
      const to = links[link].to;
      if (state[to] === 1) turned.add(link);
      else if (state[to] === 0) {
        state[to] = 1;
        stack.push([to, 0]);
      }
    }
  }
  return turned;
}

/** Longest-path layer of each node of an acyclic graph; nodes without predecessors move next to their first consumer. */
export function layers(nodes: number, links: readonly Link[]): number[] {
  const layer = new Array<number>(nodes).fill(0);
  const waiting = new Array<number>(nodes).fill(0);
  const out: number[][] = Array.from({ length: nodes }, () => []);
  for (const { from, to } of links) {
    out[from].push(to);
    waiting[to] += 1;
  }
  const fed = waiting.map((n) => n > 0);
  const queue = layer.map((_, i) => i).filter((i) => waiting[i] === 0);
  for (let at = 0; at < queue.length; at++)
    for (const to of out[queue[at]]) {
      layer[to] = Math.max(layer[to], layer[queue[at]] + 1);
      if (--waiting[to] === 0) queue.push(to);
    }
  for (let i = 0; i < nodes; i++)
    if (!fed[i] && out[i].length) layer[i] = Math.max(0, Math.min(...out[i].map((to) => layer[to])) - 1);
  return layer;
}

/** Links that cross between two neighbouring columns, given the place of each item in its own. */
function crossings(links: readonly [number, number][]): number {
  const sorted = [...links].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let sum = 0;
  for (let i = 0; i < sorted.length; i++)
    for (let j = i + 1; j < sorted.length; j++) if (sorted[j][0] > sorted[i][0] && sorted[j][1] < sorted[i][1]) sum += 1;
  return sum;
}

/**
 * Order the items of each column so that few links cross (barycentre sweeps; the best order seen is kept).
 * `columns` are item numbers; every link joins neighbouring columns. Returns new columns.
 */
export function reduceCrossings(columns: readonly number[][], links: readonly Link[], sweeps = 8): number[][] {
  const before = new Map<number, number[]>();
  const after = new Map<number, number[]>();
  const push = (map: Map<number, number[]>, key: number, value: number): void => {
    const list = map.get(key);
    if (list) list.push(value);
    else map.set(key, [value]);
  };
  for (const { from, to } of links) {
    push(after, from, to);
    push(before, to, from);
  }
  let order = columns.map((column) => [...column]);
  const place = new Map<number, number>();
  const settle = (column: readonly number[]): void => column.forEach((item, at) => place.set(item, at));
  const total = (): number => {
    order.forEach(settle);
    let sum = 0;
    for (const column of order.slice(0, -1))
      sum += crossings(
        column.flatMap((item) =>
          (after.get(item) ?? []).map((to): [number, number] => [place.get(item) as number, place.get(to) as number]),
        ),
      );
    return sum;
  };
  let best = order.map((column) => [...column]);
  let least = total();
  for (let sweep = 0; sweep < sweeps && least > 0; sweep++) {
    const forward = sweep % 2 === 0;
    const near = forward ? before : after;
    const sequence = forward ? order.keys() : [...order.keys()].reverse();
    for (const c of sequence) {
      const column = order[c];
      const weight = new Map(
        column.map((item, at) => {
          const list = near.get(item);
          return [item, list ? list.reduce((sum, other) => sum + (place.get(other) ?? 0), 0) / list.length : at];
        }),
      );
      order[c] = [...column].sort((a, b) => (weight.get(a) as number) - (weight.get(b) as number));
      settle(order[c]);
    }
    const now = total();
    if (now < least) {
      least = now;
      best = order.map((column) => [...column]);
    }
  }
  order = best;
  return order;
}

/**
 * Tops of stacked items as near to `wish` as their order and gaps allow (weighted least squares by pooling
 * neighbours that would overlap).
 */
export function stack(wish: readonly number[], heights: readonly number[], weights: readonly number[], gap: number): number[] {
  const offset: number[] = [];
  let sum = 0;
  for (const height of heights) {
    offset.push(sum);
    sum += height + gap;
  }
  const blocks: { mean: number; weight: number; n: number }[] = [];
  wish.forEach((value, i) => {
    let block = { mean: value - offset[i], weight: weights[i], n: 1 };
    while (blocks.length && blocks[blocks.length - 1].mean > block.mean) {
      const top = blocks.pop() as typeof block;
      const weight = top.weight + block.weight;
      block = { mean: (top.mean * top.weight + block.mean * block.weight) / weight, weight, n: top.n + block.n };
    }
    blocks.push(block);
  });
  const result: number[] = [];
  for (const block of blocks) for (let k = 0; k < block.n; k++) result.push(block.mean + offset[result.length]);
  return result;
}
