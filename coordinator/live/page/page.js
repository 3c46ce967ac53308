// A watched run: the page follows the run, and turns clicks into requests.

import { enter, follow, get, request } from "/connection.js";
import { History, inForce } from "/history.js";
import { NetworkMap } from "/map.js";
import { element } from "/element.js";
import { listenToKeys, listOfKeys } from "/keys.js";
import { legend } from "/legend.js";
import { directions, faultButtons, listClaims, listFaults } from "/panel.js";

const at = (id) => document.getElementById(id);
let picture, steps, map;
let status = { version: -1, next: 1, faults: [], specs: [], steps: null, over: false, running: false, command: "", refusal: "", last: "" };
let ended = ""; // why no request can be made any more
let result = null;
let shown = 0; // the step whose packets are shown
let following = true; // whether the newest step is shown
let selected = null; // {rank}, or {rank, port, peer, its_port} of a link
let near = []; // the links of the selected node
let claims = [], before = []; // the newest predictions, and those for the faults before
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

/** Why neither a step nor a fault can be asked for; empty if they can. */
const whyNot = () => ended || status.refusal;

/** Switch every button that asks the run for something. */
function allowRequests() {
  const buttons = [...at("selection").querySelectorAll("[data-kind]")], place = at("cannot");
  for (const button of [at("step"), at("run"), ...buttons]) allow(button, whyNot());
  for (const id of ["branch", "again"]) allow(at(id), ended || status.last);
  allow(at("undo"), whyNot() || (status.undoable ? "" : "no added fault is left that is not in force yet"));
  allow(at("end"), ended);
  allow(at("close"), ended);
  [at("end").hidden, at("close").hidden] = [status.over, !status.over];
  if (place) [place.textContent, place.hidden] = [sentenceOf(whyNot()), !whyNot()];
}

const sentenceOf = (words) => words && `${words[0].toUpperCase()}${words.slice(1)}.`;

/** A line for the reason why the buttons below it cannot act. */
const cannot = () => element("p", { id: "cannot", class: "because undecided", hidden: true });

/** Let a button act, or say why it cannot. */
function allow(button, reason) {
  button.disabled = Boolean(reason);
  button.dataset.title ??= button.title;
  button.title = reason || button.dataset.title;
}

// --- what is shown

function setStatus(news) {
  if (news.version < status.version) return; // an answer and an event can overtake each other
  status = news;
  steps.contested = news.contested;
  faulty = new Set(news.faults.filter((fault) => fault.excludes).map((fault) => fault.rank));
  const { next, running, over, command } = status;
  at("run").textContent = running && !over ? "Pause" : "Run";
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
  for (const id of ["newest", "forward"]) allow(at(id), past ? "" : "this is the newest step");
  allow(at("back"), shown > steps.base ? "" : "this is the beginning");
  allowRequests();
  at("state").textContent = headline(past, state);
  at("shown").textContent = sentence(frame);
  // The newest picture shows the faults that the next step will meet; an older one those of its own step.
  const broken = brokenIn(status.faults, past || status.over ? shown : shown + 1);
  map.show({ ...sceneOf(steps, shown), broken, selected, near, before: () => sceneOf(steps, Math.max(steps.base, shown - 1)) });
  at("legend").replaceChildren(...legend(map, picture));
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
  const votes = history.showsVotes(state) ? (rank) => history.state(state, rank) : null;
  return { state, votes, frame: history.frame(step), step, steps: lengthOf(history) };
}

/** The steps of a run, for the colours of steps: those so far, and those that follow with its faults, if that is known. */
function lengthOf(history) {
  return history !== steps || status.over ? history.last : Math.max(history.last, status.steps ?? 0);
}

