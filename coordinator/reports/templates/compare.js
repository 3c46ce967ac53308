"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const slider = $("slider"), play = $("play"), whole = $("whole"), now = $("now"), sides = [];
  let timer = 0;

  // A report in a frame: its slider, and the last step of each position of the slider.
  function side(element) {
    const frame = element.querySelector("iframe"), inner = frame.contentDocument;
    // Not its scrollHeight, which is at least the height of the frame: a part that shrinks would leave a gap.
    const fit = () => { frame.style.height = Math.ceil(inner.documentElement.getBoundingClientRect().height) + "px"; };
    new ResizeObserver(fit).observe(inner.body);
    fit();
    const data = inner.getElementById("data"), own = inner.getElementById("slider");
    const last = data && own ? JSON.parse(data.textContent).last : [];
    return { inner, own, last, text: element.querySelector("output") };
  }

  function showIn({ inner, own, last, text }, step) {
    if (!last.length) return;
    if (step === 0) inner.getElementById("whole").click();
    else {
      const frame = last.findIndex((end) => step <= end);
      own.value = frame < 0 ? last.length : frame + 1;
      own.dispatchEvent(new Event("input", { bubbles: true }));
    }
    text.textContent = inner.getElementById("now").textContent;
  }

  // Step 0 stands for the whole run.
  function show(step) {
    if (step) slider.value = step;
    whole.setAttribute("aria-pressed", step === 0);
    now.textContent = step ? `step ${step} of ${slider.max}` : "whole run";
    for (const each of sides) showIn(each, step);
  }

  function stop() {
    clearInterval(timer);
    timer = 0;
    play.textContent = "Play";
    play.setAttribute("aria-pressed", "false");
  }

  function start() {
    let step = whole.getAttribute("aria-pressed") === "true" || +slider.value === +slider.max ? 0 : +slider.value;
    const next = () => {
      show(++step);
      if (step >= +slider.max) stop();
    };
    play.textContent = "Pause";
    play.setAttribute("aria-pressed", "true");
    timer = setInterval(next, +slider.max > 60 ? 150 : 700);
    next();
  }

  function wanted() {
    const step = +(/^#step=(\d{1,9})$/.exec(location.hash) || [])[1];
    if (step >= 1) { stop(); show(Math.min(step, +slider.max)); }
  }

  window.addEventListener("load", () => {
    for (const element of document.querySelectorAll(".side")) sides.push(side(element));
    slider.max = Math.max(1, ...sides.map(({ last }) => last.length ? last[last.length - 1] : 1));
    slider.value = slider.max;
    slider.addEventListener("input", () => { stop(); show(+slider.value); });
    whole.addEventListener("click", () => { stop(); show(0); });
    play.addEventListener("click", () => { if (timer) stop(); else start(); });
    window.addEventListener("hashchange", wanted);
    window.addEventListener("beforeprint", () => { stop(); show(0); });
    show(0);
    wanted();
  });
})();
