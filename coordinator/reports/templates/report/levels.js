// A tree drawn by levels: the root at the top, each node below its parent.

import { element, svgElement } from "../shared/element.js";
import { treeClass } from "./overlay.js";
import { nearest } from "../shared/viewport.js";

const LABELLED = 34; // leaves up to which nodes are labelled
const SEPARATE = 1200; // nodes up to which each is an element of its own

/** The level and the place across (0 to 1) of every node that the root reaches; undefined for others. */
function placed(run, root, tree) {
  const children = run.children(root, tree), start = run.trees.roots[root];
  const level = new Array(run.order), across = new Array(run.order), order = [];
  level[start] = 0;
  const stack = [start];
  while (stack.length) { // depth first, so that subtrees lie side by side
    const rank = stack.pop();
    order.push(rank);
    for (const child of children[rank].slice().reverse()) {
      if (level[child] === undefined) { level[child] = level[rank] + 1; stack.push(child); }
    }
  }
  let leaves = 0;
  for (const rank of order) if (!children[rank].length) across[rank] = leaves++ + 0.5;
  for (const rank of order.reverse()) {
    if (across[rank] !== undefined) continue;
    const places = children[rank].map((child) => across[child]);
    across[rank] = (Math.min(...places) + Math.max(...places)) / 2;
  }
  return { level, across: across.map((place) => place / Math.max(1, leaves)), leaves, height: Math.max(...order.map((rank) => level[rank])) };
}

/** The drawing of one tree; `pick(rank)` is called for a click, `colour(rank)` gives the colour of a node. */
export function levelDrawing(run, root, tree, { node, pick, colour, width }) {
  const { level, across, leaves, height } = placed(run, root, tree);
  const row = Math.max(16, Math.min(46, 300 / (height + 1))), bottom = row * (height + 1) + 6;
  const radius = Math.max(1.2, Math.min(7, 0.36 * (width - 20) / Math.max(1, leaves), 0.3 * row));
  const x = across.map((place) => 10 + place * (width - 20)), y = level.map((depth) => 10 + radius + depth * row);
  const line = (rank, { parent }) => `M${x[parent].toFixed(1)} ${y[parent].toFixed(1)}L${x[rank].toFixed(1)} ${y[rank].toFixed(1)}`;
  const reached = [...level.keys()].filter((rank) => level[rank] !== undefined);
  const arcs = (ranks) => ranks.map((rank) => [rank, run.parent(root, tree, rank)]).filter(([rank, arc]) => arc && level[rank] !== undefined)
    .map(([rank, arc]) => line(rank, arc)).join("");
  const drawing = svgElement("svg", {
    class: "levels", viewBox: `0 0 ${width} ${bottom.toFixed(0)}`, role: "img", "data-tree": String(tree),
    "aria-label": `Tree ${tree + 1} by levels: ${reached.length} nodes on ${height + 1} levels`,
  });
  drawing.append(svgElement("path", { class: `whole ${treeClass(tree)}`, d: arcs(reached), "stroke-width": "1" }));
  if (node >= 0) {
    drawing.append(svgElement("path", { class: `branch ${treeClass(tree)}`, d: arcs(run.subtree(root, tree, node)), "stroke-width": "2" }));
    drawing.append(svgElement("path", { class: `route ${treeClass(tree)}`, d: arcs(run.path(root, tree, node)), "stroke-width": "3" }));
  }
  if (reached.length <= SEPARATE) {
    for (const rank of reached) {
      const dot = { class: "dot", cx: x[rank].toFixed(1), cy: y[rank].toFixed(1), r: radius.toFixed(1), "data-rank": String(rank) };
      drawing.append(svgElement("circle", { ...dot, fill: colour(rank) ?? "var(--paper)" }, svgElement("title", {}, run.labels[rank])));
    }
  } else {
    const side = radius.toFixed(1);
    drawing.append(svgElement("path", {
      class: "dots", d: reached.map((rank) => `M${(x[rank] - radius / 2).toFixed(1)} ${(y[rank] - radius / 2).toFixed(1)}h${side}v${side}h-${side}z`).join(""),
    }));
  }
  if (level[node] !== undefined) {
    drawing.append(svgElement("circle", { class: "selected", cx: x[node].toFixed(1), cy: y[node].toFixed(1), r: (radius + 3).toFixed(1) }));
  }
  const longest = Math.max(...reached.map((rank) => run.labels[rank].length));
  if (leaves <= LABELLED && longest * 6.2 * leaves < width) {
    for (const rank of reached) {
      drawing.append(svgElement("text", { x: x[rank].toFixed(1), y: (y[rank] + radius + 10).toFixed(1), "text-anchor": "middle" }, run.labels[rank]));
    }
  }
  drawing.addEventListener("click", (event) => {
    const box = drawing.getBoundingClientRect(), unit = width / box.width;
    const rank = nearest(x, y, (event.clientX - box.left) * unit, (event.clientY - box.top) * unit, 30);
    if (rank >= 0) pick(rank);
  });
  const missing = run.order - reached.length;
  const words = `Tree ${tree + 1}: height ${height}` + (missing ? `, ${missing.toLocaleString("en")} nodes not connected to the root` : "");
  return element("figure", {}, drawing, element("figcaption", {}, words));
}
