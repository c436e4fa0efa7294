// What several widgets need. A widget writes `import { make } from "./common.js";` and is still shown as one file:
// `tfwidgets.module` puts this text in the place of that line. Tests in Node load the files as they are.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = ["svg", "g", "line", "circle", "path", "text", "tspan", "rect", "polygon", "clipPath", "title"];

// The line colours of tfcore.viz. A dark page makes them brighter, as it does those of the figures; a canvas cannot.
export const PLAIN = { BLUE: "#3b77c3", ORANGE: "#b75e0e", GREEN: "#118667", PINK: "#ba4e96", OLIVE: "#787840" };
export const [BLUE, ORANGE, GREEN, PINK, OLIVE] = Object.values(PLAIN).map(
  (colour) => `color-mix(in srgb, ${colour}, white var(--tf-lift, 0%))`,
);

// Make an element of HTML or SVG with attributes and with children: nodes, texts, or one of them.
export function make(tag, attributes = {}, children = []) {
  const node = SVG_TAGS.includes(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...[children].flat());
  return node;
}

// Make a cell of an attention map, darker for more weight. Who rests the pointer on it reads the weight.
export function mapCell(column, row, left, size, names, weight) {
  const says = `from ${names[row]} to ${names[column]}: ${weight.toFixed(2)}`;
  const place = { x: left + column * size, y: row * size, width: size - 0.7, height: size - 0.7 };
  return make("rect", { ...place, fill: BLUE, "fill-opacity": 0.08 + 0.92 * weight }, [make("title", {}, [says])]);
}

// Make entries of a <dl>, one for each title. `value` is the <dd> that a widget writes its number into.
export function numberEntries(titles) {
  return titles.map((title) => {
    const value = make("dd");
    return { value, entry: make("div", {}, [make("dt", {}, [title]), value]) };
  });
}

// Return softmax of one row of scores, an array or a typed array, as an array.
export function softmax(row) {
  const peak = row.reduce((most, x) => Math.max(most, x), -Infinity);
  const parts = Array.from(row, (x) => Math.exp(x - peak));
  const total = parts.reduce((all, part) => all + part, 0);
  return parts.map((part) => part / total);
}

// Return a function that draws numbers in [0, 1) by mulberry32, the same as `uniforms` in tfwidgets/draws.py.
export function uniforms(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

// Yield standard normal numbers by Box and Muller, the same as `normals` in tfwidgets/draws.py.
export function* normals(seed) {
  const uniform = uniforms(seed);
  for (;;) {
    const radius = Math.sqrt(-2 * Math.log(1 - uniform()));
    const angle = 2 * Math.PI * uniform();
    yield radius * Math.cos(angle);
    yield radius * Math.sin(angle);
  }
}

// Let keys, mouse and finger choose one of the words in `strip`. `place()` is the word that is chosen now; `go(i)`
// chooses another and keeps i within the sentence.
export function chooseWord(strip, place, go) {
  const far = (node, { clientX, clientY }) => {
    const box = node.getBoundingClientRect();
    const beside = Math.max(box.left - clientX, 0, clientX - box.right);
    return beside + 3 * Math.max(box.top - clientY, 0, clientY - box.bottom);
  };
  const follow = (event) => {
    const distances = [...strip.children].map((node) => far(node, event));
    go(distances.indexOf(Math.min(...distances)));
  };
  strip.addEventListener("keydown", (event) => {
    const all = strip.children.length;
    const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, Home: -all, End: all };
    if (!(event.key in steps)) return;
    event.preventDefault();
    go(place() + steps[event.key]);
  });
  strip.addEventListener("pointerdown", (event) => {
    strip.setPointerCapture(event.pointerId);
    strip.focus();
    event.preventDefault();
    follow(event);
  });
  strip.addEventListener("pointermove", (event) => strip.hasPointerCapture(event.pointerId) && follow(event));
}
