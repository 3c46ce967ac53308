// The page of a lesson: one clock, one fault at a time, and what theory says about both.

import { element, svgElement } from "../../../reports/templates/shared/element.js";
import { Drawing } from "./drawing.js";
import { Story, unpacked } from "./story.js";

const $ = (id) => document.getElementById(id);

class Page {
  constructor(data, picture) {
    Object.assign(this, { data, picture, stories: new Map(), step: 0, fault: null, selected: null });
    this.branches = new Map(data.branches.map((branch) => [`${branch.place}@${branch.step}`, branch]));
    this.names = data.places.map(([, rank, peer]) => this.nameOf(rank, peer));
    $("places").append(...this.names.map((value) => element("option", { value })));
    this.drawing = new Drawing($("picture"), picture, (rank, peer = null) => this.select(rank, peer));
    this.listen();
    this.show();
  }

  nameOf(rank, peer) {
    const { labels } = this.picture;
    return peer === null ? labels[rank] : `${labels[rank]}~${labels[peer]}`;
  }

  /** The run with a fault, or without one. */
  story(fault) {
    if (!this.stories.has(fault)) this.stories.set(fault, new Story(this.data, this.picture, fault));
    return this.stories.get(fault);
  }

  /** The fault that begins before the next step, or has begun; null while the clock stands before that. */
  get begun() {
    return this.fault && this.step >= this.fault.step - 1 ? this.fault : null;
  }

  get shown() {
    return this.story(this.begun);
  }

  get over() {
    return this.step >= this.shown.steps;
  }

  // --- actions

  forward() {
    if (this.over) return;
    const before = this.shown.after(this.step);
    this.step++;
    this.show();
    this.drawing.play(before);
  }

  backward() {
    if (!this.step) return;
    this.step--;
    this.show();
  }

  again() {
    this.step = 0;
    this.fault = null;
    this.show();
  }

  undo() {
    this.step = Math.min(this.step, this.story(null).steps);
    this.fault = null;
    this.show();
  }

  breakIt() {
    if (this.whyNot()) return;
    this.fault = this.branches.get(`${this.place}@${this.step + 1}`);
    this.show();
  }

  select(rank, peer) {
    const same = this.selected?.rank === rank && this.selected.peer === peer;
    this.selected = same ? null : { rank, peer };
    $("place").value = this.selected ? this.names[this.place] : "";
    this.show();
  }

  /** The number of the selected place. */
  get place() {
    const { rank, peer } = this.selected;
    return this.data.places.findIndex(([, one, other]) => (one === rank && other === peer) || (one === peer && other === rank));
  }

  /** Why the selected place cannot break before the next step; empty if it can. */
  whyNot() {
    if (this.over && !(this.fault && this.step < this.fault.step)) return "The run is over: go back, or start again.";
    if (this.fault && this.step >= this.fault.step) return `One fault at a time: undo ${this.textOf(this.fault)}, or go back before step ${this.fault.step}.`;
    if (!this.selected) return "Click a node or a link to break it before the next step.";
    if (this.branches.has(`${this.place}@${this.step + 1}`)) return "";
    return this.step >= this.story(null).steps ? "The run is over: go back, or start again."
      : `Not possible: ${this.data.refused[`${this.data.places[this.place][0]}@${this.step + 1}`]}.`;
  }

  textOf(branch) {
    return `${this.data.places[branch.place][0]}@${branch.step}`;
  }

  // --- what is shown

  show() {
    const story = this.shown, after = story.after(this.step), over = this.over;
    this.drawing.still();
    this.drawing.show({
      step: this.step,
      after,
      packets: story.packets[this.step] ?? [],
      broken: this.broken(),
      cutOff: over ? story.judged.cutOff : [],
      selected: this.selected,
      words: (rank, held) => this.words(rank, held, story),
    });
    $("now").replaceChildren(...this.headline(story, after, over));
    $("back").disabled = !this.step;
    $("step").disabled = over;
    $("again").disabled = !this.step && !this.fault;
    $("undo").disabled = !this.fault;
    const reason = this.whyNot();
    $("break").disabled = Boolean(reason);
    $("break").textContent = this.selected?.peer != null ? "Cut" : "Crash";
    $("reason").textContent = reason;
    this.theory(story, over);
    this.legend(story, over);
  }

  headline(story, after, over) {
    const due = story.due.size, verb = this.picture.giving ? ["has sent", "have sent"] : this.picture.pies ? ["has everything", "have everything"] : ["has it", "have it"];
    const count = `${after.done} of ${due} ${verb[after.done === 1 ? 0 : 1]}`;
    const clock = this.step ? `Step ${this.step} of ${story.steps} is done` : story.steps ? `Step 1 of ${story.steps} is next` : "Nothing is sent";
    const [first, ...more] = [over ? "The run is over." : "", this.saying()].filter(Boolean);
    return [element("strong", {}, `${clock}: ${count}. `), element("span", {}, [first, ...more].filter(Boolean).join(" "))];
  }

  saying() {
    if (!this.fault) return "";
    const [, rank, peer] = this.data.places[this.fault.place], where = this.nameOf(rank, peer), { step } = this.fault;
    const what = peer === null ? `${where} crashes` : `${where} is cut`;
    if (this.step >= step) return peer === null ? `${where} crashed before step ${step}.` : `${where} was cut before step ${step}.`;
    return this.step === step - 1 ? `${what} now, before step ${step}.` : `${what} before step ${step}.`;
  }

  /** What is broken before the next step: places with the step from which they are. */
  broken() {
    const own = this.data.faults.map(([text, step, rank, peer]) => ({ text, step, rank, peer }));
    if (this.begun) {
      const [, rank, peer] = this.data.places[this.fault.place];
      own.push({ text: this.textOf(this.fault), step: this.fault.step, rank, peer });
    }
    return own.filter(({ step }) => step <= this.step + 1);
  }

