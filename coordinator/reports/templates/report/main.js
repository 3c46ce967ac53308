// The state of the page, in one place: everything that is shown follows from it.

import { beside, nearest, Viewport } from "../shared/viewport.js";
import { levelDrawing } from "./levels.js";
import { describeNode } from "./node_panel.js";
import { chosenTrees, Overlay } from "./overlay.js";
import { RunData } from "./run_data.js";
import { saveSvg, savePng } from "./save.js";
import { stepView } from "./steps.js";
import { zoomTimes } from "./zoom.js";

const REACH = 14; // pixels around a node that count as a click on it
const WRITE_AFTER = 250; // milliseconds until the address follows: browsers limit how often it may change
const MOST_DRAWN = 8; // level drawings at once

const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const map = $("map"), slider = $("slider");
const steps = slider ? stepView(data) : null;
const run = data.answers ? new RunData(data.answers) : null;
const overlay = run && new Overlay(map, run, steps);
const lastStep = steps ? data.last[data.last.length - 1] : 0;
// Until the reader chooses, the whole run of a tangled map is its first tree: `treeFirst`.
let treeFirst = Boolean(steps?.tangled && run?.trees);
const state = { frame: -1, node: -1, tree: "traffic", root: 0, links: false, levels: false };
let timer = 0, writer = 0, known = location.hash;

// --- what is shown

function show() {
  if (steps) {
    steps.show(state.frame);
    $("whole").setAttribute("aria-pressed", state.frame < 0);
    $("now").textContent = steps.text(state.frame);
    if (state.frame >= 0) slider.value = state.frame + 1;
    slider.setAttribute("aria-valuetext", state.frame < 0 ? "whole run" : `step ${data.names[state.frame]}`);
  }
  if (!run) return;
  const { frame, node, root } = state, isFirst = treeFirst && frame < 0 && node < 0;
  const tree = isFirst ? 0 : state.tree;
  if (isFirst) $("now").textContent += "; drawn is tree 1";
  const links = state.links && run.packets ? frame < 0 ? [1, lastStep] : [data.first[frame], data.last[frame]] : null;
  overlay.draw({ choice: tree, root, node, links });
  for (const button of document.querySelectorAll("[data-choice]")) button.setAttribute("aria-pressed", button.dataset.choice === String(tree));
  $("links-on-map")?.setAttribute("aria-pressed", state.links);
  $("show-levels")?.setAttribute("aria-pressed", state.levels);
  if ($("root") && run.trees) $("root").value = String(root);
  $("stage").classList.toggle("split", node >= 0 || state.levels);
  $("node").hidden = node < 0;
  if (node >= 0) {
    const opened = [...$("node").querySelectorAll("details")].map(({ id, open }) => [id, open]);
    const step = frame < 0 ? Infinity : data.last[frame];
    describeNode($("node"), run, state, { pick: (rank) => select(rank, true), close: () => select(-1), step, last: lastStep });
    for (const [id, open] of opened) if ($(id)) $(id).open = open;
  }
  showLevels();
  clearTimeout(writer);
  writer = setTimeout(writeAddress, WRITE_AFTER);
}

function showLevels() {
  const place = $("levels");
  if (!place) return;
  place.hidden = !state.levels;
  if (!state.levels) return;
  const trees = chosenTrees(run, state.tree).slice(0, MOST_DRAWN), width = Math.max(260, Math.round(place.clientWidth) - 2);
  place.replaceChildren(...trees.map((tree) => levelDrawing(run, state.root, tree, {
    node: state.node, pick: select, colour: steps?.colour ?? (() => null), width,
  })));
}

/** Select a node, or none if it is -1; `follow` moves the focus to it. */
function select(rank, follow = false) {
  state.node = rank;
  if (rank >= 0) viewport.reveal(run.x[rank], run.y[rank]);
  show();
  if (follow) $("node").focus({ preventScroll: true });
}

// --- the address