/** Show the run that the branch is compared with, after the same step. */
function compare() {
  if (!lines.length) return;
  const line = lines[at("line").value];
  at("before").hidden = !line;
  if (!line) return;
  const step = Math.max(line.steps.base, Math.min(shown, line.steps.last));
  const state = line.steps.at(step);
  other.show({ ...sceneOf(line.steps, step), broken: brokenIn(line.status.faults, step), selected, near, before: () => null });
  at("this").textContent = `${steps.name}: ${progress(steps.at(shown))}. Beside it:`;
  at("other-shown").textContent = `${line.name}, after step ${step}: ${progress(state, line)}`;
  const { verdict, path } = line.result ?? {};
  at("other-result").title = at("other-result").textContent = `${line.status.specs.join(", ") || "no faults"}; verdict: ${verdict}` + (path ? `; run directory ${path}` : "");
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
  if (ended && !past && !result) return ended;
  if (past) return `You are looking at ${shown ? `step ${shown}${of}` : "the start"}. Branch here starts another run from it.`;
  if (result) return `${result.verdict ? `The run is over: ${result.verdict}` : "The run ended"}${because()}. ${ended}`;
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
  // Nothing is due to (or from) a node that crashes or lies; a source is to receive nothing, and a target to send nothing.
  const counted = (rank) => !run.faulty.has(rank) && (picture.giving && !voting ? rank !== picture.root : picture.judged[rank]);
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
    body.replaceChildren(element("p", { class: "quiet" }, "Click a node or a link to break it."));
  } else if (selected.port === undefined) {
    title.textContent = `Node ${node.label} (rank ${node.rank})`;
    const links = node.links.map(({ port, rank, label }) => element("button", {
      click: () => select({ rank: node.rank, port }), "aria-label": `Link by port ${port} to ${label}`, "data-peer": String(rank),
    }, `${port}: ${label}`));
    body.replaceChildren(
      element("p", { id: "node-state" }), cannot(), faultButtons(picture.kinds, "node", (what) => ask({ do: "fault", ...what, rank: node.rank })),
      element("p", { class: "quiet" }, "Links, by port:"), element("div", { class: "links" }, ...links));
  } else {
    const link = node.links.find(({ port }) => port === selected.port), { rank, port } = selected;
    title.textContent = `Link ${node.label} ~ ${link.label}`;
    const [choice, read] = directions([node.label, link.label], [{ rank, port }, { rank: link.rank, port: link.its_port }]);
    const ends = [[rank, node.label], [link.rank, link.label]].map(([end, label]) =>
      element("button", { click: () => select({ rank: end }) }, `Node ${label}`));
    body.replaceChildren(choice, cannot(), faultButtons(picture.kinds, "link", (what) => ask({ do: "fault", ...what, ...read() })),
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
  claims({ claims: news, faults, note, step }) {
    if (result?.claims) return;
    measured = step ?? 0;
    if (String(faults) !== String(claims.faults)) before = claims;
    claims = Object.assign(news, { faults });
    listClaims(claims, { before });
    at("note").textContent = note ?? "";
    at("note").hidden = !note;
    date();
  },
  branch({ step, again }) {
    lines.push({ steps, status, faulty, result, name: steps.name });
    steps = new History(picture.goals, picture.votesDue);
    steps.name = `Run ${lines.length + 1}, ${again ? "from the start" : `branch after step ${step}`}`;
    [following, measured, result, claims, before] = [true, 0, null, [], []];
    for (const id of ["verdict", "result"]) at(id).textContent = "";
    at("measured-title").textContent = "so far";
    const options = lines.map((line, number) => element("option", { value: number }, line.name));
    at("line").replaceChildren(...options, element("option", { value: "" }, "nothing"));
    at("line").value = lines.length - 1;
    document.body.classList.add("branched");
    for (const id of ["beside", "before"]) at(id).hidden = false;
    other ??= new NetworkMap(at("other"), picture);
    for (const each of [map, other]) each.resize();
    // The state of this run comes next; an answer of the run before that comes late is older than this one.
    setStatus({ ...status, version: status.version + 1, over: false, refusal: "", last: "", undoable: false, faults: [], specs: [] });
  },
  finished(news) {
    result = news;
    status = { ...status, over: true };
    at("verdict").textContent = news.verdict ? `Verdict: ${news.verdict}${because()}` : "";
    at("verdict").className = news.verdict ?? "";
    show();
    if (!news.claims) return;
    at("measured-title").textContent = "measured";
    at("claims").classList.remove("earlier");
    listClaims(news.claims, { final: true, unjudged: news.unjudged });
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
  await enter();
  picture = await get("/picture");
  document.title = picture.title;
  at("title").replaceChildren(...typeset(picture.title));
  at("subject").textContent = `${picture.collective}, ${picture.algorithm}, ${picture.order.toLocaleString("en")} nodes, driver ${picture.driver}`;
  at("map").setAttribute("aria-label", `${picture.title}, ${picture.order.toLocaleString("en")} nodes`);
  at("keys").replaceChildren(listOfKeys());
  steps = new History(picture.goals, picture.votesDue);
  steps.name = "Run 1";
  map = new NetworkMap(at("map"), picture);
  listen();
  map.resize();
  showSelection(null);
  await follow((name, data) => EVENTS[name](data));
  ended = result ? "The coordinator has ended; this page keeps the history." : "The connection to the run has ended; reload the page.";
  show();
}

// --- controls

function listen() {
  listenToKeys(ACTIONS);
  listenToLook();
  const rate = () => Number(at("rate").value);
  at("step").onclick = () => ask({ do: "step" });
  at("again").onclick = () => ask({ do: "again" });
  at("run").onclick = () => ask(status.running ? { do: "pause" } : { do: "run", rate: rate() });
  at("rate").onchange = () => status.running && ask({ do: "run", rate: rate() });
  at("end").onclick = () => ask({ do: "end" });
  // The second click of a double click on End the run is none on Close.
  at("close").onclick = (event) => event.detail < 2 && ask({ do: "close" });
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
    if (rank < 0) return complain(new Error(text ? `There is no node ${text}.` : `Type the label of a node, such as ${picture.labels.at(-1)}.`));
    complain(null);
    document.activeElement.blur();
    map.revealNode(rank);
    select({ rank });
  };
  pointer(at("map"));
  at("map").onkeydown = (event) => {
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!way || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const rank = selected ? map.beside(selected.rank, ...way) : picture.root ?? 0;
    map.revealNode(rank);
    select({ rank });
  };
}

/** Press a button, or say why it cannot act. */
function press(id) {
  if (at(id).disabled) complain(new Error(sentenceOf(at(id).title)));
  else at(id).click();
}

/** What the keys do, by name. */
const ACTIONS = {
  ...Object.fromEntries(["undo", "branch", "again", "run", "large", "dark", "full", "help", "newest"].map((id) => [id, () => press(id)])),
  step: () => (shown < steps.last ? look(shown + 1) : press("step")),
  back: () => press("back"),
  crash() {
    const button = at("selection").querySelector("[data-kind]");
    if (!button) complain(new Error("Select a node first: click it, or press / and type its label."));
    else if (button.disabled) complain(new Error(sentenceOf(whyNot())));
    else button.click();
  },
  find: () => at("label").select(), // with the label of the search before, so that typing replaces it
  zoom: (key) => press({ "+": "closer", "-": "farther", 0: "whole" }[key]),
  nothing() {
    complain(null);
    if (!at("keys").hidden) press("help");
    else select(null);
  },
};

/** How the page looks: letters, colours, full screen, and the list of keys. */
function listenToLook() {
  const root = document.documentElement, switched = (id, on) => at(id).setAttribute("aria-pressed", on);
  at("large").onclick = () => switched("large", root.classList.toggle("large"));
  const dark = matchMedia("(prefers-color-scheme: dark)"), rule = [...document.styleSheets].flatMap(({ cssRules }) => [...cssRules])
    .find((each) => each.conditionText?.includes("prefers-color-scheme"));
  const paint = (on) => {
    rule.media.mediaText = on ? "screen" : "not all";
    root.style.colorScheme = on ? "dark" : "light";
    switched("dark", on);
    for (const each of [map, other]) each?.readColours();
    show();
  };
  at("dark").onclick = () => paint(at("dark").getAttribute("aria-pressed") === "false");
  dark.addEventListener("change", () => paint(dark.matches));
  switched("dark", dark.matches);
  at("full").onclick = () => (document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen()).catch(complain);
  document.addEventListener("fullscreenchange", () => switched("full", Boolean(document.fullscreenElement)));
  at("help").onclick = () => {
    at("keys").hidden = !at("keys").hidden;
    at("help").setAttribute("aria-expanded", !at("keys").hidden);
  };
}

/** Clicks select; dragging moves the picture, the wheel zooms. */
function pointer(canvas) {
  let from = null, moved = false;
  // A click leaves the keys to the page: the arrows of the picture are for those who come by Tab.
  canvas.onmousedown = (event) => event.preventDefault();
  canvas.onpointerdown = (event) => {
    document.activeElement.blur();
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
