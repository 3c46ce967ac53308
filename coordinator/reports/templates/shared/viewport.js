// The visible part of a picture of `width` x `height` units, and the search for nodes in it.

const MOST_ZOOM = 64;

export class Viewport {
  constructor(width, height) {
    this.width = width;
    this.height = height;
    this.zoom = 1;
    this.left = 0;
    this.top = 0;
  }

  /** Zoom by a factor around a point of the picture, by default the middle of what is visible. */
  zoomBy(factor, x = this.left + this.width / this.zoom / 2, y = this.top + this.height / this.zoom / 2) {
    const zoom = Math.min(MOST_ZOOM, Math.max(1, this.zoom * factor));
    this.left = x - ((x - this.left) * this.zoom) / zoom;
    this.top = y - ((y - this.top) * this.zoom) / zoom;
    this.zoom = zoom;
    this.moveBy(0, 0);
  }

  moveBy(dx, dy) {
    this.left = Math.min(this.width - this.width / this.zoom, Math.max(0, this.left + dx));
    this.top = Math.min(this.height - this.height / this.zoom, Math.max(0, this.top + dy));
    this.changed();
  }

  /** Bring a point into view. */
  reveal(x, y) {
    const right = x - this.left, down = y - this.top;
    if (right < 0 || down < 0 || right > this.width / this.zoom || down > this.height / this.zoom) {
      this.moveBy(right - this.width / this.zoom / 2, down - this.height / this.zoom / 2);
    }
  }

  /** Called after every change. */
  changed() {}
}

/** The point nearest to (x, y), at most `reach` away; -1 if no point is so near. */
export function nearest(xs, ys, x, y, reach) {
  let found = -1, least = reach * reach;
  for (let at = 0; at < xs.length; at++) {
    const distance = (xs[at] - x) ** 2 + (ys[at] - y) ** 2;
    if (distance <= least) [found, least] = [at, distance];
  }
  return found;
}

/** The point next to the point `from` in a direction; `from` itself if no point lies there. */
export function beside(xs, ys, from, dx, dy) {
  let found = from, least = Infinity;
  for (let other = 0; other < xs.length; other++) {
    const along = (xs[other] - xs[from]) * dx + (ys[other] - ys[from]) * dy;
    const across = Math.abs((xs[other] - xs[from]) * dy - (ys[other] - ys[from]) * dx);
    const distance = along + 2 * across;
    if (along > 0.01 && across <= along && distance < least) [found, least] = [other, distance];
  }
  return found;
}
