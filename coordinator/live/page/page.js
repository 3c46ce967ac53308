// A watched run: the page follows the run, and turns clicks into requests.

import { follow, get, request } from "/connection.js";
import { History, inForce } from "/history.js";
import { NetworkMap } from "/map.js";
import { element } from "/element.js";
import { directions, faultButtons, listClaims, listFaults } from "/panel.js";

const at = (id) => document.getElementById(id);
let picture, steps, map;
let status = { version: -1, next: 1, faults: [], specs: [], steps: null, over: false, running: false, command: "" };
let result = null;
let shown = 0; // the step whose packets are shown
let following = true; // whether the newest step is shown
let selected = null; // {rank}, or {rank, port, peer, its_port} of a link
let near = []; // the links of the selected node
let measured = 0; // the last step that the figures beside the predictions count
let faulty = new Set(); // nodes with a fault at any time: nothing is due to them
const lines = []; // the runs before this one, of which it is a branch: {steps, status, faulty, result, name}
let other; // the map of one of them

function complain(error) {
  at("error").textContent = error?.message ?? "";
}

async function ask(content) {
  try {
    setStatus(await request(content));
    complain(null);
  } catch (error) {
    complain(error);
  }
}

// --- what is shown

function setStatus(news) {
  if (news.version < status.version) return; // an answer and an event can overtake each other
  status = news;
  faulty = new Set(news.faults.filter((fault) => fault.excludes).map((fault) => fault.rank));
  const { next, running, over, undoable, command } = status;
  for (const id of ["step", "run", "end"]) at(id).disabled = over;
  at("run").textContent = running && !over ? "Pause" : "Run";
  at("undo").disabled = !undoable;
  at("command").textContent = command || "The command line would be too long: run the scenario.toml of the run directory.";
  listFaults(at("faults"), status.specs, status.faults, next);
  show();
}

function show() {
  if (!map) return;
  if (following) shown = steps.last;
  shown = Math.max(steps.base, Math.min(shown, steps.last));
  const slider = at("slider"), past = shown < steps.last, state = steps.at(shown), frame = steps.frame(shown);
  [slider.min, slider.max, slider.value] = [steps.base, steps.last, shown];
  document.body.classList.toggle("past", past);
  at("newest").disabled = !past;
  at("back").disabled = shown <= steps.base;
  at("forward").disabled = !past;
  at("branch").disabled = status.over;
  at("state").textContent = headline(past, state);
  at("shown").textContent = sentence(frame);
  // The newest picture shows the faults that the next step will meet; an older one those of its own step.
  const broken = brokenIn(status.faults, past || status.over ? shown : shown + 1);
  map.show({ ...sceneOf(steps, shown), broken, selected, near, before: () => sceneOf(steps, Math.max(steps.base, shown - 1)) });
  describe(state, broken);
  date();
  compare();
}

function brokenIn(faults, step) {
  const links = faults.filter((fault) => "port" in fault);
  return { ...inForce(faults, step), peers: new Map(links.map((fault) => [`${fault.rank}/${fault.port}`, fault.peer])) };
}

/** What nodes have after a step of a history, and the packets of that step. */
function sceneOf(history, step) {
  const state = history.at(step);
  return { state, votes: history.showsVotes(state) ? (rank) => history.state(state, rank) : null, frame: history.frame(step) };
}

/** Show the run that the branch is compared with, after the same step. */
function compare() {
  if (!lines.length) return;
  const line = lines[Number(at("line").value)], step = Math.max(line.steps.base, Math.min(shown, line.steps.last));
  const state = line.steps.at(step);
  other.show({ ...sceneOf(line.steps, step), broken: brokenIn(line.status.faults, step), selected, near, before: () => null });
  at("this").textContent = `This branch, after step ${shown}: ${progress(steps.at(shown))}`;
  at("other-shown").textContent = `after step ${step}: ${progress(state, line)}`;
  const { verdict, path } = line.result;
  at("other-result").textContent = `${line.status.specs.join(", ") || "no faults"}; verdict: ${verdict}` + (path ? `; run directory ${path}` : "");
}

