// The recorded run: ports, packets, trees and states of nodes.

import { unpack } from "./packing.js";

const HOW = ["", "lost", "unused"]; // what is known of the arc to a parent beyond an arrival

export class RunData {
  constructor(answers) {
    Object.assign(this, answers);
    this.order = this.labels.length;
    this.x = Float64Array.from(unpack(answers.x), (value) => value / 10);
    this.y = Float64Array.from(unpack(answers.y), (value) => value / 10);
    this.ranks = new Map(this.labels.map((label, rank) => [label, rank]));
    this.peers = unpack(answers.ends.peers);
    this.backPorts = unpack(answers.ends.ports);
    if (answers.nodes) {
      const { states, ...columns } = answers.nodes;
      this.nodes = { states };
      for (const [name, text] of Object.entries(columns)) this.nodes[name] = unpack(text);
    }
    if (answers.packets) this.readPackets(answers.packets);
    if (answers.trees) {
      const { roots, count, up, parents } = answers.trees;
      this.trees = { roots, count, up, parents: unpack(parents) };
    }
  }

  readPackets({ width, last, outcomes, steps, counts, ...columns }) {
    const packets = { width, last, outcomes };
    const times = unpack(counts), many = times.reduce((sum, count) => sum + count, 0);
    for (const [name, column] of Object.entries(columns)) {
      packets[name] = typeof column === "string" ? unpack(column) : new Int32Array(many).fill(column);
    }
    packets.step = new Int32Array(many);
    let next = 0;
    unpack(steps).forEach((step, at) => packets.step.fill(step, next, (next += times[at])));
    packets.receiver = packets.sender.map((sender, at) => this.peer(sender, packets.port[at]));
    this.packets = packets;
    this.received = byNode(packets.receiver, this.order);
    this.sent = byNode(packets.sender, this.order);
  }

  peer(rank, port) {
    return this.peers[rank * this.degree + port];
  }

  backPort(rank, port) {
    return this.backPorts[rank * this.degree + port];
  }

  /** The ports of a node: [{port, peer, backPort}]. */
  ports(rank) {
    const found = [];
    for (let port = 0; port < this.degree; port++) {
      if (this.peer(rank, port) >= 0) found.push({ port, peer: this.peer(rank, port), backPort: this.backPort(rank, port) });
    }
    return found;
  }

  /** The steps of an entry of `packets` in words. */
  stepsOf(at) {
    const { step, width, last } = this.packets;
    return width === 1 ? String(step[at]) : `${step[at]} to ${Math.min(last, step[at] + width - 1)}`;
  }

  /** Segments that first reached a node (in a collective towards a target: that it sent) up to `step`. */
  segmentsAt(rank, step) {
    const { packets } = this, entries = (this.giving ? this.sent : this.received)(rank);
    let sum = 0;
    for (const at of entries) {
      if (packets.step[at] <= step && (this.giving || packets.outcomes[packets.outcome[at]] === "first")) sum += packets.segments[at];
    }
    return sum;
  }

  // --- trees; `root` is an index into `trees.roots`

  /** The arc between a node and its parent: {parent, port, how}, or null at the root and where none is known. */
  parent(root, tree, rank) {
    const { count, parents } = this.trees;
    const value = parents[(root * count + tree) * this.order + rank];
    if (value < 0) return null;
    const port = Math.floor(value / 3);
    return { parent: this.peer(rank, port), port, how: HOW[value % 3] };
  }

  /** [sender, port] of the packets between a node and its parent. */
  arc(rank, { parent, port }) {
    return this.trees.up ? [rank, port] : [parent, this.backPort(rank, port)];
  }

  /** The nodes from the root to `rank`, both included; from the first known ancestor if the path does not reach the root. */
  path(root, tree, rank) {
    const path = [rank];
    for (let arc; (arc = this.parent(root, tree, path[0])) && path.length <= this.order;) path.unshift(arc.parent);
    return path;
  }

  /** By rank, the children in a tree. */
  children(root, tree) {
    const key = `${root}/${tree}`;
    this.known ??= new Map();
    if (!this.known.has(key)) {
      const children = Array.from({ length: this.order }, () => []);
      for (let rank = 0; rank < this.order; rank++) {
        const arc = this.parent(root, tree, rank);
        if (arc) children[arc.parent].push(rank);
      }
      this.known.set(key, children);
    }
    return this.known.get(key);
  }

  /** The nodes below `rank`, without itself. */
  subtree(root, tree, rank) {
    const children = this.children(root, tree), below = [...children[rank]], seen = new Set([rank, ...below]);
    for (let at = 0; at < below.length; at++) {
      for (const child of children[below[at]]) if (!seen.has(child)) { seen.add(child); below.push(child); }
    }
    return below;
  }

  // --- faults

  /** Faults of a node or of one of its links. */
  faultsOf(rank) {
    return this.faults.filter((fault) => fault.rank === rank || fault.sender === rank
      || ("port" in fault && this.peer(fault.sender, fault.port) === rank));
  }
}

/** A function from a node to the entries that have it as an end, in the order of steps. */
function byNode(ends, order) {
  const starts = new Int32Array(order + 1), entries = new Int32Array(ends.length);
  for (const rank of ends) starts[rank + 1]++;
  for (let rank = 0; rank < order; rank++) starts[rank + 1] += starts[rank];
  const next = starts.slice();
  ends.forEach((rank, at) => { entries[next[rank]++] = at; });
  return (rank) => entries.subarray(starts[rank], starts[rank + 1]);
}
