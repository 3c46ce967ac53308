// The map as a file: SVG without style sheets, and PNG.

const PROPERTIES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap", "stroke-linejoin",
  "opacity", "font-size", "font-family", "text-anchor", "dominant-baseline", "paint-order", "vector-effect", "display"];

/** Colours as other programs understand them: `color(srgb ..)`, which mixtures have, becomes `rgb(..)`. */
function plain(value) {
  return value.replace(/color\(srgb ([\d.e-]+) ([\d.e-]+) ([\d.e-]+)[^)]*\)/g,
    (_, ...parts) => `rgb(${parts.slice(0, 3).map((part) => Math.round(255 * part)).join(", ")})`);
}

/** The map as an SVG document that looks as it does on the page. */
export function asSvg(map) {
  const copy = map.cloneNode(true), [, , width, height] = map.getAttribute("viewBox").split(" ").map(Number);
  const elements = [...map.querySelectorAll("*")], copies = [...copy.querySelectorAll("*")];
  elements.forEach((one, at) => {
    const style = getComputedStyle(one), target = copies[at];
    target.removeAttribute("style");
    target.removeAttribute("class");
    if (one.tagName === "title") return;
    for (const name of PROPERTIES) {
      const value = style.getPropertyValue(name);
      if (value && target.getAttribute(name) !== value && value !== DEFAULTS[name]) target.setAttribute(name, plain(value));
    }
  });
  copies.forEach((target) => target.getAttribute("display") === "none" && target.remove());
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  const [left, top] = map.getAttribute("viewBox").split(" ");
  for (const [name, value] of Object.entries({ x: left, y: top, width, height })) ground.setAttribute(name, value);
  ground.setAttribute("fill", getComputedStyle(document.documentElement).backgroundColor);
  copy.prepend(ground);
  for (const name of ["id", "class", "style"]) copy.removeAttribute(name);
  copy.setAttribute("width", 1000);
  copy.setAttribute("height", Math.round((1000 * height) / width));
  return new XMLSerializer().serializeToString(copy);
}

const DEFAULTS = {
  "fill-opacity": "1", "stroke": "none", "stroke-opacity": "1", "stroke-dasharray": "none", "stroke-linecap": "butt", "stroke-linejoin": "miter",
  "opacity": "1", "text-anchor": "start", "dominant-baseline": "auto", "paint-order": "normal", "vector-effect": "none", "display": "inline",
};

function download(name, url) {
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
}

export function saveSvg(map, name) {
  const url = URL.createObjectURL(new Blob([asSvg(map)], { type: "image/svg+xml" }));
  download(`${name}.svg`, url);
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

/** The map as PNG, a data URL; twice as large as the SVG. */
export async function asPng(map) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(asSvg(map))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [2 * image.naturalWidth, 2 * image.naturalHeight];
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/png");
}

export async function savePng(map, name) {
  download(`${name}.png`, await asPng(map));
}
