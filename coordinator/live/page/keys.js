// Keys of the page: a keyboard or the remote control of a presenter steps through the run.

import { element } from "/element.js";

/** Keys, what they are called, and what they do, by the name of an action. */
const KEYS = [
  [[" ", "ArrowRight", "PageDown"], "Space, →, Page Down", "step", "next step; in the past, one step forward"],
  [["ArrowLeft", "PageUp"], "←, Page Up", "back", "one step back in the picture"],
  [["End"], "End", "newest", "back to the newest step"],
  [["c"], "c", "crash", "crash the selected node, or cut the selected link"],
  [["u"], "u", "undo", "undo the last fault"],
  [["b"], "b", "branch", "branch after the step in the picture"],
  [["a"], "a", "again", "start again"],
  [["r"], "r", "run", "run, or pause"],
  [["/"], "/", "find", "find a node by its label"],
  [["Escape"], "Escape", "nothing", "select nothing, close this list"],
  [["+", "-", "0"], "+, −, 0", "zoom", "zoom in, zoom out, whole network"],
  [["l"], "l", "large", "larger letters"],
  [["d"], "d", "dark", "dark or light"],
  [["f"], "f", "full", "full screen"],
  [["?"], "?", "help", "show or hide this list"],
];
const TAKES_KEYS = "input, select, textarea, summary, button:enabled";

/** Call the action of a key, unless a field or a button has the focus. A click with a pointer leaves the keys to the page. */
export function listenToKeys(actions) {
  const names = new Map(KEYS.flatMap(([keys, , name]) => keys.map((key) => [key, name])));
  let pointed = false;
  const release = (event) => pointed && event.target.closest("button, summary, select, input[type=range]")?.blur();
  addEventListener("pointerdown", () => { pointed = true; }, true);
  addEventListener("keydown", () => { pointed = false; }, true);
  addEventListener("click", (event) => event.target.closest("button, summary") && event.detail && release(event));
  addEventListener("change", release);
  addEventListener("pointerup", (event) => event.target.matches?.("input[type=range]") && event.target.blur());
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented) return;
    if (event.key === "Escape") document.activeElement.blur();
    const name = names.get(event.key);
    if (!name || event.target.closest?.(TAKES_KEYS)) return;
    event.preventDefault();
    if (!event.repeat) actions[name](event.key);
  });
}

/** The list of all keys. */
export function listOfKeys() {
  return element("dl", {}, ...KEYS.flatMap(([, keys, , does]) => [element("dt", {}, keys), element("dd", {}, does)]),
    element("dt", {}, "arrows"), element("dd", {}, "with the picture in focus (Tab): the next node that way"));
}
