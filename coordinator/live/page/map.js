// The drawing: nodes, busy links, faults and the selection on a canvas, with zoom, and the search for what was clicked.

import { beside, nearest, Viewport } from "/viewport.js";

const WIDTH = 1000; // of the picture, in its own units
const REACH = 9; // pixels around a node or a link that count as a click on it
const DOT = 2.5; // radius in pixels up to which a node is a square
const IDLE_LINKS = 420; // larger networks would be a grey area
const MOTION = 300; // milliseconds in which packets move along their links
const MOST_MOVING = 1_500; // packets of one step that move
const LETTERS = 8; // smallest letters, in pixels

export class NetworkMap extends Viewport {
  constructor(canvas, picture) {
    super(WIDTH, picture.height);
    this.canvas = canvas;
    this.frame = canvas.parentElement;
    this.picture = picture;
    this.context = canvas.getContext("2d");
    this.scene = null;
    this.drawn = false;
    const links = picture.links;
    this.paths = links?.paths.map((path) => new Path2D(path));
    this.heads = links?.heads.map((path) => new Path2D(path));
    this.arcs = new Map(links?.senders.map((sender, at) => [`${sender}/${links.ports[at]}`, at]));
    if (links && picture.order <= IDLE_LINKS) {
      this.idle = new Path2D();
      for (const path of this.paths) this.idle.addPath(path);
    }
    new ResizeObserver(() => this.resize()).observe(this.frame);
    this.readColours();
  }

  readColours() {
    const style = getComputedStyle(document.documentElement);
    const names = ["paper", "ink", "muted", "grid", "grey", "blue", "orange", "red", "purple"];
    this.colours = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    // By `State`: votes that are open, and how votes ended.
    this.voteColours = [mixture(this.colours.grey, this.colours.paper, 0.3), ...[1, 2, 3].map((state) => this.picture.states[state])];
    this.redraw();
  }

  resize() {
    const ratio = devicePixelRatio || 1, shape = this.picture.height / WIDTH, { clientWidth, clientHeight } = this.frame;
    const fits = Number(getComputedStyle(this.frame).getPropertyValue("--fits-height"));
    const width = Math.floor(fits ? Math.min(clientWidth, clientHeight / shape) : clientWidth);
    [this.canvas.style.width, this.canvas.style.height] = [`${width}px`, `${width * shape}px`];
    [this.canvas.width, this.canvas.height] = [Math.round(width * ratio), Math.round(width * shape * ratio)];
    this.draw();
  }

  /** Pixels of the canvas in one unit of the picture. */
  get scale() {
    return (this.canvas.width / WIDTH) * this.zoom;
  }

  changed() {
    this.redraw();
  }

  /** Bring a node into view. */
  revealNode(rank) {
    this.reveal(this.picture.x[rank], this.picture.y[rank]);
  }

  /** The point of the picture under a point of the page. */
  point(event) {
    const box = this.canvas.getBoundingClientRect(), unit = this.scale * (box.width / this.canvas.width);
    return [(event.clientX - box.left) / unit + this.left, (event.clientY - box.top) / unit + this.top];
  }

  /** What is at a point of the picture: {rank}, {rank, port} of a link, or null. `near` are links that may be hit. */
  find(x, y, near) {
    const unit = (devicePixelRatio || 1) / this.scale;
    const reach = Math.max(this.picture.radius, REACH * unit);
    const found = nearest(this.picture.x, this.picture.y, x, y, reach);
    if (found >= 0) return { rank: found };
    return this.paths ? this.findPath(x, y, REACH * unit) : this.findLine(x, y, near, REACH * unit);
  }

  findPath(x, y, reach) {
    const { context, picture } = this;
    context.setTransform(1, 0, 0, 1, 0, 0);
    // Narrow first: of two directions side by side, the closer one counts.
    for (const width of [reach / 2, 2 * reach]) {
      context.lineWidth = width;
      const at = this.paths.findIndex((path) => context.isPointInStroke(path, x, y));
      if (at >= 0) return { rank: picture.links.senders[at], port: picture.links.ports[at] };
    }
    return null;
  }

  findLine(x, y, near, reach) {
    let found = null, least = reach;
    for (const { rank, port, peer } of near) {
      const { x: xs, y: ys } = this.picture, dx = xs[peer] - xs[rank], dy = ys[peer] - ys[rank];
      const along = Math.min(1, Math.max(0, ((x - xs[rank]) * dx + (y - ys[rank]) * dy) / (dx * dx + dy * dy)));
      const distance = Math.hypot(xs[rank] + along * dx - x, ys[rank] + along * dy - y);
      if (distance <= least) [found, least] = [{ rank, port }, distance];
    }
    return found;
  }

