// The parts of the page beside the map: what is selected, the faults, and the claims.

import { element } from "/element.js";

const WORDS = {
  crash: "Crash", hang: "Hang", recover: "Recover", down: "Cut", up: "Reconnect", heal: "Heal",
  loss: "Lose packets", corrupt: "Corrupt packets", duplicate: "Duplicate packets", delay: "Delay packets", drop: "Drop one packet",
  byzantine: "Make byzantine", equivocate: "Forge differently for each neighbour", collude: "Forge where it wins a vote",
  silent: "Send nothing", "silent-ports": "Send nothing by some ports", "silent-segments": "Withhold some segments",
  selective: "Withhold some copies, forge others",
};
const FIRST = ["crash", "hang", "recover", "down", "up", "heal"]; // the others are under More
const MOVING = /^(steps|segments|packets|deliver|intact_deliveries|elected|waiting_nodes|repair|retransmissions|epochs)/; // what steps and faults change
const VALUES = {
  rate: ["probability, from 0 to 1", "1"], steps: ["by steps", "1"], packet: ["number of the packet, from now on", "1"],
};

/** The words on a button; the name of a kind that only a plug-in knows begins with a capital and has no hyphens. */
function wordsOf(kind) {
  return WORDS[kind] ?? (kind[0].toUpperCase() + kind.slice(1)).replaceAll("-", " ");
}

/** Buttons for every kind of fault of a node or a link, in two groups; `add` gets what the fault is, without its place. */
export function faultButtons(kinds, place, add) {
  const lasting = element("input", { class: "number", inputmode: "numeric", placeholder: "the end" });
  const button = ({ kind, values, lasts, meaning }) => {
    const inputs = values.map((value) => {
      const [words, initial] = VALUES[value] ?? [value, ""];
      return element("input", { class: "number", value: initial, "aria-label": `${wordsOf(kind)}: ${words}`, title: words });
    });
    const click = () => {
      const content = { kind };
      if (inputs.length) content.value = inputs.map((input) => input.value.trim()).join(":");
      if (lasts && lasting.value.trim()) content.steps = Number(lasting.value);
      add(content);
    };
    return element("span", { class: "fault" }, element("button", { click, title: meaning, "data-kind": kind }, wordsOf(kind)), ...inputs);
  };
  const here = kinds.filter(({ on }) => on === place), first = here.filter(({ kind }) => FIRST.includes(kind));
  const more = here.filter(({ kind }) => !FIRST.includes(kind)), group = (some) => element("div", { class: "faults" }, ...some.map(button));
  const timed = here.some(({ lasts }) => lasts) ? [element("label", {}, "for this many steps ", lasting)] : [];
  return element("div", {}, group(first), ...timed, ...(more.length ? [element("details", { id: "more" }, element("summary", {}, "More"), group(more))] : []));
}

/** The choice between both directions of a link and one of them; `read` tells what is chosen. */
export function directions(names, [one, other]) {
  const choice = element("select", { "aria-label": "Direction" },
    element("option", { value: "both" }, `${names[0]} ↔ ${names[1]}`),
    element("option", { value: "there" }, `only ${names[0]} → ${names[1]}`),
    element("option", { value: "back" }, `only ${names[1]} → ${names[0]}`));
  const read = () => ({ both: choice.value === "both", ...(choice.value === "back" ? other : one) });
  return [element("p", {}, choice), read];
}

export function listFaults(list, specs, faults, next) {
  const steps = faults.map((fault) => fault.step);
  list.replaceChildren(...specs.map((spec) => {
    // The faults of a specification all begin in the step that it names; without one, in step 1.
    const step = Number(/@(\d+)(-\d+)?$/.exec(spec)?.[1] ?? 1);
    const later = step >= next;
    return element("li", later ? { class: "later" } : {}, spec, later ? ` (takes effect in step ${step})` : "");
  }));
  if (!steps.length) list.replaceChildren(element("li", { class: "later" }, "none"));
}

/**
 * List the claims that steps and faults change, one for each metric, and whatever is violated; the others are folded.
 * `before` are predictions that a fault may have changed.
 */
export function listClaims(claims, { final = false, unjudged = "", before = [] } = {}) {
  const at = (id) => document.getElementById(id), text = ({ name, relation, predicted }) => `${name} ${relation} ${predicted}`;
  const known = new Set(before.map(text)), names = new Set();
  const row = ({ name, relation, predicted, measured, source, verdict }) => {
    const sign = { "==": "", "<=": "≤ ", ">=": "≥ " }[relation];
    const ruled = final ? ` ${{ holds: "✓", violated: "✗", undecided: "?" }[verdict]} ${verdict === "undecided" ? unjudged : verdict}` : "";
    return element("tr", { title: source },
      element("th", { scope: "row" }, name.replaceAll("_", " ")),
      element("td", known.size && !known.has(text({ name, relation, predicted })) ? { class: "new" } : {}, sign + show(predicted)),
      element("td", final ? { class: verdict } : {}, show(measured) + ruled));
  };
  const main = claims.filter((claim) => {
    const leads = MOVING.test(claim.name) && !names.has(claim.name);
    names.add(claim.name);
    return leads || claim.verdict === "violated";
  });
  const others = claims.filter((claim) => main.length && !main.includes(claim));
  at("claims").replaceChildren(...(main.length ? main : claims).map(row));
  at("other-claims").replaceChildren(...others.map(row));
  at("others").hidden = !others.length;
  at("others").firstElementChild.textContent = `${others.length} more claim${others.length === 1 ? "" : "s"}`;
}

function show(value) {
  if (value === null || value === undefined) return "–";
  if (Array.isArray(value)) return value.length > 8 ? `${value.slice(0, 8).join(", ")}, ..` : value.join(", ");
  return Number.isInteger(value) ? value.toLocaleString("en") : String(Number(value.toPrecision(6)));
}