/** Say after which step the figures beside the predictions were measured; grey if the picture shows another one. */
function date() {
  if (result?.claims) return;
  at("measured-title").textContent = measured ? `after step ${measured}` : "so far";
  at("claims").classList.toggle("earlier", measured !== shown);
}

/** Which step is shown, and how it ended. */
function headline(past, state) {
  const of = status.steps ? ` of ${status.steps}` : "";
  if (past) return `You are looking at ${shown ? `step ${shown}${of}` : "the start"}. Branch here starts another run from it.`;
  if (result) return result.verdict ? `The run is over: ${result.verdict}${because()}.` : `The run ended${because()}.`;
  if (!shown) return `Nothing is sent yet: step 1${of} is next.`;
  return `Step ${shown}${of} is done: ${progress(state)}.`;
}

const because = () => (result.because ? ` (${result.because})` : "");
const counts = (number) => number.toLocaleString("en");

function sentence(frame) {
  if (!frame) return "";
  const busy = `${counts(frame.busy)} busy link${frame.busy === 1 ? "" : "s"}${frame.arcs ? "" : " (too many to draw)"}`;
  return `Step ${shown}: ${busy}` + (frame.lost ? `, ${counts(frame.lost)} segment${frame.lost === 1 ? "" : "s"} lost` : "");
}

/** How many nodes of a run are done, or how the votes stand. */
function progress(state, run = { steps, faulty }) {
  const voting = run.steps.showsVotes(state);
  // Nothing is due to (or from) a node that crashes or lies; a source is to receive nothing.
  const counted = (rank) => !run.faulty.has(rank) && (picture.judged[rank] || (picture.giving && !voting));
  const total = picture.labels.filter((_, rank) => counted(rank)).length;
  if (!voting) {
    const done = run.steps.done(state, counted), what = picture.goals.some((goal) => goal > 1) ? "everything" : "it";
    return `${counts(done)} of ${counts(total)} ${done === 1 ? "has" : "have"} ${picture.giving ? "sent" : what}`;
  }
  const { right, wrong, split, open } = run.steps.voted(state, counted);
  const votes = `Of ${counts(total)} nodes ${counts(right)} ${right === 1 ? "has" : "have"} the right value, ${counts(wrong)} a wrong one, ${counts(split)} no majority`;
  return open ? `${votes}; ${counts(open)} open` : votes;
}

/** The state of the selected node in words. */
function describe(state, broken) {
  const line = at("node-state");
  if (!line || !selected || selected.port !== undefined) return;
  const kind = broken.nodes.get(selected.rank);
  const goal = picture.goals[selected.rank], verb = picture.giving ? "sent" : "received";
  const altered = state.altered[selected.rank];
  line.textContent = `${verb} ${state.gained[selected.rank]} of ${goal} segments`
    + (altered ? `, ${altered} altered` : "") + vote(state, selected.rank) + (kind ? `; ${{ crash: "crashed", hang: "hung" }[kind] ?? kind}` : "");
}

function vote(state, rank) {
  const found = steps.showsVotes(state) ? steps.state(state, rank) : undefined;
  return found === undefined ? "" : `; ${["the vote is open", "right value", "no majority", "wrong value elected"][found]}`;
}

function look(step) {
  following = step >= steps.last;
  shown = step;
  show();
}

// --- the selection

async function select(place) {
  selected = place && { ...place };
  near = [];
  if (!place) return showSelection(null);
  const node = await get(`/node?rank=${place.rank}`).catch((error) => complain(error));
  if (!node || selected?.rank !== place.rank || selected.port !== place.port) return;
  if (place.port === undefined) {
    near = node.links.map(({ port, rank }) => ({ rank: node.rank, port, peer: rank }));
  } else {
    const link = node.links.find(({ port }) => port === place.port);
    Object.assign(selected, { peer: link.rank, its_port: link.its_port });
  }
  showSelection(node);
}

