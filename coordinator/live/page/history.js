// The steps of the run so far, and the state of every node after any of them.

const KEYFRAME = 64; // steps between two stored states: a step back replays at most this many

export class History {
  /** `goals`: by rank, the segments after which a node is done. */
  constructor(goals) {
    this.goals = goals;
    this.base = 0; // steps before the first frame that is known
    this.frames = [];
    this.keys = [this.empty()];
    this.latest = this.empty();
  }

  empty() {
    return { step: 0, gained: new Int32Array(this.goals.length), altered: new Int32Array(this.goals.length) };
  }

  /** The last step that is known. */
  get last() {
    return this.base + this.frames.length;
  }

  /** Add a frame, or the counts that stand for all frames before the next one. */
  add(frame) {
    if ("base" in frame) {
      this.base = frame.base;
      this.frames = [];
      this.latest = { step: frame.base, gained: Int32Array.from(frame.gained), altered: Int32Array.from(frame.altered) };
      this.keys = [copy(this.latest)];
      return;
    }
    this.frames.push(frame);
    apply(this.latest, frame);
    if (this.frames.length % KEYFRAME === 0) this.keys.push(copy(this.latest));
  }

  frame(step) {
    return this.frames[step - this.base - 1];
  }

  /** What each node has after `step`. */
  at(step) {
    if (step >= this.last) return this.latest;
    const state = copy(this.keys[Math.floor((step - this.base) / KEYFRAME)]);
    while (state.step < step) apply(state, this.frame(state.step + 1));
    return state;
  }

  /** How many nodes have everything, of those that are to have something. */
  done(state, skip) {
    let count = 0;
    for (let rank = 0; rank < this.goals.length; rank++) if (rank !== skip && state.gained[rank] >= this.goals[rank]) count++;
    return count;
  }
}

function copy({ step, gained, altered }) {
  return { step, gained: gained.slice(), altered: altered.slice() };
}

function apply(state, frame) {
  for (const name of ["gained", "altered"]) {
    const changes = frame[name];
    for (let at = 0; at < changes.length; at += 2) state[name][changes[at]] += changes[at + 1];
  }
  state.step = frame.step;
}

/** The faults in force in `step`: by rank the kind, and by "rank/port" of a directed link the kinds. */
export function inForce(faults, step) {
  const nodes = new Map(), links = new Map();
  for (const fault of faults) {
    if (fault.step > step) continue;
    const active = fault.last === undefined || step <= fault.last;
    if ("port" in fault) {
      const key = `${fault.rank}/${fault.port}`;
      if (fault.kind === "up") links.get(key)?.delete("down");
      else if (fault.kind === "heal") links.delete(key);
      else if (active) links.set(key, (links.get(key) ?? new Set()).add(fault.kind));
    } else if (fault.kind === "recover") nodes.delete(fault.rank);
    else if (active && nodes.get(fault.rank) !== "crash") nodes.set(fault.rank, fault.kind);
  }
  return { nodes, links };
}
