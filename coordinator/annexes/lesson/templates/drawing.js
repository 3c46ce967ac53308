// The drawing: nodes and links of the network, the packets of a step, and what is broken.

import { svgElement } from "../../../reports/templates/shared/element.js";

const MOTION = 450; // milliseconds in which packets move along their links
const LETTERS = 8; // smallest letters, in units of the drawing

export class Drawing {
  constructor(host, picture, select) {
    this.picture = picture;
    const { radius } = picture, longest = Math.max(...picture.labels.map((label) => label.length));
    this.font = Math.min(17, (1.75 * radius) / (0.58 * longest));
    this.arcs = new Map(picture.links.ends.map(([sender, port], at) => [`${sender}/${port}`, at]));
    this.svg = svgElement("svg", { class: "map", viewBox: `0 0 1000 ${picture.height}`, role: "group", "aria-label": "network" });
    this.layers = Object.fromEntries(["web", "packets", "broken", "hits", "marks", "nodes", "dots"].map((name) => [name, svgElement("g", { id: name })]));
    this.svg.append(...Object.values(this.layers));
    this.width = Math.max(0.5, 0.05 * radius);
    this.layers.web.append(svgElement("path", { class: "web", "stroke-width": this.width, d: picture.links.ends.flatMap(([sender, , receiver], at) => (sender < receiver ? [picture.links.paths[at]] : [])).join("") }));
    picture.links.ends.forEach(([sender, , receiver], at) => this.layers.hits.append(svgElement("path", {
      class: "hit", d: picture.links.paths[at], "stroke-width": Math.max(9, 0.5 * radius), click: () => select(sender, receiver),
    })));
    this.nodes = picture.labels.map((label, rank) => this.node(label, rank, select));
    host.replaceChildren(this.svg);
  }

  node(label, rank, select) {
    const [x, y, r] = [this.picture.x[rank], this.picture.y[rank], this.picture.radius];
    const circle = svgElement("circle", { class: "node", cx: x, cy: y, r }), slice = svgElement("path", { class: "slice" });
    const title = svgElement("title", {}), name = svgElement("text", { class: "name", x, y, "font-size": this.font }, label);
    this.layers.nodes.append(svgElement("g", { class: "place", "data-rank": rank, click: () => select(rank) }, circle, slice, ...(this.font < LETTERS ? [] : [name]), title));
    if (rank === this.picture.root) this.layers.nodes.append(svgElement("circle", { class: "ring", cx: x, cy: y, r: 1.32 * r, "stroke-width": Math.max(1, 0.13 * r) }));
    return { circle, slice, name, title };
  }

  /** Show a scene: what nodes have, the packets of the step, what is broken, cut off and selected. */
  show(scene) {
    this.scene = scene;
    this.drawPackets(scene.packets);
    this.drawBroken(scene.broken);
    this.drawMarks(scene);
    this.paint(scene.after);
  }

  paint(after) {
    const { picture, scene } = this;
    this.nodes.forEach(({ circle, slice, name, title }, rank) => {
      const share = after.share(rank), colour = picture.colours[Math.min(after.when[rank], picture.colours.length) - 1];
      const root = rank === picture.root, full = !root && share === 1, part = !root && share > 0 && share < 1;
      circle.setAttribute("fill", root ? "var(--ink)" : full ? colour : "var(--paper)");
      circle.style.strokeWidth = after.when[rank] === scene.step && scene.step ? 3 : "";
      slice.setAttribute("d", part ? this.slice(rank, share) : "");
      slice.setAttribute("fill", part ? colour : "none");
      name.setAttribute("fill", root ? "var(--paper)" : full ? (isBright(colour) ? "#111" : "#fff") : "var(--ink)");
      name.classList.toggle("halo", part);
      title.textContent = scene.words(rank, after);
    });
  }

  slice(rank, share) {
    const [x, y, r] = [this.picture.x[rank], this.picture.y[rank], this.picture.radius];
    const end = `${x + r * Math.sin(2 * Math.PI * share)} ${y - r * Math.cos(2 * Math.PI * share)}`;
    return `M${x} ${y}V${y - r}A${r} ${r} 0 ${share > 0.5 ? 1 : 0} 1 ${end}z`;
  }

