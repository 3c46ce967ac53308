// A run, or one of its branches: the packets of each step, and what every node has after it.

/** The data of the page, from base64 of gzip of JSON. */
export async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

/** The rows of the run, or of a branch: arrays with the values of `data.fields`. */
export function rowsOf(data, branch = null) {
  const kept = [], changed = new Map();
  for (let at = 0, row = -1; branch && at < branch.changes.length; at += 2) {
    row += branch.changes[at];
    changed.set(row, branch.changes[at + 1]);
  }
  rows(data.run).forEach((row, number) => {
    const outcome = changed.get(number) ?? row.at(-1);
    if (outcome >= 0) kept.push([...row.slice(0, -1), outcome]);
  });
  return branch ? [...kept, ...rows(branch.added)] : kept;
}

function rows(columns) {
  return Array.from(columns[0] ?? [], (_, row) => columns.map((column) => column[row]));
}

export class Story {
  constructor(data, picture, branch = null) {
    this.judged = (branch ?? data).judged;
    this.order = picture.labels.length;
    this.due = new Set(this.judged.due);
    const silent = new Set(this.judged.silent), place = Object.fromEntries(data.fields.map((name, at) => [name, at]));
    /** By step, from 1: the packets on links, each with its segments, all and lost. */
    this.packets = [[]];
    /** By step: the node of each segment that a node has from then on. */
    this.gains = [[]];
    for (const row of rowsOf(data, branch)) {
      const [step, sender, port, receiver, origin, tree] = ["step", "sender", "port", "receiver", "origin", "tree"].map((name) => row[place[name]]);
      const outcome = data.outcomes[row[place.outcome]];
      while (this.packets.length <= step) { this.packets.push([]); this.gains.push([]); }
      if (outcome === "report" || outcome === "withheld") continue; // nothing is on a link
      let packet = this.packets[step].find((each) => each.sender === sender && each.port === port);
      if (!packet) this.packets[step].push(packet = { sender, port, segments: 0, lost: 0 });
      packet.segments++;
      if (outcome === "lost") packet.lost++;
      if (tree >= data.firstOther) continue; // a message of a protocol
      if (picture.giving ? outcome !== "lost" : outcome === "first" && !silent.has(origin)) this.gains[step].push(picture.giving ? sender : receiver);
    }
  }

  /** The last step with packets. */
  get steps() {
    return this.packets.length - 1;
  }

  /** What nodes have after a step: by rank the segments, and the step of the last one; and how many nodes have all. */
  after(step) {
    const have = new Array(this.order).fill(0), when = new Array(this.order).fill(0);
    for (let at = 1; at <= Math.min(step, this.steps); at++) {
      for (const rank of this.gains[at]) { have[rank]++; when[rank] = at; }
    }
    const done = this.judged.due.filter((rank) => have[rank] >= this.judged.goals[rank]).length;
    return { have, when, done, share: (rank) => Math.min(1, have[rank] / this.judged.goals[rank]) };
  }
}
