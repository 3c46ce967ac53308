// The map at one position of the slider: nodes, links, marks, and the cursors in charts.

import { stateOf } from "../shared/marks.js";
import { unpack } from "./packing.js";

const TANGLE = 300; // links

export function stepView(data) {
  const $ = (id) => document.getElementById(id);
  const map = $("map"), circles = $("nodes") ? [...$("nodes").children] : [], names = $("names") ? [...$("names").children] : [];
  const cells = [...map.querySelectorAll(".cells")], crosses = [...map.querySelectorAll(".cross")];
  const levels = [...map.querySelectorAll(".level")];
  const cursors = [...document.querySelectorAll(".cursor")];
  const slices = $("slices"), progress = $("progress") ? [...$("progress").children] : [];
  const initial = circles.map((circle) => circle.getAttribute("fill")), inks = names.map((name) => name.getAttribute("fill"));
  const layers = ["flow0", "flow1", "flow2", "heads", "forged", "forged-heads", "lost", "withheld"].map($).filter(Boolean);
  const whole = layers.map((layer) => layer.getAttribute("d"));
  const lines = (name) => $(name)?.getAttribute("d").split("\n").filter(Boolean) ?? [];
  const paths = ["flow0", "flow1", "flow2"].flatMap(lines), tips = lines("heads"), stops = lines("withheld");
  const fixed = new Set(data.fixed);
  const read = {};
  for (const name of ["links", "loads", "lost", "forged", "withheld", "gains"]) read[name] = (data[name] ?? []).map(unpack);
  for (const name of ["heard", "settled"]) read[name] = (data.votes?.[name] ?? []).map(unpack);
  const isBright = (colour) => { const n = parseInt(colour.slice(1), 16); return 0.3 * (n >> 16) + 0.59 * ((n >> 8) & 255) + 0.11 * (n & 255) > 125; };
  let most = 1;
  for (const loads of read.loads) for (const load of loads) most = Math.max(most, load);
  const weight = (load) => most <= 1 ? 1 : Math.min(2, Math.ceil(3 * load / most) - 1);

  function links(frame) {
    const d = { flow0: [], flow1: [], flow2: [], heads: [] };
    read.links[frame].forEach((link, at) => {
      d["flow" + weight(read.loads[frame][at])].push(paths[link]);
      if (tips.length) d.heads.push(tips[link]);
    });
    for (const name of ["lost", "forged"]) d[name] = Array.from(read[name][frame], (link) => paths[link]);
    d["forged-heads"] = Array.from(read.forged[frame], (link) => tips[link]);
    d.withheld = Array.from(read.withheld[frame], (link) => stops[link]);
    for (const layer of layers) layer.setAttribute("d", d[layer.id].join("\n"));
  }

  function paint(rank, fill, ink, fresh) {
    if (!fixed.has(rank)) {
      circles[rank].setAttribute("fill", fill);
      if (names[rank]) names[rank].setAttribute("fill", ink);
    }
    circles[rank].style.strokeWidth = fresh ? 3 : "";
  }

  function votes(frame) {
    const { colours } = data.votes, heard = circles.map(() => 0), settled = circles.map(() => colours.map(() => 0));
    const fresh = new Set();
    for (let at = 0; at <= frame; at++) {
      const some = read.heard[at], over = read.settled[at];
      for (let k = 0; k < some.length; k += 2) heard[some[k]] += some[k + 1];
      for (let k = 0; k < over.length; k += 3) {
        settled[over[k]][over[k + 1]] += over[k + 2];
        if (at === frame) fresh.add(over[k]);
      }
    }
    circles.forEach((circle, rank) => {
      const state = data.pies ? undefined : stateOf(settled[rank], heard[rank], data.full[rank]);
      paint(rank, colours[state] ?? "var(--paper)", state ? "#111" : "var(--ink)", fresh.has(rank));
    });
    if (!data.pies) return;
    const low = circles.map(() => 0);
    colours.forEach((colour, kind) => {
      progress[kind].setAttribute("fill", colour);
      progress[kind].setAttribute("d", circles.map((circle, rank) => {
        const start = low[rank];
        low[rank] += settled[rank][kind] / data.full[rank];
        return slice(circle, start, low[rank]);
      }).join(""));
    });
  }

  function slice(circle, low, high) {
    const [x, y, r] = ["cx", "cy", "r"].map((name) => +circle.getAttribute(name));
    if (high <= low) return "";
    if (high - low > 1 - 1e-6) return `M${x} ${y - r}a${r} ${r} 0 1 1 -.01 0z`;
    const at = (share) => `${(x + r * Math.sin(2 * Math.PI * share)).toFixed(2)} ${(y - r * Math.cos(2 * Math.PI * share)).toFixed(2)}`;
    return `M${x} ${y}L${at(low)}A${r} ${r} 0 ${high - low > 0.5 ? 1 : 0} 1 ${at(high)}z`;
  }

  function nodes(frame) {
    const have = new Array(circles.length).fill(0), when = new Array(circles.length).fill(-1);
    for (let at = 0; at <= frame; at++) {
      const gains = read.gains[at];
      for (let k = 0; k < gains.length; k += 2) { have[gains[k]] += gains[k + 1]; when[gains[k]] = at; }
    }
    const shares = have.map((pieces, rank) => data.full[rank] ? Math.min(1, pieces / data.full[rank]) : 0);
    if (data.pies) {
      progress[0].setAttribute("fill", data.colours[frame]);
      progress[0].setAttribute("d", circles.map((circle, rank) => slice(circle, 0, shares[rank])).join(""));
    }
    circles.forEach((circle, rank) => {
      const share = shares[rank], fresh = when[rank] === frame, never = when[rank] < 0;
      if (data.pies) { paint(rank, "var(--paper)", "var(--ink)", fresh); return; }
      const colour = never ? "var(--paper)" : data.colours[when[rank]];
      const part = Math.round(20 + 80 * share);
      paint(rank, never || share === 1 ? colour : `color-mix(in srgb, ${colour} ${part}%, var(--paper))`,
        never || share < 0.6 ? "var(--ink)" : isBright(colour) ? "#111" : "#fff", fresh);
    });
  }

  /** Show a frame; -1 is the whole run. */
  function show(frame) {
    const all = frame < 0;
    if (slices) slices.style.display = all ? "" : "none";
    if (all) for (const part of progress) part.setAttribute("d", "");
    if (data.kind === "links") {
      if (all) {
        layers.forEach((layer, at) => layer.setAttribute("d", whole[at]));
        circles.forEach((circle, rank) => {
          circle.setAttribute("fill", initial[rank]);
          circle.style.strokeWidth = "";
        });
        names.forEach((name, rank) => name.setAttribute("fill", inks[rank]));
      } else { links(frame); (data.votes ? votes : nodes)(frame); }
    }
    if (data.kind === "levels") {
      const row = data.levels[all ? data.levels.length - 1 : frame], d = levels.map(() => []);
      for (let at = 0; at < row.length; at++) d[+row[at]].push(data.squares[at]);
      levels.forEach((level, at) => level.setAttribute("d", d[at].join("")));
    }
    for (const cell of cells) cell.classList.toggle("later", !all && +cell.dataset.frame > frame);
    for (const cross of crosses) cross.style.display = all || +cross.dataset.step <= data.last[frame] ? "" : "none";
    for (const cursor of cursors) {
      const left = +cursor.dataset.left, unit = (cursor.dataset.right - left) / cursor.dataset.steps;
      cursor.setAttribute("x", all ? 0 : left + (data.first[frame] - 1) * unit);
      cursor.setAttribute("width", all ? 0 : Math.max(1.5, (data.last[frame] - data.first[frame] + 1) * unit));
    }
  }

  const text = (frame) => frame < 0 ? "whole run: " + data.whole
    : "step " + data.names[frame] + " of " + data.last[data.last.length - 1] + ": " + data.texts[frame];

  /** The path of a used link by its sender and port; undefined for other links and on maps without links. */
  const senders = data.senders ? unpack(data.senders) : [], ports = data.ports ? unpack(data.ports) : [];
  const index = new Map(Array.from(senders, (sender, at) => [`${sender}/${ports[at]}`, at]));
  const path = (sender, port) => paths[index.get(`${sender}/${port}`)];

  /** The colour of a node on the map. */
  const colour = (rank) => circles[rank]?.getAttribute("fill");

  /** Whether the whole run is a tangle of links, none of which has anything to say by itself. */
  const tangled = senders.length > TANGLE && !["lost", "forged", "withheld"].some((name) => read[name].some((links) => links.length));

  return { show, text, path, colour, tangled, count: data.names.length };
}