function showSelection(node) {
  const title = at("selected"), body = at("selection");
  if (!node) {
    title.textContent = "Nothing is selected";
    body.replaceChildren(element("p", { class: "quiet" }, "Click a node or a link, or find a node by its label."));
  } else if (selected.port === undefined) {
    title.textContent = `Node ${node.label} (rank ${node.rank})`;
    const links = node.links.map(({ port, rank, label }) => element("button", {
      click: () => select({ rank: node.rank, port }), "aria-label": `Link by port ${port} to ${label}`, "data-peer": String(rank),
    }, `${port}: ${label}`));
    body.replaceChildren(
      element("p", { id: "node-state" }), faultButtons(picture.kinds, "node", (what) => ask({ do: "fault", ...what, rank: node.rank })),
      element("p", { class: "quiet" }, "Links, by port:"), element("div", { class: "links" }, ...links));
  } else {
    const link = node.links.find(({ port }) => port === selected.port), { rank, port } = selected;
    title.textContent = `Link ${node.label} ~ ${link.label}`;
    const [choice, read] = directions([node.label, link.label], [{ rank, port }, { rank: link.rank, port: link.its_port }]);
    const ends = [[rank, node.label], [link.rank, link.label]].map(([end, label]) =>
      element("button", { click: () => select({ rank: end }) }, `Node ${label}`));
    body.replaceChildren(choice, faultButtons(picture.kinds, "link", (what) => ask({ do: "fault", ...what, ...read() })),
      element("div", { class: "links" }, ...ends));
  }
  show();
}

// --- events of the run

const EVENTS = {
  frames(list) {
    for (const frame of list) steps.add(frame);
    show();
    if (list.length === 1 && following && "step" in list[0]) map.play();
  },
  status: setStatus,
  claims({ claims, note, step }) {
    if (result?.claims) return;
    measured = step ?? 0;
    listClaims(at("claims"), claims, false);
    at("note").textContent = note ?? "";
    at("note").hidden = !note;
    date();
  },
  branch({ step, before }) {
    const name = lines.length ? `branch ${lines.length}, after step ${steps.branchStep}` : "the run itself";
    lines.push({ steps, status, faulty, result: before, name });
    steps = new History(picture.goals, picture.votesDue);
    steps.branchStep = step;
    [status, following, measured] = [{ ...status, over: false }, true, 0];
    at("line").replaceChildren(...lines.map((line, number) => element("option", { value: number }, line.name)));
    at("line").value = lines.length - 1;
    document.body.classList.add("branched");
    for (const id of ["this", "before"]) at(id).hidden = false;
    other ??= new NetworkMap(at("other"), picture);
    for (const each of [map, other]) each.resize();
    show();
  },
  finished(news) {
    result = news;
    at("verdict").textContent = news.verdict ? `Verdict: ${news.verdict}${because()}` : "";
    at("verdict").className = news.verdict ?? "";
    show();
    if (!news.claims) return;
    at("measured-title").textContent = "measured";
    at("claims").classList.remove("earlier");
    listClaims(at("claims"), news.claims, true, news.unjudged);
    at("command").textContent = news.command;
    at("result").textContent = `Journal ${news.hash}` + (news.path ? `; run directory ${news.path}` : "");
  },
};

/** The name of a network with its subscripts and superscripts, as in reports. */
function typeset(name) {
  const text = name[0].toUpperCase() + name.slice(1).replaceAll("rho", "ρ");
  return text.split(/(_\{[^}]*\}|_\d+|\^\(\d+\))/).map((part) => {
    if (part.startsWith("_")) return element("sub", {}, part.replace(/[_{}]/g, ""));
    return part.startsWith("^(") ? element("sup", {}, part.slice(1)) : part;
  });
}

