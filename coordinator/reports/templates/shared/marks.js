// The marks of nodes, on the maps of reports and of watched runs.

/** States of a vote, as `State` in coordinator/reports/scene/votes.py has them. */
export const VOTE = { open: 0, right: 1, split: 2, wrong: 3 };

/**
 * The state of a node with several votes, given how many of its segments are settled in each state, of how many a copy
 * arrived, and how many are due; undefined before a copy arrived.
 */
export function stateOf(settled, heard, due) {
  if (settled[VOTE.wrong]) return VOTE.wrong;
  if (settled[VOTE.split]) return VOTE.split;
  if (heard) return settled[VOTE.right] >= due ? VOTE.right : VOTE.open;
  return undefined;
}
