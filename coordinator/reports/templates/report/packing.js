// Integers as text, as `coordinator/reports/interactive/packing.py` writes them.

const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
const VALUES = new Uint8Array(128);
for (let at = 0; at < DIGITS.length; at++) VALUES[DIGITS.charCodeAt(at)] = at;

export function unpack(text) {
  const width = Number(text[0]), values = new Int32Array((text.length - 1) / width);
  for (let at = 0, place = 1; at < values.length; at++) {
    let value = 0;
    for (let digit = 0; digit < width; digit++) value = value * 64 + VALUES[text.charCodeAt(place++)];
    values[at] = value - 1;
  }
  return values;
}