function writeAddress() {
  // In a frame of another page, such as a comparison or a notebook, there is no address to write.
  if (location.protocol === "about:") return;
  // The reader has just gone to another place, and the event that says so is still to come.
  if (location.hash !== known) return;
  const parts = [];
  if (state.frame >= 0) parts.push(`step=${data.last[state.frame]}`);
  if (state.node >= 0) parts.push(`node=${encodeURIComponent(run.labels[state.node])}`);
  if (state.tree === "traffic" && steps?.tangled && !treeFirst) parts.push("tree=traffic");
  if (state.tree !== "traffic") parts.push(`tree=${state.tree === "all" ? "all" : state.tree + 1}`);
  const wanted = parts.length ? `#${parts.join("&")}` : "";
  // A fragment without a part that is read here, such as that of a section, stays while there is nothing to write.
  if (wanted === location.hash || (!wanted && !isOurs(location.hash))) return;
  try {
    history.replaceState(null, "", wanted || "#");
    known = location.hash;
  } catch {
    // A page inside another one, as in a notebook, may have no address of its own.
  }
}

const isOurs = (hash) => /^#(step|node|tree)=/.test(hash);

function readAddress() {
  known = location.hash;
  if (!isOurs(location.hash)) return;
  const asked = new URLSearchParams(location.hash.slice(1)), step = Number(asked.get("step"));
  stop();
  state.frame = steps && step > 0 ? data.last.findIndex((last) => step <= last) : -1;
  if (run) {
    const tree = asked.get("tree"), number = Number(tree) - 1;
    if (tree) treeFirst = false;
    state.tree = tree === "all" && run.trees ? "all" : run.trees && number >= 0 && number < run.trees.count && Number.isInteger(number) ? number : "traffic";
    state.node = run.ranks.get(asked.get("node")) ?? -1;
    if (asked.get("node")) say(state.node < 0 ? `There is no node ${asked.get("node")}.` : "");
    if (state.node >= 0) viewport.reveal(run.x[state.node], run.y[state.node]);
  }
  show();
}

function say(words) {
  $("complaint").textContent = words;
}

// --- steps

function stop() {
  clearInterval(timer);
  timer = 0;
  if (!steps) return;
  $("play").textContent = "Play";
  $("play").setAttribute("aria-pressed", "false");
}

function toFrame(frame) {
  stop();
  state.frame = Math.max(-1, Math.min(steps.count - 1, frame));
  show();
}

function play() {
  const next = () => {
    state.frame++;
    show();
    if (state.frame >= steps.count - 1) stop();
  };
  if (state.frame < 0 || state.frame >= steps.count - 1) state.frame = -1;
  $("play").textContent = "Pause";
  $("play").setAttribute("aria-pressed", "true");
  timer = setInterval(next, 1000 / Number($("speed").value));
  next();
}

function listenToSteps() {
  slider.addEventListener("input", () => toFrame(slider.value - 1));
  $("whole").addEventListener("click", () => toFrame(-1));
  $("play").addEventListener("click", () => { if (timer) stop(); else play(); });
  $("speed").addEventListener("change", () => { if (timer) { stop(); play(); } });
  window.addEventListener("beforeprint", () => toFrame(-1));
}

// --- the map

class MapView extends Viewport {
  changed() {
    const text = [this.left, this.top, this.width / this.zoom, this.height / this.zoom].map((value) => value.toFixed(1)).join(" ");
    map.setAttribute("viewBox", text);
    map.parentElement.classList.toggle("zoomed", this.zoom > 1);
  }

  /** Units of the picture in one pixel of the page. */
  get unit() {
    const box = map.getBoundingClientRect();
    return Math.max(this.width / this.zoom / box.width, this.height / this.zoom / box.height);
  }

  /** The point of the picture under a point of the page; the picture is in the middle of its box. */
  point({ clientX, clientY }) {
    const box = map.getBoundingClientRect(), { unit } = this;
    return [this.left + this.width / this.zoom / 2 + (clientX - box.left - box.width / 2) * unit,
      this.top + this.height / this.zoom / 2 + (clientY - box.top - box.height / 2) * unit];
  }
}

const [, , width, height] = map.getAttribute("viewBox").split(" ").map(Number);
const viewport = new MapView(width, height);

function click(event) {
  if (!run) return;
  const [x, y] = viewport.point(event);
  select(nearest(run.x, run.y, x, y, Math.max(run.radius, Math.min(3 * run.radius, REACH * viewport.unit))));
}