async function main() {
  picture = await get("/picture");
  document.title = picture.title;
  at("title").replaceChildren(...typeset(picture.title));
  at("subject").textContent = `${picture.collective}, ${picture.algorithm}, ${picture.order.toLocaleString("en")} nodes, driver ${picture.driver}`;
  at("map").setAttribute("aria-label", `${picture.title}, ${picture.order.toLocaleString("en")} nodes`);
  at("keys").textContent = `The colour of a node is its share of what it is to ${picture.giving ? "send" : "receive"}; the brightest means all. `
    + "Once a copy was altered: green has the right value, blue no majority, red a wrong value, and the vote of a grey node is open. "
    + "Ring: source or target. Cross: crashed. Bars: hung. Diamond: byzantine or another fault. "
    + "Links: blue busy, purple with altered segments, red dashes lost, dots faulty; a small circle: withheld by its sender. "
    + "Wheel or + and −: zoom. Drag: move. With the picture in focus, arrow keys select the next node, Escape nothing.";
  steps = new History(picture.goals, picture.votesDue);
  map = new NetworkMap(at("map"), picture);
  listen();
  map.resize();
  show();
  await follow((name, data) => EVENTS[name](data));
  for (const id of ["step", "run", "end", "undo", "branch"]) at(id).disabled = true;
  at("state").append(result ? " The coordinator has ended; this page keeps the history." : " The connection to the run has ended; reload the page.");
}

// --- controls

function listen() {
  const rate = () => Number(at("rate").value);
  at("step").onclick = () => ask({ do: "step" });
  at("run").onclick = () => ask(status.running ? { do: "pause" } : { do: "run", rate: rate() });
  at("rate").onchange = () => status.running && ask({ do: "run", rate: rate() });
  at("end").onclick = () => ask({ do: "end" });
  at("undo").onclick = () => ask({ do: "undo" });
  at("slider").oninput = () => look(Number(at("slider").value));
  at("back").onclick = () => look(shown - 1);
  at("forward").onclick = () => look(shown + 1);
  at("newest").onclick = () => look(steps.last);
  at("branch").onclick = () => ask({ do: "branch", step: shown });
  at("line").onchange = () => show();
  at("copy").onclick = () => navigator.clipboard.writeText(at("command").textContent).catch(complain);
  at("closer").onclick = () => map.zoomBy(1.6);
  at("farther").onclick = () => map.zoomBy(1 / 1.6);
  at("whole").onclick = () => map.zoomBy(0);
  at("search").onsubmit = (event) => {
    event.preventDefault();
    const text = at("label").value.trim(), rank = picture.labels.indexOf(text);
    if (rank < 0) return complain(new Error(`There is no node ${text}.`));
    complain(null);
    map.revealNode(rank);
    select({ rank });
  };
  pointer(at("map"));
  at("map").onkeydown = (event) => {
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (event.key === "Escape") select(null);
    if (event.key === "+") map.zoomBy(1.6);
    if (event.key === "-") map.zoomBy(1 / 1.6);
    if (!way) return;
    event.preventDefault();
    const rank = selected ? map.beside(selected.rank, ...way) : picture.root ?? 0;
    map.revealNode(rank);
    select({ rank });
  };
}

/** Clicks select; dragging moves the picture, the wheel zooms. */
function pointer(canvas) {
  let from = null, moved = false;
  canvas.onpointerdown = (event) => {
    from = [event.clientX, event.clientY];
    moved = false;
    canvas.setPointerCapture(event.pointerId);
  };
  canvas.onpointermove = (event) => {
    if (!from) return;
    const dx = event.clientX - from[0], dy = event.clientY - from[1];
    if (!moved && Math.hypot(dx, dy) < 5) return;
    moved = true;
    const unit = (map.scale * canvas.clientWidth) / canvas.width;
    map.moveBy(-dx / unit, -dy / unit);
    from = [event.clientX, event.clientY];
  };
  canvas.onpointercancel = () => { from = null; };
  canvas.onpointerup = (event) => {
    if (from && !moved) select(map.find(...map.point(event), near));
    from = null;
  };
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    map.zoomBy(event.deltaY < 0 ? 1.25 : 0.8, ...map.point(event));
  }, { passive: false });
}

main().catch((error) => {
  complain(error);
  at("state").textContent = "There is no connection to the run.";
});
