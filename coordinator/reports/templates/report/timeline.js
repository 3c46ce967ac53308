// What happened at one node over the steps: one lane per port, and the packets along its paths.

import { svgElement } from "../shared/element.js";
import { treeClass } from "./overlay.js";

const LANE = 18, TOP = 20, RIGHT = 8;
const MOST_ROWS = 40;
const LETTER = 6.4; // width of a letter

/** A label, its middle left out if it is wider than `room`. */
function shortened(label, room) {
  const most = Math.max(5, Math.floor(room / LETTER)), end = Math.floor(most / 2);
  return label.length <= most ? label : `${label.slice(0, most - end - 1)}…${label.slice(-end)}`;
}

function axis(parts, { left, width, bottom, last, title }) {
  parts.push(svgElement("text", { class: "title", x: "4", y: "13" }, title));
  const count = width < 420 ? 3 : 6, every = Math.max(1, Math.ceil(last / count));
  const x = (step) => left + ((step - 1) * (width - left - RIGHT)) / last;
  for (let step = 1; step <= last; step += every) {
    parts.push(svgElement("text", { class: "middle", x: x(step + 0.5).toFixed(1), y: String(bottom + 13) }, String(step)));
  }
  return x;
}

function chart(width, bottom, label, parts) {
  const attributes = { class: "chart", width: String(width), height: String(bottom + 18), viewBox: `0 0 ${width} ${bottom + 18}`, role: "img", "aria-label": label };
  return svgElement("svg", attributes, ...parts);
}

/** The packets that a node received (above) and sent (below) by each port, over the steps. */
export function lanes(run, node, width, last) {
  const ports = run.ports(node), left = 60, parts = [], { packets } = run;
  const bottom = TOP + LANE * ports.length;
  const title = `Node ${run.labels[node]} by port: received above the line, sent below`;
  const name = `Node ${shortened(run.labels[node], width / 3)} by port`;
  const x = axis(parts, { left, width, bottom, last, title: width < 640 ? name : `${name}: received above the line, sent below` });
  const row = new Map(ports.map(({ port }, at) => [port, TOP + LANE * at + LANE / 2]));
  parts.push(svgElement("path", { class: "axis", d: [...row.values()].map((y) => `M${left} ${y}H${width - RIGHT}`).join("") }));
  for (const { port, peer } of ports) {
    parts.push(svgElement("text", { class: "end", x: String(left - 5), y: String(row.get(port) + 4) }, svgElement("title", {}, run.labels[peer]), `port ${port}`));
  }
  const most = Math.max(1, ...[...run.received(node), ...run.sent(node)].map((at) => packets.segments[at]));
  const bar = (at, port, kind, up) => {
    const from = x(packets.step[at]), to = x(Math.min(last + 1, packets.step[at] + packets.width));
    const height = 2 + 5 * packets.segments[at] / most, y = row.get(port) - (up ? height : 0);
    const tip = `step ${run.stepsOf(at)}: ${packets.segments[at]} ${kind}, port ${port}`;
    parts.push(svgElement("rect", {
      class: `bar ${kind}`, x: from.toFixed(1), y: y.toFixed(1), width: Math.max(1.2, to - from - 1).toFixed(1), height: height.toFixed(1),
    }, svgElement("title", {}, tip)));
  };
  for (const at of run.received(node)) bar(at, run.backPort(packets.sender[at], packets.port[at]), packets.outcomes[packets.outcome[at]], true);
  for (const at of run.sent(node)) {
    const outcome = packets.outcomes[packets.outcome[at]];
    bar(at, packets.port[at], ["lost", "corrupt"].includes(outcome) ? outcome : "sent", false);
  }
  return chart(width, bottom, title, parts);
}

/** Space and time of the nodes on the paths to a node: packets between them, over the steps. */
export function pathDiagram(run, root, trees, node, width, last) {
  const { packets } = run, paths = trees.map((tree) => run.path(root, tree, node));
  const rows = [...new Set(paths.flat())].slice(0, MOST_ROWS), of = new Map(rows.map((rank, at) => [rank, at]));
  if (rows.length < 2) return null;
  const letters = Math.max(...rows.map((rank) => run.labels[rank].length)), left = Math.min(width / 3, 14 + LETTER * letters);
  const bottom = TOP + LANE * rows.length, parts = [], y = (rank) => TOP + LANE * of.get(rank) + LANE / 2;
  const title = `Packets along the paths to ${run.labels[node]}`;
  const x = axis(parts, { left, width, bottom, last, title: `Packets along the paths to ${shortened(run.labels[node], width / 3)}` });
  parts.push(svgElement("path", { class: "axis", d: rows.map((rank) => `M${left} ${y(rank)}H${width - RIGHT}`).join("") }));
  for (const rank of rows) {
    parts.push(svgElement("text", { class: rank === node ? "end strong" : "end", x: (left - 5).toFixed(1), y: String(y(rank) + 4) },
      svgElement("title", {}, run.labels[rank]), shortened(run.labels[rank], left - 14)));
  }
  const onPath = new Map();
  trees.forEach((tree, at) => paths[at].slice(1).forEach((rank) => {
    const [sender, port] = run.arc(rank, run.parent(root, tree, rank));
    onPath.set(`${sender}/${port}/${packets.width === 1 ? tree : -1}`, tree);
  }));
  const lines = new Map(), crosses = [];
  for (const rank of rows) {
    for (const at of run.sent(rank)) {
      const treeOfArc = onPath.get(`${rank}/${packets.port[at]}/${packets.tree[at]}`);
      const peer = packets.receiver[at];
      if (treeOfArc === undefined || !of.has(peer)) continue;
      const outcome = packets.outcomes[packets.outcome[at]], lost = outcome === "lost";
      const kind = lost ? "missing" : outcome === "corrupt" ? "altered" : treeClass(treeOfArc);
      const end = x(Math.min(last + 1, packets.step[at] + packets.width));
      lines.set(kind, `${lines.get(kind) ?? ""}M${x(packets.step[at]).toFixed(1)} ${y(rank)}L${end.toFixed(1)} ${y(peer)}`);
      if (lost) crosses.push(`M${(end - 3).toFixed(1)} ${y(peer) - 3}l6 6m0 -6l-6 6`);
    }
  }
  for (const [kind, d] of lines) parts.push(svgElement("path", { class: `packet ${kind}`, d }));
  if (crosses.length) parts.push(svgElement("path", { class: "packet missing solid", d: crosses.join("") }));
  return chart(width, bottom, title, parts);
}
