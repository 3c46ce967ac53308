// The answers about the selected node.

import { element } from "../shared/element.js";
import { chosenTrees, treeClass } from "./overlay.js";
import { lanes, pathDiagram } from "./timeline.js";

const MOST_LISTED = 60;
const MOST_CHILDREN = 24;
const WORDS = { first: "first copy", duplicate: "duplicate", corrupt: "altered", lost: "lost", relay: "to pass on" };

const many = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

/** Fill `panel` for the node of `state`; `pick(rank)` selects another node, `close()` none. */
export function describeNode(panel, run, state, { pick, close, step, last }) {
  const { node, root } = state;
  const title = element("h3", {}, `Node ${run.labels[node]} `, element("span", { class: "quiet" }, `rank ${node}`));
  const button = element("button", { type: "button", class: "close", "aria-label": "Close: select no node", click: close }, "×");
  const parts = [element("div", { class: "title" }, title, button), element("ul", { class: "facts" }, ...facts(run, node, step).map((line) => element("li", {}, line)))];
  const link = (rank) => element("button", { type: "button", class: "node-link", "data-rank": String(rank), click: () => pick(rank) }, run.labels[rank]);
  parts.push(portTable(run, node, link));
  if (run.trees) parts.push(treeTable(run, root, node, chosenTrees(run, state.tree), link));
  if (run.packets) {
    parts.push(...packetTables(run, node, link));
    const width = Math.max(280, panel.clientWidth - 2), charts = element("div", { class: "charts" }, lanes(run, node, width, last));
    const diagram = run.trees && pathDiagram(run, root, chosenTrees(run, state.tree), node, width, last);
    if (diagram) charts.append(diagram);
    parts.push(charts);
  }
  panel.replaceChildren(...parts);
}

/** What is known of a node in sentences, after `step` (Infinity: after the run). */
function facts(run, node, step) {
  const lines = [], { nodes } = run, when = step === Infinity ? "In the whole run" : `After step ${step}`;
  if (run.packets && (run.packets.width === 1 || step === Infinity)) {
    lines.push(`${when}: ${many(run.segmentsAt(node, step), "segment")} ${run.giving ? "sent" : "received for the first time"}.`);
  }
  if (nodes && nodes.first_step[node] > 0) {
    lines.push(`First arrival in step ${nodes.first_step[node]}, last in step ${nodes.last_step[node]}.`);
  } else if (nodes && !run.giving) lines.push(nodes.expected[node] > 0 ? "Nothing arrived." : "Nothing was due to it.");
  for (const fault of run.faultsOf(node)) {
    const where = fault.rank === node ? "" : ` on link ${fault.where}`;
    const kind = fault.kind[0].toUpperCase() + fault.kind.slice(1);
    lines.push(`${step < fault.step ? "Later: " : ""}${kind}${where} from step ${fault.step}` + (fault.words ? ` (${fault.words})` : "") + ".");
  }
  if (node in run.cutOff) lines.push(run.cutOff[node] ? `${run.unserved} by ${run.cutOff[node]}.` : `${run.unserved}: it did not receive everything due.`);
  if (nodes && nodes.states[nodes.state[node]] !== "alive") lines.push(`State at the end: ${nodes.states[nodes.state[node]]}.`);
  return lines;
}

function table(caption, heads, rows) {
  return element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption }, element("table", {},
    element("caption", {}, caption),
    element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", { scope: "col" }, head)))),
    element("tbody", {}, ...rows.map(({ cells, ...attributes }) => element("tr", attributes, ...cells.map((cell) => element("td", {}, ...[cell].flat())))))));
}

function portTable(run, node, link) {
  const sum = (entries, port) => {
    let total = 0;
    for (const at of entries) if (port(at)) total += run.packets.segments[at];
    return total.toLocaleString("en");
  };
  const rows = run.ports(node).map(({ port, peer }) => {
    const cells = [String(port), link(peer)];
    if (run.packets) {
      const { sender, port: by } = run.packets;
      const arrived = (at) => run.packets.outcomes[run.packets.outcome[at]] !== "lost";
      cells.push(sum(run.received(node), (at) => arrived(at) && run.backPort(sender[at], by[at]) === port), sum(run.sent(node), (at) => by[at] === port));
    }
    return { "data-port": String(port), cells };
  });
  return table("Ports (segments in the whole run)", ["port", "neighbour", ...(run.packets ? ["received", "sent"] : [])], rows);
}

function treeTable(run, root, node, trees, link) {
  const rows = trees.map((tree) => {
    const arc = run.parent(root, tree, node), children = run.children(root, tree)[node];
    const shown = children.slice(0, MOST_CHILDREN).flatMap((child) => [link(child), " "]);
    if (children.length > shown.length / 2) shown.push(`and ${children.length - MOST_CHILDREN} more`);
    const key = element("span", { class: `swatch ${treeClass(tree)}`, "aria-hidden": "true" });
    return {
      "data-tree": String(tree),
      cells: [[key, String(tree + 1)], arc ? [link(arc.parent), arc.how ? ` (${arc.how})` : ""] : "none", shown.length ? shown : "none",
        String(run.path(root, tree, node).length - 1), String(run.subtree(root, tree, node).length)],
    };
  });
  const of = run.trees.roots[root], caption = `Trees of ${run.labels[of]}`;
  return table(caption, ["tree", "parent", "children", "level", "below it"], rows);
}

function packetTables(run, node, link) {
  const { packets } = run, summed = packets.width > 1;
  const rows = (entries, peer, port) => Array.from(entries.subarray(0, MOST_LISTED), (at) => ({
    cells: [run.stepsOf(at), link(peer(at)), String(port(at)), ...(summed ? [] : [String(packets.tree[at] + 1)]),
      String(packets.segments[at]), WORDS[packets.outcomes[packets.outcome[at]]] ?? "other"],
  }));
  const heads = (end) => ["step", end, "port", ...(summed ? [] : ["tree"]), "segments", "outcome"];
  const more = (entries) => entries.length > MOST_LISTED ? [element("p", { class: "quiet" }, `and ${many(entries.length - MOST_LISTED, "later row")}`)] : [];
  const part = (id, words, entries, end, peer, port) => element("details", entries.length && id === "came" ? { open: true, id } : { id },
    element("summary", {}, `${words}: ${entries.length.toLocaleString("en")}${summed ? " rows" : ""}`),
    ...(entries.length ? [table(words, heads(end), rows(entries, peer, port))] : []), ...more(entries));
  return [
    part("came", "Packets sent to it", run.received(node), "from", (at) => packets.sender[at], (at) => run.backPort(packets.sender[at], packets.port[at])),
    part("left", "Packets sent by it", run.sent(node), "to", (at) => packets.receiver[at], (at) => packets.port[at]),
  ];
}
