// Over the map: trees in colours, the paths and the subtree of the selected node, and links of large maps.

import { svgElement } from "../shared/element.js";

const STYLES = 12; // classes tree0 .. tree11 of the style sheet

export const treeClass = (tree) => `tree${tree % STYLES}`;

/** The trees that a choice stands for: "traffic" and "all" stand for all of them. */
export function chosenTrees(run, choice) {
  if (!run.trees) return [];
  return typeof choice === "number" ? [choice] : Array.from({ length: run.trees.count }, (_, tree) => tree);
}

export class Overlay {
  constructor(map, run, steps) {
    this.map = map;
    this.run = run;
    this.steps = steps;
    this.layer = svgElement("g", { id: "overlay" });
    map.append(this.layer);
  }

  /** `choice` of trees, `root` of the trees, the selected `node` or -1, and the steps whose links are drawn, if any. */
  draw({ choice, root, node, links }) {
    const { run, map } = this, trees = chosenTrees(run, choice), parts = [];
    const width = Math.max(1, Math.min(3, 0.12 * run.radius));
    map.classList.toggle("of-trees", choice !== "traffic");
    map.classList.toggle("of-node", node >= 0);
    if (links) parts.push(this.lines("busy", this.linksBetween(...links), width));
    if (choice !== "traffic") {
      for (const tree of trees) parts.push(this.lines(`whole ${treeClass(tree)}`, this.arcs(root, tree, run.labels.keys()), width, tree));
    }
    if (node >= 0) {
      const below = new Set(), above = new Set();
      parts.push(this.lines("near", run.ports(node).map(({ port }) => [node, port]), width));
      for (const tree of trees) {
        const subtree = run.subtree(root, tree, node), path = run.path(root, tree, node);
        subtree.forEach((rank) => below.add(rank));
        path.forEach((rank) => above.add(rank));
        parts.push(this.lines(`branch ${treeClass(tree)}`, this.arcs(root, tree, subtree), width, tree));
        const arrived = (rank) => !run.parent(root, tree, rank)?.how;
        parts.push(this.lines(`route ${treeClass(tree)}`, this.arcs(root, tree, path.filter(arrived)), 2.2 * width, tree));
        // Arcs on which nothing arrived show where the path is broken.
        const broken = this.arcs(root, tree, path.filter((rank) => !arrived(rank)));
        if (broken.length) parts.push(this.lines(`route broken ${treeClass(tree)}`, broken, 1.4 * width, tree));
      }
      above.forEach((rank) => below.delete(rank));
      for (const rank of below) parts.push(this.ring("below", rank, 1.15));
      for (const rank of above) if (rank !== node) parts.push(this.ring("above", rank, 1.25));
      parts.push(this.ring("selected", node, 1.5));
    }
    this.layer.replaceChildren(...parts);
  }

  /** [sender, port] of the arcs from the parents of these nodes. */
  arcs(root, tree, ranks) {
    const found = [];
    for (const rank of ranks) {
      const arc = this.run.parent(root, tree, rank);
      if (arc) found.push(this.run.arc(rank, arc));
    }
    return found;
  }

  linksBetween(first, last) {
    const { packets } = this.run, found = new Map();
    packets.step.forEach((step, at) => {
      if (step + packets.width - 1 >= first && step <= last) {
        found.set(packets.sender[at] * this.run.degree + packets.port[at], [packets.sender[at], packets.port[at]]);
      }
    });
    return [...found.values()];
  }

  lines(kind, arcs, width, tree) {
    const d = arcs.map(([sender, port]) => this.path(sender, port)).join("\n");
    return svgElement("path", { class: kind, d, "stroke-width": width.toFixed(2), ...(tree === undefined ? {} : { "data-tree": String(tree) }) });
  }

  /** The path of a link as the map has it; a straight line from rim to rim if the map has none. */
  path(sender, port) {
    const known = this.steps?.path(sender, port);
    if (known) return known;
    const { x, y, radius } = this.run, receiver = this.run.peer(sender, port);
    const dx = x[receiver] - x[sender], dy = y[receiver] - y[sender], length = Math.hypot(dx, dy) || 1;
    const [ux, uy] = [(radius * dx) / length, (radius * dy) / length], at = (value) => value.toFixed(1);
    return `M${at(x[sender] + ux)} ${at(y[sender] + uy)}L${at(x[receiver] - ux)} ${at(y[receiver] - uy)}`;
  }

  ring(kind, rank, size) {
    const { x, y, radius } = this.run;
    return svgElement("circle", {
      class: kind, cx: x[rank].toFixed(1), cy: y[rank].toFixed(1), r: Math.max(3, size * radius).toFixed(1), "data-rank": String(rank),
    });
  }
}
