// The time axis of the space-time diagrams: all of them show one stretch of the run, which buttons and a slider choose.

import { svgElement } from "../shared/element.js";

const CLOSEST = 64; // times as close as the whole run
const TICKS = 6;

/** The distance of round numbers of which about TICKS lie in a stretch. */
function distance(stretch) {
  const raw = stretch / TICKS, power = 10 ** Math.floor(Math.log10(raw));
  return power * [1, 2, 5, 10].find((step) => step * power >= raw);
}

/** A diagram: `draw` moves everything in its plot, and its ticks, to where a stretch of milliseconds puts them. */
function diagram(chart, number) {
  const [left, right, last, bottom] = chart.dataset.times.split(" ").map(Number);
  const plot = chart.querySelector(".plot"), ticks = chart.querySelector(".ticks"), whole = [...ticks.childNodes];
  const paths = [...plot.querySelectorAll("path")].map((path) => [path, path.getAttribute("d")]);
  const bars = [...plot.querySelectorAll("rect")].map((bar) => [bar, Number(bar.getAttribute("x")), Number(bar.getAttribute("width"))]);
  const clip = svgElement("clipPath", { id: `times-${number}` }, svgElement("rect", { x: left - 6, y: 0, width: right - left + 12, height: bottom }));
  chart.prepend(clip);
  plot.setAttribute("clip-path", `url(#times-${number})`);

  function draw(from, to) {
    const at = (time) => left + ((time - from) / (to - from)) * (right - left);
    const moved = (x) => at(((x - left) / (right - left)) * last);
    // Places are absolute; the shapes at them are relative, and keep their size.
    for (const [path, d] of paths) path.setAttribute("d", d.replace(/([ML])(-?[\d.]+)/g, (_, letter, x) => letter + moved(Number(x)).toFixed(1)));
    for (const [bar, x, width] of bars) {
      bar.setAttribute("x", moved(x).toFixed(1));
      bar.setAttribute("width", Math.max(1, moved(x + width) - moved(x)).toFixed(1));
    }
    if (from === 0 && to === last) return ticks.replaceChildren(...whole);
    const step = distance(to - from), texts = [];
    for (let tick = Math.ceil(from / step); tick * step <= to; tick++) {
      texts.push(svgElement("text", { class: "middle", x: at(tick * step).toFixed(1), y: String(bottom + 14) }, String(Number((tick * step).toPrecision(10)))));
    }
    ticks.replaceChildren(...texts, whole[whole.length - 1]);
  }

  return { draw, last };
}

/** Let the reader zoom into the diagrams of a page, if it has any. */
export function zoomTimes() {
  const $ = (id) => document.getElementById(`times${id}`), charts = [...document.querySelectorAll("svg[data-times]")];
  if (!$("") || !charts.length) return;
  const diagrams = charts.map(diagram), last = Math.max(...diagrams.map((each) => each.last));
  let zoom = 1, middle = last / 2;

  function show() {
    const half = last / zoom / 2;
    middle = Math.max(half, Math.min(last - half, middle));
    // The whole run of each diagram is its own: packets can be achieved later than they were intended.
    for (const each of diagrams) each.draw(...(zoom === 1 ? [0, each.last] : [middle - half, middle + half]));
    $("-whole").setAttribute("aria-pressed", zoom === 1);
    $("-slider").disabled = $("-farther").disabled = zoom === 1;
    $("-closer").disabled = zoom >= CLOSEST;
    $("-slider").value = zoom === 1 ? 500 : (1000 * (middle - half)) / (last - 2 * half);
    const round = (time) => String(Number(time.toPrecision(4)));
    $("-shown").textContent = zoom === 1 ? "" : `${round(middle - half)} to ${round(middle + half)} of ${round(last)} ms`;
  }

  const zoomTo = (wanted) => { zoom = Math.max(1, Math.min(CLOSEST, wanted)); show(); };
  $("-closer").addEventListener("click", () => zoomTo(2 * zoom));
  $("-farther").addEventListener("click", () => zoomTo(zoom / 2));
  $("-whole").addEventListener("click", () => zoomTo(1));
  $("-slider").addEventListener("input", () => {
    const half = last / zoom / 2;
    middle = half + (Number($("-slider").value) / 1000) * (last - 2 * half);
    show();
  });
  window.addEventListener("beforeprint", () => zoomTo(1));
  $("").hidden = false;
  show();
}