  drawPackets(packets) {
    const { paths, heads } = this.picture.links, at = ({ sender, port }) => this.arcs.get(`${sender}/${port}`);
    const lost = packets.filter((each) => each.lost === each.segments), others = packets.filter((each) => each.lost < each.segments);
    const line = (name, links, stroke) => svgElement("path", { class: name, "stroke-width": stroke, d: links.map((each) => paths[at(each)]).join("") });
    const wide = Math.max(1, Math.min(3.6, 0.17 * this.picture.radius));
    this.layers.packets.replaceChildren(line("flow", others, wide), svgElement("path", { class: "head", d: others.map((each) => heads[at(each)]).join("") }), line("gone", lost, wide));
  }

  drawBroken(broken) {
    const { x, y, radius, links } = this.picture, arm = (this.font < LETTERS ? 1 : 1.5) * radius;
    this.layers.broken.replaceChildren(...broken.filter((each) => each.rank !== null).map(({ rank, peer }) => {
      if (peer === null) return svgElement("path", { class: "cross", "stroke-width": Math.max(1.2, 0.2 * radius), d: `M${x[rank] - arm} ${y[rank] - arm}l${2 * arm} ${2 * arm}m0 ${-2 * arm}l${-2 * arm} ${2 * arm}` });
      const at = links.ends.findIndex(([sender, , receiver]) => sender === rank && receiver === peer);
      return svgElement("path", { class: "cut", "stroke-width": Math.max(2, 0.16 * radius), d: links.paths[at] });
    }));
  }

  drawMarks({ selected, cutOff }) {
    const { x, y, radius, links } = this.picture, parts = [];
    for (const rank of cutOff) parts.push(svgElement("circle", { class: "missed", cx: x[rank], cy: y[rank], r: 1.25 * radius, "stroke-width": Math.max(1.2, 0.12 * radius) }));
    if (selected?.peer === null) parts.push(svgElement("circle", { class: "selected", cx: x[selected.rank], cy: y[selected.rank], r: 1.5 * radius, "stroke-width": Math.max(2, 0.16 * radius) }));
    else if (selected) {
      const ends = links.ends.flatMap(([sender, , receiver], at) => (sender === selected.rank && receiver === selected.peer) || (sender === selected.peer && receiver === selected.rank) ? [links.paths[at]] : []);
      parts.push(svgElement("path", { class: "selected", "stroke-width": Math.max(2, 0.2 * radius), d: ends.join("") }));
    }
    this.layers.marks.replaceChildren(...parts);
  }

  /** Let the packets of the step leave and arrive, and paint what nodes had `before` until then. */
  play(before) {
    const { packets } = this.scene, scene = this.scene;
    if (!packets.length || document.hidden || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    const lines = packets.map(({ sender, port, lost, segments }) => {
      const path = svgElement("path", { d: this.picture.links.paths[this.arcs.get(`${sender}/${port}`)] });
      const gone = lost === segments, dot = svgElement("circle", { class: gone ? "dot lost" : "dot", r: Math.max(3.5, 0.26 * this.picture.radius) });
      return { path, dot, length: path.getTotalLength() * (gone ? 0.5 : 1) };
    });
    const since = performance.now();
    this.layers.dots.replaceChildren(...lines.map(({ dot }) => dot));
    this.svg.dataset.moving = "";
    this.paint(before);
    const move = () => {
      const share = Math.min(1, (performance.now() - since) / MOTION), over = share === 1 || this.scene !== scene;
      for (const { path, dot, length } of lines) {
        const point = path.getPointAtLength(share * length);
        dot.setAttribute("cx", point.x);
        dot.setAttribute("cy", point.y);
      }
      if (!over) return requestAnimationFrame(move);
      if (this.scene !== scene) return; // another scene has been drawn, with dots of its own or none
      this.still();
      this.paint(scene.after);
    };
    move();
  }

  /** Remove the dots of packets. */
  still() {
    this.layers.dots.replaceChildren();
    delete this.svg.dataset.moving;
  }
}

function isBright(colour) {
  const n = parseInt(colour.slice(1), 16);
  return 0.3 * (n >> 16) + 0.59 * ((n >> 8) & 255) + 0.11 * (n & 255) > 125;
}
