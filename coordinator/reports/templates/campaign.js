"use strict";
// Draws the curves of a campaign again, so that a reader can look closer. Without it, the page shows fixed pictures.
(() => {
  const NS = "http://www.w3.org/2000/svg", MARKS = ["circle", "square", "triangle", "diamond"];
  const COLOURS = ["blue", "orange", "green", "purple", "red", "sky", "grey"];
  const figures = JSON.parse(document.getElementById("data").textContent);

  function add(parent, name, attributes, text) {
    const element = parent.appendChild(document.createElementNS(NS, name));
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (text !== undefined) element.textContent = text;
    return element;
  }

  function html(parent, name, attributes, text) {
    const element = parent.appendChild(document.createElement(name));
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (text !== undefined) element.textContent = text;
    return element;
  }

  const percent = (share) => {
    const value = 100 * share;
    return (value === 0 || value === 100 ? String(value) : value < 0.01 ? value.toExponential(1) : value > 99 && value < 100 ?
      (100 - value < 0.01 ? `100 - ${(100 - value).toExponential(1)}` : value.toFixed(2)) : Number(value.toPrecision(4)).toString()) + " %";
  };

  function outline(kind, x, y, r) {
    switch (MARKS[kind % 4]) {
      case "circle": return `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`;
      case "square": return `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}z`;
      case "triangle": return `M${x} ${y - 1.2 * r}l${1.2 * r} ${2.1 * r}h${-2.4 * r}z`;
      default: return `M${x} ${y - 1.3 * r}l${1.3 * r} ${1.3 * r}l${-1.3 * r} ${1.3 * r}l${-1.3 * r} ${-1.3 * r}z`;
    }
  }

  class Chart {
    constructor(box, given) {
      this.given = given;
      this.hidden = new Set();
      this.log = false;
      this.at = null;
      html(box, "p", { class: "live-title" }, given.title);
      const controls = html(box, "div", { class: "controls", role: "group", "aria-label": `series of ${given.title}` });
      given.series.forEach((series, number) => {
        const button = html(controls, "button", { type: "button", "aria-pressed": "true", class: "series" });
        const key = add(button, "svg", { viewBox: "0 0 12 12", width: 12, height: 12, "aria-hidden": "true" });
        add(key, "path", { d: outline(number, 6, 6, 4), fill: this.colour(number) });
        button.append(` ${series.name}`);
        button.addEventListener("click", () => this.toggle(number, button));
      });
      const scale = html(controls, "button", { type: "button", "aria-pressed": "false", class: "log" },
        given.loss ? "log scale of what is lost" : "log scale");
      scale.addEventListener("click", () => {
        this.log = !this.log;
        scale.setAttribute("aria-pressed", String(this.log));
        this.draw();
      });
      this.svg = add(box, "svg", { class: "chart live", tabindex: "0", role: "img", "aria-label":
        `${given.title}. Left and right move from point to point, up and down from series to series.` });
      this.output = html(box, "output", { class: "quiet", "aria-live": "polite" });
      this.svg.addEventListener("pointermove", (event) => this.point(event));
      this.svg.addEventListener("pointerdown", (event) => this.point(event));
      this.svg.addEventListener("pointerleave", () => this.show(null));
      this.svg.addEventListener("keydown", (event) => this.key(event));
      this.svg.addEventListener("focus", () => { if (!this.at) this.show(this.points()[0] || null); });
      new ResizeObserver(() => this.draw()).observe(box);
      this.draw();
    }

    colour(number) { return `var(--${COLOURS[number % COLOURS.length]})`; }

    toggle(number, button) {
      if (!this.hidden.delete(number)) this.hidden.add(number);
      button.setAttribute("aria-pressed", String(!this.hidden.has(number)));
      this.at = null;
      this.draw();
    }

    // Every point that is drawn: {series, place, x, y} in data.
    points() {
      return this.given.series.flatMap((series, number) => this.hidden.has(number) ? [] :
        series.points.map(([x, y, low, high], place) => ({ number, place, x, y, low, high })));
    }

    // The number that the vertical axis shows for a ratio: on the logarithmic scale of ratios, what is missing to 1.
    value(y) { return this.log && this.given.loss ? 1 - y : y; }

    draw() {
      const width = Math.max(280, this.svg.clientWidth || 560), height = Math.round(Math.min(360, Math.max(230, 0.55 * width)));
      const left = this.log && this.given.loss ? 72 : 50, right = width - 14, top = 14, bottom = height - 44, { given, svg } = this;
      svg.replaceChildren();
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      svg.setAttribute("height", height);
      const xs = given.series.flatMap((series) => series.points.map(([x]) => x));
      const low = Math.min(...xs), high = Math.max(...xs), room = right - left - 20;
      this.x = (x) => left + 10 + (high > low ? room * (x - low) / (high - low) : room / 2);
      const shown = this.points().flatMap((point) => [point.y, point.low, point.high]).filter((y) => y !== undefined);
      const positive = shown.map((y) => this.value(y)).filter((y) => y > 0);
      const decades = -Math.floor(Math.log10(Math.min(...positive, 0.5)) + 1e-9);
      // A logarithmic scale has no 0: values that are 0 stand on a line of their own, a decade below the least.
      const zero = shown.some((y) => this.value(y) <= 0), span = decades + Number(zero);
      const share = (y) => !this.log ? this.value(y) : this.value(y) <= 0 ? 0 : 1 + Math.log10(this.value(y)) / span;
      this.y = (y) => this.log && given.loss ? top + (bottom - top) * share(y) : bottom - (bottom - top) * share(y);
      const every = Math.ceil(decades / 6), powers = Array.from({ length: Math.floor(decades / every) + 1 }, (_, at) => 10 ** (-at * every));
      const ticks = this.log ? [...powers, ...(zero ? [0] : [])] : [0, 0.25, 0.5, 0.75, 1];
      for (const tick of ticks) {
        const y = this.y(this.log && given.loss ? 1 - tick : tick);
        add(svg, "path", { class: "axis", d: `M${left} ${y}H${right}` });
        add(svg, "text", { class: "end", x: left - 6, y: y + 4 }, this.log && given.loss ? `${percent(tick)} lost` : percent(tick));
      }
      const values = [...new Set(xs)].sort((a, b) => a - b), skip = Math.ceil(values.length / (width / 45));
      values.filter((_, at) => at % skip === 0).forEach((x) =>
        add(svg, "text", { class: "middle", x: this.x(x), y: bottom + 17 }, Number(x.toPrecision(4))));
      add(svg, "text", { class: "middle", x: (left + right) / 2, y: bottom + 36 }, given.xlabel);
      given.series.forEach((series, number) => this.hidden.has(number) || this.line(svg, series, number));
      this.cursor = add(svg, "path", { fill: "none", stroke: "var(--ink)", "stroke-width": 1.5 });
      this.show(this.at);
    }

    line(svg, series, number) {
      const group = add(svg, "g", { class: "line-of", "data-name": series.name }), colour = this.colour(number);
      add(group, "path", { class: "line", stroke: colour, d: "M" + series.points.map(([x, y]) => `${this.x(x)} ${this.y(y)}`).join("L") });
      for (const [x, y, low, high] of series.points) {
        if (low !== undefined && low < high) add(group, "path", { stroke: colour, fill: "none", d: `M${this.x(x)} ${this.y(low)}V${this.y(high)}` });
        add(group, "path", { class: "mark", fill: colour, d: outline(number, this.x(x), this.y(y), 3.6) });
      }
      for (const [x, y] of series.theory || [])
        add(group, "path", { stroke: "var(--ink)", fill: "none", d: `M${this.x(x) - 4} ${this.y(y) - 4}l8 8m0 -8l-8 8` });
    }

    point(event) {
      const box = this.svg.getBoundingClientRect(), scale = this.svg.viewBox.baseVal.width / box.width;
      const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
      let best = null, least = Infinity;
      for (const point of this.points()) {
        // Distance along the axis counts more: a reader looks for the series at one number of faults.
        const distance = 2 * Math.abs(this.x(point.x) - x) + Math.abs(this.y(point.y) - y);
        if (distance < least) [best, least] = [point, distance];
      }
      this.show(best);
    }

    key(event) {
      const along = { ArrowLeft: -1, ArrowRight: 1 }[event.key], across = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (event.key === "Escape") this.show(null);
      if (!along && !across) return;
      event.preventDefault();
      const points = this.points();
      if (!points.length) return;
      const now = this.at || points[0], mine = points.filter((point) => point.number === now.number);
      if (along) return this.show(mine[Math.min(mine.length - 1, Math.max(0, now.place + along))]);
      const numbers = [...new Set(points.map((point) => point.number))];
      const next = numbers[(numbers.indexOf(now.number) + across + numbers.length) % numbers.length];
      const there = points.filter((point) => point.number === next);
      this.show(there.reduce((a, b) => Math.abs(b.x - now.x) < Math.abs(a.x - now.x) ? b : a));
    }

    show(point) {
      this.at = point;
      this.cursor.setAttribute("d", point ? outline(0, this.x(point.x), this.y(point.y), 7) : "");
      if (!point) { this.output.textContent = ""; return; }
      const series = this.given.series[point.number], theory = (series.theory || []).find(([x]) => x === point.x);
      const range = point.low !== undefined && point.low < point.high ? ` (${percent(point.low)} to ${percent(point.high)})` : "";
      this.output.textContent = `${series.name}, ${Number(point.x.toPrecision(4))} ${this.given.xlabel}: ${percent(point.y)}${range}` +
        (theory ? `; theory ${percent(theory[1])}` : "");
    }
  }

  document.documentElement.classList.add("scripted");
  for (const box of document.querySelectorAll(".live-chart")) new Chart(box, figures[box.dataset.figure]);
  for (const button of document.querySelectorAll("button.copy"))
    button.addEventListener("click", () => navigator.clipboard?.writeText(button.previousElementSibling.textContent)
      .then(() => { button.textContent = "copied"; }));
})();