  /** The node next to `rank` in a direction. */
  beside(rank, dx, dy) {
    return beside(this.picture.x, this.picture.y, rank, dx, dy);
  }

  /** Show a scene: `state` and `frame` of a step, `broken` places, `selected`, and the links of the selected node. */
  show(scene) {
    this.scene = scene;
    this.redraw();
  }

  /** Let the packets of the step that is shown leave and arrive, for people who do not prefer less motion. */
  play() {
    const arcs = this.scene?.frame?.arcs;
    if (!arcs?.length || arcs.length > 6 * MOST_MOVING || document.hidden) return;
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    this.moving = { since: performance.now(), held: this.scene.before(), frame: this.scene.frame };
    this.canvas.dataset.moving = "";
    this.redraw();
  }

  /** The share of the motion that is over; 1 if nothing moves. */
  get moved() {
    if (!this.moving) return 1;
    const share = (performance.now() - this.moving.since) / MOTION;
    if (share < 1 && this.moving.frame === this.scene.frame) return Math.max(0, share);
    this.moving = null;
    delete this.canvas.dataset.moving;
    return 1;
  }

  redraw() {
    if (this.drawn || !this.scene) return;
    this.drawn = true; // at most once per picture of the screen
    requestAnimationFrame(() => {
      this.drawn = false;
      this.draw();
    });
  }

  draw() {
    if (!this.scene || !this.canvas.width || !this.canvas.height) return;
    const { context, scale, colours } = this, moved = this.moved;
    // Until packets have arrived, nodes have what they had before.
    this.held = moved < 1 ? this.moving.held : this.scene;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = colours.paper;
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    context.setTransform(scale, 0, 0, scale, -this.left * scale, -this.top * scale);
    context.lineCap = "round";
    this.drawLinks();
    const shades = this.shades(), letters = this.letters;
    // Where nodes have labels, crosses and bars are behind the nodes, as in reports, so that none hides a label.
    if (letters) this.drawBroken(1.9);
    this.drawNodes(shades);
    this.drawMarks(letters ? 0 : 1.5);
    if (letters) this.drawLabels(shades, letters);
    if (moved < 1) {
      this.drawPackets(moved);
      this.redraw();
    }
  }

  /** The packets of the step as dots on their way; lost ones end halfway. */
  drawPackets(share) {
    const { context, colours, scene, picture } = this, size = Math.max(3 / this.scale, 0.28 * picture.radius);
    const { arcs } = scene.frame;
    for (let at = 0; at < arcs.length; at += 6) {
      const [sender, port, receiver, segments, gone, changed] = arcs.slice(at, at + 6), lost = gone === segments;
      const [x, y] = this.along(sender, port, receiver, lost ? Math.min(share, 0.5) : share);
      context.fillStyle = lost ? colours.red : changed ? colours.purple : colours.blue;
      context.beginPath();
      context.arc(x, y, size, 0, 2 * Math.PI);
      context.fill();
    }
  }

  /** The point at a share of a link from its sender. */
  along(sender, port, receiver, share) {
    const at = this.arcs.get(`${sender}/${port}`), { x, y, links } = this.picture;
    if (at === undefined) return [x[sender] + share * (x[receiver] - x[sender]), y[sender] + share * (y[receiver] - y[sender])];
    this.curves ??= new Map();
    if (!this.curves.has(at)) {
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
      path.setAttribute("d", links.paths[at]);
      this.curves.set(at, [path, path.getTotalLength()]);
    }
    const [path, length] = this.curves.get(at), point = path.getPointAtLength(share * length);
    return [point.x, point.y];
  }

  // --- links

