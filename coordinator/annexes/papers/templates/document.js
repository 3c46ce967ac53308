"use strict";
const tables = [...document.querySelectorAll("details")];
const filters = [...document.querySelectorAll("button[data-filter]")];
const has = (element, kind) => element.dataset.kinds.split(" ").includes(kind);

// A table without a matching row, such as one whose erratum stands in a note only, shows all its rows.
function filter(kind) {
  for (const button of filters) button.setAttribute("aria-pressed", String(button.dataset.filter === kind));
  for (const table of tables) {
    table.hidden = kind !== "" && !has(table, kind);
    table.open = kind !== "" && !table.hidden;
    const rows = [...table.querySelectorAll("tbody tr")];
    const some = rows.some((row) => has(row, kind));
    for (const row of rows) row.hidden = kind !== "" && some && !has(row, kind);
  }
  for (const part of document.querySelectorAll(".reproduction")) {
    part.hidden = ![...part.querySelectorAll("details")].some((table) => !table.hidden);
  }
}

// #ID opens the table of a permalink; #filter=KIND shows the rows of a kind.
function follow() {
  const hash = decodeURIComponent(location.hash.slice(1));
  const kind = hash.startsWith("filter=") ? hash.slice(7) : null;
  if (kind !== null && filters.some((button) => button.dataset.filter === kind)) filter(kind);
  const target = hash ? document.getElementById(hash) : null;
  if (target && target.tagName === "DETAILS") {
    if (target.hidden) filter("");
    target.open = true;
    target.scrollIntoView();
  }
}

for (const button of filters) {
  button.addEventListener("click", () => {
    filter(button.dataset.filter);
    history.replaceState(null, "", button.dataset.filter ? `#filter=${button.dataset.filter}` : location.pathname + location.search);
  });
}
for (const button of document.querySelectorAll("button[data-open]")) {
  button.addEventListener("click", () => tables.forEach((table) => { table.open = button.dataset.open !== ""; }));
}
let before = [];
addEventListener("beforeprint", () => { before = tables.map((table) => table.open); tables.forEach((table) => { table.open = true; }); });
addEventListener("afterprint", () => tables.forEach((table, at) => { table.open = before[at]; }));
addEventListener("hashchange", follow);
follow();
