/** Lines as paths: straight, curved through the bends of a row, or with rounded corners. */

/** A polyline with curves: `M`, `L` (one point) and `C` (three points), points in `xy`. */
export interface Route {
  kinds: string;
  xy: number[];
}

export interface End {
  x: number;
  y: number;
  /** Direction of travel at this point: 1 to the right, -1 to the left. */
  dir: number;
}

export function direct(start: End, end: End): Route {
  const d = Math.max(8, Math.abs(end.x - start.x) / 2);
  if (Math.abs(start.y - end.y) < 0.5) return { kinds: "ML", xy: [start.x, start.y, end.x, end.y] };
  return { kinds: "MC", xy: [start.x, start.y, start.x + start.dir * d, start.y, end.x - end.dir * d, end.y, end.x, end.y] };
}

/** Through the bends of a long edge: straight beside the boxes, curved between the columns. */
export function throughRow(start: End, bends: readonly { x: number; y: number }[], end: End): Route {
  const points = [start, ...bends.map((bend) => ({ ...bend, dir: start.dir })), end];
  const route: Route = { kinds: "M", xy: [start.x, start.y] };
  for (let i = 0; i + 1 < points.length; i++) {
    const part = direct(points[i], points[i + 1]);
    route.kinds += part.kinds.slice(1);
    route.xy.push(...part.xy.slice(2));
  }
  return route;
}

/** A polyline with its corners rounded. */
export function rounded(xy: readonly number[], radius = 7): Route {
  const route: Route = { kinds: "M", xy: [xy[0], xy[1]] };
  for (let i = 2; i + 3 < xy.length; i += 2) {
    const [px, py, x, y, nx, ny] = xy.slice(i - 2, i + 4);
    const a = Math.hypot(x - px, y - py);
    const b = Math.hypot(nx - x, ny - y);
    const r = Math.min(radius, a / 2, b / 2);
    if (r < 0.5) continue;
    const sx = x - ((x - px) / a) * r;
    const sy = y - ((y - py) / a) * r;
    const ex = x + ((nx - x) / b) * r;
    const ey = y + ((ny - y) / b) * r;
    route.kinds += "LC";
    route.xy.push(sx, sy, (sx + 2 * x) / 3, (sy + 2 * y) / 3, (ex + 2 * x) / 3, (ey + 2 * y) / 3, ex, ey);
  }
  route.kinds += "L";
  route.xy.push(xy[xy.length - 2], xy[xy.length - 1]);
  return route;
}