  drawLinks() {
    const { colours, scene, picture } = this;
    const width = Math.max(0.6 / this.scale, Math.min(2.4, 0.1 * picture.radius));
    if (this.idle) this.stroke([this.idle], colours.grid, width);
    const flow = [], lost = [], altered = [], heads = { flow: [], altered: [] };
    const arcs = scene.frame?.arcs ?? [];
    for (let at = 0; at < arcs.length; at += 6) {
      const [sender, port, receiver, segments, gone, changed] = arcs.slice(at, at + 6);
      const path = this.path(sender, port, receiver);
      (gone === segments ? lost : changed ? altered : flow).push(path);
      if (this.heads && gone < segments) heads[changed ? "altered" : "flow"].push(this.heads[this.arcs.get(`${sender}/${port}`)]);
    }
    this.stroke(flow, colours.blue, 1.6 * width);
    this.stroke(altered, colours.purple, 1.8 * width);
    this.stroke(lost, colours.red, 1.6 * width, [5 * width, 4 * width]);
    if (picture.order <= IDLE_LINKS) {
      this.fill(heads.flow, colours.blue);
      this.fill(heads.altered, colours.purple);
    }
    for (const [key, kinds] of scene.broken.links) {
      const [rank, port] = key.split("/").map(Number), down = kinds.has("down");
      const peer = scene.broken.peers.get(key);
      this.stroke([this.path(rank, port, peer)], down ? colours.red : colours.orange, 2.2 * width, [width, 3 * width]);
    }
    this.drawWithheld(scene.frame?.withheld ?? [], width);
    for (const { rank, port, peer } of scene.near) this.stroke([this.path(rank, port, peer)], colours.muted, width);
    const { selected } = scene;
    if (selected?.port !== undefined) {
      this.stroke([this.path(selected.rank, selected.port, selected.peer)], colours.ink, 3.4 * width);
    }
  }

  /** A circle at the sender of each packet that was withheld. */
  drawWithheld(links, width) {
    const { context, picture, colours } = this, size = Math.max(2, 0.22 * picture.radius);
    for (let at = 0; at < links.length; at += 3) {
      const [sender, , receiver] = links.slice(at, at + 3);
      const dx = picture.x[receiver] - picture.x[sender], dy = picture.y[receiver] - picture.y[sender];
      const away = (picture.radius + 1.4 * size) / (Math.hypot(dx, dy) || 1), circle = new Path2D();
      circle.arc(picture.x[sender] + dx * away, picture.y[sender] + dy * away, size, 0, 2 * Math.PI);
      context.fillStyle = colours.paper;
      context.fill(circle);
      this.stroke([circle], colours.grey, width);
    }
  }

  path(sender, port, receiver) {
    const at = this.arcs.get(`${sender}/${port}`);
    if (at !== undefined) return this.paths[at];
    const { x, y } = this.picture, line = new Path2D();
    line.moveTo(x[sender], y[sender]);
    line.lineTo(x[receiver], y[receiver]);
    return line;
  }

  stroke(paths, colour, width, dash = []) {
    this.context.strokeStyle = colour;
    this.context.lineWidth = width;
    this.context.setLineDash(dash);
    for (const path of paths) this.context.stroke(path);
    this.context.setLineDash([]);
  }

  fill(paths, colour) {
    this.context.fillStyle = colour;
    for (const path of paths) this.context.fill(path);
  }

  // --- nodes

  /** The colour of a share, dark for 0 and bright for 1, as `viridis` in coordinator/reports/theme.py. */
  viridis(share) {
    const { scale } = this.picture, at = (0.15 + 0.83 * share) * (scale.length - 1), low = Math.floor(at);
    return mixture(scale[low + 1], scale[low], at - low);
  }

  /** The colour of a step, dark for the first and bright for the last one, as in reports. */
  stepColour(step) {
    const { steps } = this.scene;
    return this.viridis(steps > 1 ? Math.min(1, Math.max(0, (step - 1) / (steps - 1))) : 0.6);
  }

  /** The share that a node has of what it is due, or is to send. */
  share(rank) {
    return Math.min(1, this.held.state.gained[rank] / this.picture.goals[rank]);
  }

  /** The colour of a node: of its vote, or of the step when its newest segment arrived, pale if it lacks others. */
  fillOf(rank) {
    const { picture, held, colours } = this;
    if (picture.pies && this.pies) return colours.paper;
    if (held.votes) return this.voteColours[held.votes(rank)] ?? colours.paper;
    const { gained, when } = held.state;
    if (!gained[rank]) return colours.paper;
    if (picture.pies) return this.viridis(Math.floor(9 * this.share(rank) + 1e-9) / 9);
    const part = Math.round(20 + 80 * this.share(rank)), key = `${when[rank]}/${part}`;
    if (!this.mixed.has(key)) this.mixed.set(key, mixture(this.stepColour(when[rank]), colours.paper, part / 100));
    return this.mixed.get(key);
  }