/** Clicks select; dragging moves a picture that is zoomed, Ctrl and the wheel zoom. */
function listenToPointer(place) {
  let from = null, moved = false;
  place.addEventListener("pointerdown", (event) => {
    from = [event.clientX, event.clientY];
    moved = false;
  });
  place.addEventListener("pointermove", (event) => {
    if (!from || !event.buttons) return;
    const [dx, dy] = [event.clientX - from[0], event.clientY - from[1]];
    if (!moved && Math.hypot(dx, dy) < 5) return;
    if (!moved && viewport.zoom > 1) place.setPointerCapture(event.pointerId);
    moved = true;
    if (viewport.zoom > 1) viewport.moveBy(-dx * viewport.unit, -dy * viewport.unit);
    from = [event.clientX, event.clientY];
  });
  place.addEventListener("pointercancel", () => { from = null; });
  place.addEventListener("pointerup", (event) => {
    if (from && !moved) click(event);
    from = null;
  });
  place.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    viewport.zoomBy(event.deltaY < 0 ? 1.25 : 0.8, ...viewport.point(event));
  }, { passive: false });
}

const WAYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** Keys on the map: arrows select the next node, + and - zoom, 0 shows everything, Escape selects nothing. */
function listenToKeys(place) {
  place.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const way = WAYS[event.key];
    if (event.key === "Escape") select(-1);
    else if (event.key === "+") viewport.zoomBy(1.6);
    else if (event.key === "-") viewport.zoomBy(1 / 1.6);
    else if (event.key === "0") viewport.zoomBy(0);
    else if (!way) return;
    else select(state.node < 0 ? run.trees?.roots[state.root] ?? 0 : beside(run.x, run.y, state.node, ...way));
    event.preventDefault();
    event.stopPropagation();
  });
}

/** Keys anywhere else: left and right arrow move by one step. */
function keys(event) {
  const inField = event.target.closest?.("input, select, textarea, [role=region], [contenteditable]");
  if (!steps || inField || event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (by) toFrame(state.frame + by);
}

function listenToTools() {
  const name = document.title.replace(/[^\w.-]+/g, "-").slice(0, 60);
  $("closer").addEventListener("click", () => viewport.zoomBy(1.6));
  $("farther").addEventListener("click", () => viewport.zoomBy(1 / 1.6));
  $("fit").addEventListener("click", () => viewport.zoomBy(0));
  $("save-svg").addEventListener("click", () => saveSvg(map, name));
  $("save-png").addEventListener("click", () => savePng(map, name).catch((error) => say(`The picture cannot be drawn: ${error.message}`)));
  if (!run) return;
  $("find").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = $("label").value.trim(), rank = run.ranks.get(text) ?? -1;
    say(rank < 0 ? `There is no node ${text}.` : "");
    if (rank >= 0) select(rank, true);
  });
  for (const button of document.querySelectorAll("[data-choice]")) {
    button.addEventListener("click", () => {
      const { choice } = button.dataset;
      treeFirst = false;
      state.tree = choice === "all" || choice === "traffic" ? choice : Number(choice);
      show();
    });
  }
  $("links-on-map")?.addEventListener("click", () => { state.links = !state.links; show(); });
  $("show-levels")?.addEventListener("click", () => { state.levels = !state.levels; show(); });
  $("root")?.addEventListener("change", () => { state.root = Number($("root").value); show(); });
  $("root")?.append(...run.trees.roots.map((rank, at) => {
    const option = document.createElement("option");
    [option.value, option.textContent] = [String(at), run.labels[rank]];
    return option;
  }));
  // Labels of nodes elsewhere on the page, such as in the list of nodes that were cut off.
  document.addEventListener("click", (event) => {
    const label = event.target.closest?.("a[data-node]")?.dataset.node;
    if (label === undefined || !run.ranks.has(label)) return;
    event.preventDefault();
    select(run.ranks.get(label), true);
    $("network").scrollIntoView();
  });
}

if (steps) listenToSteps();
zoomTimes();
listenToTools();
listenToPointer($("picture"));
if (run) {
  listenToKeys($("picture"));
  let drawnFor = innerWidth;
  window.addEventListener("resize", () => { if (innerWidth !== drawnFor) { drawnFor = innerWidth; show(); } });
}
document.addEventListener("keydown", keys);
window.addEventListener("hashchange", readAddress);
show();
readAddress();
