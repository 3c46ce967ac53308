"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const body = document.querySelector(".runs tbody"), headings = [...document.querySelectorAll(".runs th[data-key]")];
  const entries = JSON.parse($("runs").textContent);
  const rows = [...body.rows].map((row, at) => ({ row, entry: entries[at], text: textOf(row, entries[at]) }));
  const chosen = []; // the runs that are ticked, at most two
  let order = { key: "time", falling: true };

  function textOf(row, entry) {
    return `${row.textContent} ${entry.path}`.toLowerCase();
  }

  // --- which rows are shown, and where

  const KEYS = {
    delivered: ({ delivered, expected }) => (expected ? (delivered ?? 0) / expected : -1),
    faults: (entry) => entry.fault_count,
    title: (entry) => `${entry.topology} ${entry.collective} ${entry.algorithm}`,
    outcome: (entry) => entry.verdict,
  };
  const keyOf = (entry, key) => (KEYS[key] ?? ((each) => each[key] ?? -1))(entry);

  function compared(one, other) {
    const [a, b] = [one, other].map(({ entry }) => keyOf(entry, order.key));
    return (a < b ? -1 : a > b ? 1 : 0) * (order.falling ? -1 : 1);
  }

  function arrange() {
    const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean), by = $("group").value;
    const kept = rows.filter(({ text }) => words.every((word) => text.includes(word))).sort(compared);
    const groups = new Map();
    for (const each of kept) {
      const name = by ? String(by === "faults" ? each.entry.faults || "no fault" : each.entry[by] ?? each.entry.verdict) : "";
      groups.set(name, [...(groups.get(name) ?? []), each]);
    }
    body.replaceChildren(...[...groups].flatMap(([name, members]) => [...(by ? [heading(name, members)] : []), ...members.map(({ row }) => row)]));
    $("shown").textContent = words.length ? `${kept.length} of ${rows.length}` : "";
  }

  function heading(name, members) {
    const row = document.createElement("tr"), cell = document.createElement("th");
    row.className = "group";
    cell.colSpan = headings.length + 1;
    cell.scope = "colgroup";
    const holds = members.filter(({ entry }) => entry.verdict === "holds").length;
    cell.textContent = `${name}: ${members.length} run${members.length === 1 ? "" : "s"}, ${holds} hold${holds === 1 ? "s" : ""}`;
    row.append(cell);
    return row;
  }

  function sortBy(key) {
    // Counts and times begin with the largest, words with the first.
    const words = ["title", "outcome"].includes(key);
    order = { key, falling: order.key === key ? !order.falling : !words };
    for (const each of headings) {
      if (each.dataset.key === key) each.setAttribute("aria-sort", order.falling ? "descending" : "ascending");
      else each.removeAttribute("aria-sort");
    }
    arrange();
  }

  // --- two runs side by side

  const SHOWN = {
    run: (entry) => entry.path, network: (entry) => entry.topology, collective: (entry) => entry.collective,
    algorithm: (entry) => entry.algorithm, driver: (entry) => entry.driver, clock: (entry) => entry.clock,
    redundancy: (entry) => entry.redundancy ?? "-", faults: (entry) => entry.faults || "none", seed: (entry) => entry.seed,
    delivered: ({ delivered, expected }) => (delivered === null || expected === null ? "-" : `${delivered} of ${expected}`),
    steps: (entry) => entry.steps ?? "-", packets: (entry) => entry.packets ?? "-", verdict: (entry) => entry.verdict,
    history: (entry) => (entry.journal_hash || "-").slice(0, 12),
  };
  let frames = []; // none without a comparison: an empty page would be one more page for a screen reader
  const address = (entry) => `${entry.path.split("/").map(encodeURIComponent).join("/")}/report.html`;

  function choose(each, box) {
    const at = chosen.indexOf(each);
    if (at >= 0) chosen.splice(at, 1);
    else chosen.push(each);
    // A third one takes the place of the first.
    if (chosen.length > 2) chosen.shift();
    for (const other of rows) {
      const ticked = chosen.includes(other);
      other.row.classList.toggle("chosen", ticked);
      other.row.querySelector(".tick input").checked = ticked;
    }
    compare();
    if (box.checked && chosen.length === 2) $("comparison-title").focus();
  }

  function compare() {
    const both = chosen.map(({ entry }) => entry);
    $("comparison").hidden = both.length < 2;
    frames = both.map((entry, at) => {
      const frame = document.createElement("iframe");
      frame.title = `Report of run ${"AB"[at]}`;
      // A report begins with its summary; its map is what the slider moves.
      frame.src = `${address(entry)}#network`;
      return frame;
    });
    $("frames").replaceChildren(...(both.length < 2 ? [] : frames));
    if (both.length < 2) return;
    const differing = Object.entries(SHOWN).map(([name, value]) => [name, ...both.map((entry) => String(value(entry)))])
      .filter(([, one, other]) => one !== other);
    $("differences").replaceChildren(...differing.map((cells) => {
      const row = document.createElement("tr");
      row.append(...cells.map((text, at) => {
        const cell = document.createElement(at ? "td" : "th");
        if (!at) cell.scope = "row";
        cell.textContent = text;
        return cell;
      }));
      return row;
    }));
    const quoted = both.map(({ path }) => (/^[\w./@:+-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`));
    $("command").textContent = `coordinator compare ${quoted.map((path) => `runs/${path}`).join(" ")} --out comparison.html`;
    $("slider").max = Math.max(1, ...both.map((entry) => entry.steps ?? 0));
    $("slider").value = 0;
    $("step").textContent = "whole run";
  }

  function show() {
    const step = Number($("slider").value);
    $("step").textContent = step ? `step ${step} of ${$("slider").max}` : "whole run";
    chosen.forEach(({ entry }, at) => {
      const last = Math.min(step, entry.steps ?? step);
      frames[at].src = `${address(entry)}#step=${last}`;
    });
  }

  // --- the page begins

  for (const each of headings) {
    const button = document.createElement("button");
    button.append(...each.childNodes);
    button.addEventListener("click", () => sortBy(each.dataset.key));
    each.append(button);
  }
  for (const each of rows) {
    const box = each.row.querySelector(".tick input");
    box.addEventListener("change", () => choose(each, box));
  }
  for (const element of document.querySelectorAll(".tick, .filter, .hint")) element.hidden = false;
  for (const picture of document.querySelectorAll(".runs img")) {
    const hide = () => { picture.style.visibility = "hidden"; };
    picture.addEventListener("error", hide);
    if (picture.complete && !picture.naturalWidth) hide();
  }
  $("filter").addEventListener("input", arrange);
  $("group").addEventListener("change", arrange);
  $("slider").addEventListener("input", show);
  arrange();
})();