  /** By colour, the ranks of the nodes in view that have it. */
  shades() {
    const { picture } = this, shades = new Map();
    this.mixed = new Map();
    const right = this.left + WIDTH / this.zoom + picture.radius, bottom = this.top + picture.height / this.zoom + picture.radius;
    for (let rank = 0; rank < picture.order; rank++) {
      const x = picture.x[rank], y = picture.y[rank];
      if (x < this.left - picture.radius || y < this.top - picture.radius || x > right || y > bottom) continue;
      const fill = this.fillOf(rank);
      if (!shades.has(fill)) shades.set(fill, []);
      shades.get(fill).push(rank);
    }
    return shades;
  }

  /** The radius of nodes; as large as a pixel. */
  get radius() {
    return Math.max(this.picture.radius, 0.5 / this.scale);
  }

  /** Whether nodes are discs, which can have slices, and not squares of a few pixels. */
  get pies() {
    return this.radius * this.scale > DOT;
  }

  drawNodes(shades) {
    const { context, picture, colours, radius } = this;
    if (!this.pies) return this.drawDots(shades, Math.max(1, Math.round(1.8 * radius * this.scale)));
    context.lineWidth = Math.max(0.7 / this.scale, 0.06 * radius);
    shades.forEach((ranks, fill) => {
      context.fillStyle = fill;
      context.strokeStyle = colours.muted;
      context.beginPath();
      for (const rank of ranks) {
        context.moveTo(picture.x[rank] + radius, picture.y[rank]);
        context.arc(picture.x[rank], picture.y[rank], radius, 0, 2 * Math.PI);
      }
      context.fill();
      context.stroke();
    });
    if (picture.pies) this.drawPies(radius);
    const changed = new Path2D();
    for (const rank of this.held.state.fresh) {
      changed.moveTo(picture.x[rank] + radius, picture.y[rank]);
      changed.arc(picture.x[rank], picture.y[rank], radius, 0, 2 * Math.PI);
    }
    this.stroke([changed], colours.ink, Math.max(1.4 / this.scale, 0.14 * radius));
  }

  /** The shares of what nodes are due that have arrived, in the colour of the step, or of the votes on them. */
  drawPies(radius) {
    const { context, picture, held } = this, states = Object.keys(picture.states).length + 1;
    const arrived = this.stepColour(held.step);
    for (let rank = 0; rank < picture.order; rank++) {
      const slices = held.votes
        ? [1, 2, 3].map((state) => [held.state.settled[rank * states + state] / picture.votesDue[rank], picture.states[state]])
        : [[this.share(rank), arrived]];
      let low = 0;
      for (const [share, colour] of slices) {
        if (!share) continue;
        context.fillStyle = colour;
        context.beginPath();
        context.moveTo(picture.x[rank], picture.y[rank]);
        context.arc(picture.x[rank], picture.y[rank], radius, 2 * Math.PI * low - Math.PI / 2, 2 * Math.PI * (low + share) - Math.PI / 2);
        context.fill();
        low += share;
      }
    }
  }

  /** Nodes as squares of pixels, in a picture that is put over the links: one `fillRect` per node takes ten times as long. */
  drawDots(shades, side) {
    const { context, picture, scale } = this, { width, height } = this.canvas;
    const image = context.createImageData(width, height), pixels = new Uint32Array(image.data.buffer);
    shades.forEach((ranks, fill) => {
      const colour = littleEndian(fill === this.colours.paper ? this.colours.grid : fill);
      for (const rank of ranks) {
        const x = Math.round((picture.x[rank] - this.left) * scale - side / 2), y = Math.round((picture.y[rank] - this.top) * scale - side / 2);
        const from = Math.max(0, x), to = Math.max(from, Math.min(width, x + side));
        for (let row = Math.max(0, y); row < Math.min(height, y + side); row++) pixels.fill(colour, row * width + from, row * width + to);
      }
    });
    const layer = this.layer ??= document.createElement("canvas");
    [layer.width, layer.height] = [width, height];
    layer.getContext("2d").putImageData(image, 0, 0);
    context.save();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.drawImage(layer, 0, 0);
    context.restore();
  }

  /** The size of labels that fit into nodes; 0 if they would be too small to read. */
  get letters() {
    const { picture } = this;
    const letters = Math.max(...[0, Math.floor(picture.order / 2), picture.order - 1].map((rank) => picture.labels[rank].length));
    const least = (LETTERS * (devicePixelRatio || 1)) / this.scale, most = (1.75 * picture.radius) / (0.58 * letters);
    return least > most ? 0 : Math.min(most, Math.max(17, least));
  }

