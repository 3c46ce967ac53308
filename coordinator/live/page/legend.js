// The legend: a swatch and a word for each thing that is on the picture now.

import { VOTE } from "/marks.js";
import { element, svgElement } from "/element.js";

const MOST_STEPS = 12; // steps with a swatch of their own; more become a scale

/** Entries for a scene of `map`: only what it shows. */
export function legend(map, picture) {
  const { scene, colours } = map, seen = seenOn(map, picture);
  const swatch = (...shapes) => svgElement("svg", { viewBox: "-10 -10 20 20", "aria-hidden": "true" }, ...shapes);
  const disc = (fill, more = {}) => svgElement("circle", { r: 8, fill, stroke: colours.muted, ...more });
  const line = (colour, more = {}) => svgElement("path", { d: "M-10 0H10", stroke: colour, "stroke-width": 4, fill: "none", ...more });
  const shape = (d, colour) => svgElement("path", { d, stroke: colour, "stroke-width": 2.6, fill: "none" });
  const verb = picture.giving ? "sent" : "arrived", entries = [];
  const add = (words, ...shapes) => entries.push(element("span", {}, swatch(...shapes), words));
  if (picture.root !== null) add(picture.giving ? "target" : "source", disc(colours.ink, { r: 6 }), svgElement("circle", { r: 9, fill: "none", stroke: colours.ink, "stroke-width": 2 }));
  if (scene.votes) {
    const words = { open: "the vote is open", right: "right value", split: "no majority", wrong: "wrong value" };
    if (seen.votes.has(undefined)) add("nothing yet", disc(colours.paper));
    for (const [name, state] of Object.entries(VOTE)) if (seen.votes.has(state)) add(words[name], disc(map.voteColours[state]));
  } else {
    if (seen.nothing) add("nothing yet", disc(colours.paper));
    if (seen.steps.length) entries.push(ramp(seen.steps, map, verb));
    const shade = map.stepColour(scene.step);
    if (seen.part && picture.pies) add("the share that a node has", disc(colours.paper), svgElement("path", { d: "M0 0V-8A8 8 0 0 1 8 0z", fill: shade }));
    else if (seen.part) add("pale: not all yet", disc(shade, { "fill-opacity": 0.5 }));
  }
  const { crash, hang, other } = seen.broken;
  if (crash) add("crashed", shape("M-7-7L7 7M7-7L-7 7", colours.red));
  if (hang) add("hung", shape("M-4-8V8M4-8V8", colours.red));
  if (other.length) add(other.join(" or "), disc(colours.purple, { r: 5 }), shape("M0-10L10 0L0 10L-10 0z", colours.purple));
  if (seen.arcs.flow) add("packet", line(colours.blue));
  if (seen.arcs.altered) add("altered packet", line(colours.purple));
  if (seen.arcs.lost) add("lost packet", line(colours.red, { "stroke-dasharray": "5 3" }));
  if (scene.frame?.withheld.length) add("packet withheld", disc(colours.paper, { r: 5, stroke: colours.grey, "stroke-width": 3 }));
  if (seen.broken.down) add("cut link", line(colours.red, { "stroke-dasharray": "2 4" }));
  if (seen.broken.faultyLink) add("faulty link", line(colours.orange, { "stroke-dasharray": "2 4" }));
  return entries;
}

/** What is on the picture, by kind. */
function seenOn({ scene }, picture) {
  const { state, frame, broken } = scene, votes = new Set(), steps = new Set();
  let nothing = false, part = false;
  for (let rank = 0; rank < picture.order; rank++) {
    if (rank === picture.root || !["crash", "hang", undefined].includes(broken.nodes.get(rank))) continue;
    if (scene.votes) votes.add(scene.votes(rank));
    else if (!state.gained[rank]) nothing = true;
    else {
      if (state.gained[rank] < picture.goals[rank]) part = true;
      steps.add(picture.pies ? scene.step : state.when[rank]);
    }
  }
  const arcs = { flow: false, altered: false, lost: false }, list = frame?.arcs ?? [];
  for (let at = 0; at < list.length; at += 6) {
    const [segments, lost, altered] = list.slice(at + 3, at + 6);
    arcs[lost === segments ? "lost" : altered ? "altered" : "flow"] = true;
  }
  const kinds = new Set(broken.nodes.values()), links = [...broken.links.values()];
  return {
    nothing, part, votes, arcs, steps: [...steps].sort((one, other) => one - other),
    broken: {
      crash: kinds.has("crash"), hang: kinds.has("hang"), other: [...kinds].filter((kind) => !["crash", "hang"].includes(kind)),
      down: links.some((each) => each.has("down")), faultyLink: links.some((each) => !each.has("down")),
    },
  };
}

/** A square for each step in which something arrived, or its scale. */
function ramp(steps, map, verb) {
  const few = steps.length <= MOST_STEPS, shown = few ? steps : Array.from({ length: MOST_STEPS }, (_, at) => steps[Math.floor(at * (steps.length - 1) / (MOST_STEPS - 1))]);
  const squares = shown.map((step, at) => svgElement("rect", { x: 20 * at, y: -10, width: 20, height: 20, fill: map.stepColour(step) }));
  const [first, last] = [steps[0], steps.at(-1)];
  return element("span", {}, svgElement("svg", { class: "ramp", viewBox: `0 -10 ${20 * shown.length} 20`, "aria-hidden": "true" }, ...squares),
    `${verb} in step ${first === last ? first : `${first} to ${last}`}`);
}