  words(rank, { have, when }, story) {
    const label = this.picture.labels[rank], goal = story.judged.goals[rank];
    const broken = this.broken().find((each) => each.rank === rank && each.peer === null);
    if (rank === this.picture.root) return `${label}: ${this.picture.giving ? "target" : "source"}`;
    const got = `${this.picture.giving ? "sent" : "received"} ${have[rank]}${this.picture.giving ? "" : ` of ${goal}`}`;
    return `${label}: ${got}${when[rank] ? `, last in step ${when[rank]}` : ""}${broken ? `; ${broken.text}` : ""}`;
  }

  theory(story, over) {
    const { verdict, why, claims, cutOff } = story.judged;
    $("verdict").className = over ? verdict : "";
    $("verdict").textContent = over ? `${this.picture.marks[verdict]} ${verdict}` : "for the whole run";
    const lacking = over && cutOff.length ? `Cut off: ${cutOff.map((rank) => this.picture.labels[rank]).join(", ")}. ` : "";
    $("why").textContent = over ? `${lacking}${why ? `${why}.` : ""}` : "";
    const plain = new Set(this.story(null).judged.claims.map(([name, predicted]) => `${name} ${predicted}`));
    $("claims").replaceChildren(...claims.map(([name, predicted, measured, judged, source]) => element("tr", { title: source },
      element("td", {}, name),
      element("td", { class: this.begun && !plain.has(`${name} ${predicted}`) ? "n new" : "n" }, predicted),
      element("td", { class: "n" }, over ? measured : "…"),
      element("td", { class: over ? `v ${judged}` : "v", "aria-label": over ? judged : "open" }, over ? this.picture.marks[judged] : ""))));
    if (!claims.length) $("claims").append(element("tr", {}, element("td", { colspan: 4 }, "Theory says nothing about this run.")));
    $("repeat").replaceChildren(...(this.fault ? ["The same run: ", element("code", {}, `--fault ${this.textOf(this.fault)}`)] : []));
  }

  legend(story, over) {
    const { picture } = this, packets = story.packets[this.step] ?? [], broken = this.broken();
    const key = (symbol, words) => element("span", { class: "key" }, symbol, words);
    const drawn = (name, attributes, ...more) => svgElement("svg", { viewBox: "-10 -10 20 20", "aria-hidden": "true" }, svgElement(name, attributes), ...more);
    const ramp = element("span", { class: "ramp" }, ...picture.colours.map((colour) => element("i", { style: `background:${colour}` })));
    $("legend").replaceChildren(...[
      picture.root !== null && key(drawn("circle", { r: 6, fill: "var(--ink)" }, svgElement("circle", { class: "swatch-ring", r: 9 })), picture.giving ? "target" : "source"),
      key(drawn("circle", { class: "swatch-empty", r: 7.5 }), "nothing yet"),
      key(ramp, `${picture.giving ? "sent" : "complete"} in step 1 to ${picture.colours.length}`),
      this.drawing.nodes.some(({ slice }) => slice.getAttribute("d")) && key(drawn("path", { d: "M0 0V-8A8 8 0 0 1 8 0z", fill: "var(--green)" }, svgElement("circle", { class: "swatch-empty", r: 7.5 })), "a share"),
      packets.some((each) => each.lost < each.segments) && key(drawn("path", { class: "swatch-flow", d: "M-10 0H10" }), `packet of step ${this.step}`),
      packets.some((each) => each.lost === each.segments) && key(drawn("path", { class: "swatch-gone", d: "M-10 0H10" }), "lost packet"),
      broken.some((each) => each.rank !== null && each.peer === null) && key(drawn("path", { class: "swatch-cross", d: "M-7-7L7 7M7-7L-7 7" }), "crashed"),
      broken.some((each) => each.peer !== null) && key(drawn("path", { class: "swatch-cut", d: "M-10 0H10" }), "cut"),
      over && story.judged.cutOff.length > 0 && key(drawn("circle", { class: "swatch-missed", r: 8 }), "cut off"),
      this.selected && key(drawn("circle", { class: "swatch-selected", r: 8 }), "selected"),
    ].filter(Boolean));
  }

  // --- input

  listen() {
    const actions = { step: () => this.forward(), back: () => this.backward(), again: () => this.again(), undo: () => this.undo(), break: () => this.breakIt(), help: () => this.help() };
    for (const [id, act] of Object.entries(actions)) {
      $(id).addEventListener("click", (event) => {
        act();
        if (event.detail) $(id).blur(); // a click with a pointer leaves the keys to the page
      });
    }
    $("place").addEventListener("change", () => {
      const at = this.names.indexOf($("place").value.trim());
      if (at < 0) { $("reason").textContent = `There is no node or link ${$("place").value}.`; return; }
      const [, rank, peer] = this.data.places[at];
      this.selected = { rank, peer };
      $("place").blur();
      this.show();
    });
    const keys = { " ": "step", ArrowRight: "step", PageDown: "step", ArrowLeft: "back", PageUp: "back", c: "break", "?": "help" };
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest?.("input, select, textarea, button, a, summary")) return;
      const id = keys[event.key];
      if (!id) return;
      event.preventDefault();
      actions[id]();
    });
  }

  help() {
    const hidden = !$("keys").hidden;
    $("keys").hidden = hidden;
    $("help").setAttribute("aria-expanded", !hidden);
  }
}

if (typeof DecompressionStream === "undefined") $("now").textContent = "This page needs a browser of 2023 or later.";
else {
  const picture = JSON.parse($("network").textContent);
  unpacked($("data").textContent).then((data) => { window.lesson = new Page(data, picture); });
}