  drawLabels(shades, size) {
    const { context, picture, colours } = this;
    context.font = `${size}px system-ui, sans-serif`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    shades.forEach((ranks, fill) => {
      context.fillStyle = isBright(fill) ? "#111" : "#fff";
      // A label over slices of several colours has a halo.
      [context.strokeStyle, context.lineWidth] = [colours.paper, 0.25 * size];
      for (const rank of picture.pies ? ranks : []) context.strokeText(picture.labels[rank], picture.x[rank], picture.y[rank]);
      for (const rank of ranks) context.fillText(picture.labels[rank], picture.x[rank], picture.y[rank]);
    });
    context.fillStyle = colours.paper;
    const dark = [...this.scene.broken.nodes].filter(([, kind]) => !(kind in MARKS)).map(([rank]) => rank);
    for (const rank of picture.root === null ? dark : [picture.root, ...dark]) {
      context.fillText(picture.labels[rank], picture.x[rank], picture.y[rank]);
    }
  }

  // --- marks

  /** The smallest radius of a mark, and the width of its lines. */
  get marks() {
    const radius = Math.max(this.picture.radius, 4 / this.scale);
    return { radius, width: Math.max(1.6 / this.scale, 0.14 * radius) };
  }

  /** Crosses and bars, `arm` times as long as the radius of a node. */
  drawBroken(arm) {
    const { picture, scene, colours } = this, { radius, width } = this.marks;
    for (const [rank, kind] of scene.broken.nodes) {
      if (kind in MARKS) this.stroke([MARKS[kind](picture.x[rank], picture.y[rank], arm * radius)], colours.red, width);
    }
  }

  drawMarks(arm) {
    const { context, picture, scene, colours } = this, { radius, width } = this.marks;
    const ring = (rank, size, colour) => {
      const path = new Path2D();
      path.arc(picture.x[rank], picture.y[rank], size * radius, 0, 2 * Math.PI);
      this.stroke([path], colour, width);
    };
    if (picture.root !== null) {
      const disc = new Path2D();
      disc.arc(picture.x[picture.root], picture.y[picture.root], radius, 0, 2 * Math.PI);
      this.fill([disc], colours.ink);
      ring(picture.root, 1.35, colours.ink);
    }
    if (arm) this.drawBroken(arm);
    for (const [rank, kind] of scene.broken.nodes) {
      if (kind in MARKS) continue;
      const disc = new Path2D(), at = [picture.x[rank], picture.y[rank]];
      disc.arc(...at, 0.9 * radius, 0, 2 * Math.PI);
      this.fill([disc], colours.purple);
      this.stroke([DIAMOND(...at, 1.5 * radius)], colours.purple, width);
    }
    if (scene.selected) {
      ring(scene.selected.rank, 1.7, colours.blue);
      if (scene.selected.peer !== undefined) ring(scene.selected.peer, 1.7, colours.blue);
    }
    context.setLineDash([]);
  }
}

/** `share` of the first colour and the rest of the second, both as #1a2b3c. */
function mixture(one, other, share) {
  const parts = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)), rest = parts(other);
  return "#" + parts(one).map((part, at) => Math.round(share * part + (1 - share) * rest[at]).toString(16).padStart(2, "0")).join("");
}

/** Whether dark letters are easier to read on a colour than light ones. */
function isBright(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return 0.3 * red + 0.59 * green + 0.11 * blue > 125;
}

/** An opaque colour such as #1a2b3c as the number that a pixel of `ImageData` is. */
const littleEndian = (colour) => {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return 0xff000000 + (blue << 16) + (green << 8) + red;
};

/** Shapes of faulty nodes, so that nothing depends on colour alone. */
const MARKS = {
  crash: (x, y, a) => new Path2D(`M${x - a} ${y - a}l${2 * a} ${2 * a}m0 ${-2 * a}l${-2 * a} ${2 * a}`),
  hang: (x, y, a) => new Path2D(`M${x - a / 2} ${y - a}v${2 * a}m${a} 0v${-2 * a}`),
};
const DIAMOND = (x, y, a) => new Path2D(`M${x} ${y - 1.2 * a}l${1.2 * a} ${1.2 * a}l${-1.2 * a} ${1.2 * a}l${-1.2 * a} ${-1.2 * a}z`);
