// The steps of the run so far, and the state of every node after any of them: what it has, and since which step.

import { stateOf, VOTE } from "/marks.js";

const STATES = Object.keys(VOTE).length;
const KEYFRAME = 64; // steps between two stored states: a step back replays at most this many

export class History {
  /** By rank: `goals`, the segments after which a node is done; `due`, those whose votes are its. */
  constructor(goals, due) {
    [this.goals, this.due] = [goals, due];
    this.contested = false; // whether some copy may be forged
    this.closing = null; // votes that were open until the end of the run
    this.base = 0; // steps before the first frame that is known
    this.frames = [];
    this.keys = [this.empty()];
    this.latest = this.empty();
  }

  empty() {
    const count = this.goals.length, [gained, when, altered, heard, settled] = [1, 1, 1, 1, STATES].map((each) => new Int32Array(count * each));
    return { step: 0, gained, when, altered, heard, settled, votes: false, fresh: new Set() };
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
      const arrays = ["gained", "altered", "heard"].map((name) => [name, Int32Array.from(frame[name])]);
      this.latest = {
        ...this.empty(), step: frame.base, ...Object.fromEntries(arrays), settled: Int32Array.from(frame.votes.flat()),
        when: Int32Array.from(frame.gained, (count) => count && frame.base),
        votes: frame.altered.some(Boolean),
      };
      this.keys = [copy(this.latest)];
      return;
    }
    if ("closing" in frame) {
      this.closing = frame;
      apply(this.latest, frame);
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

  /** Whether the run has votes to show: a copy was altered in it, or may be (`contested`), and votes are counted up to `state`. */
  showsVotes(state) {
    return (this.contested || this.latest.votes) && state.counted !== false;
  }

  /** The state of a node by its votes; undefined before a copy arrived. */
  state({ settled, heard }, rank) {
    return stateOf(settled.subarray(rank * STATES, rank * STATES + STATES), heard[rank], this.due[rank]);
  }

  /** How many nodes have everything, of those that `counts` names. */
  done(state, counts) {
    let count = 0;
    for (let rank = 0; rank < this.goals.length; rank++) if (counts(rank) && state.gained[rank] >= this.goals[rank]) count++;
    return count;
  }

  /** How many nodes are in each state of a vote, of those that `counts` names. */
  voted(state, counts) {
    const found = Object.fromEntries(Object.keys(VOTE).map((name) => [name, 0])), names = Object.keys(VOTE);
    for (let rank = 0; rank < this.goals.length; rank++) {
      const vote = this.state(state, rank);
      if (counts(rank) && vote !== undefined) found[names[vote]]++;
    }
    return found;
  }
}

function copy(state) {
  const { gained, when, altered, heard, settled } = state;
  return { ...state, gained: gained.slice(), when: when.slice(), altered: altered.slice(), heard: heard.slice(), settled: settled.slice(), fresh: new Set() };
}

/** Add the counts of a frame; without counted votes, every segment that a node gains is the right value. */
function apply(state, frame) {
  const { gained, altered, heard, votes } = frame;
  add(state.gained, gained);
  add(state.altered, altered);
  add(state.heard, heard ?? gained);
  const settled = votes ?? gained.flatMap((value, at) => (at % 2 ? [VOTE.right, value] : [value]));
  for (let at = 0; at < settled.length; at += 3) state.settled[settled[at] * STATES + settled[at + 1]] += settled[at + 2];
  if (altered.length) state.votes = true;
  state.counted = votes !== null || !state.votes;
  const changes = state.votes ? settled.filter((_, at) => at % 3 === 0) : gained.filter((_, at) => at % 2 === 0);
  state.fresh = new Set(changes);
  if (!("step" in frame)) return;
  state.step = frame.step;
  for (let at = 0; at < gained.length; at += 2) state.when[gained[at]] = frame.step;
}

function add(counts, changes) {
  for (let at = 0; at < changes.length; at += 2) counts[changes[at]] += changes[at + 1];
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
