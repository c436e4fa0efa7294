// The online softmax: eight keys in blocks, with a running maximum, a running sum and a running output.
// State: read, block, lift, rescale. See online_softmax.py for what every number must be.

import { BLUE, ORANGE, make, numberEntries } from "./common.js";

const SCORES = [0.4, 1.6, 1.0, 2.4, 0.6, 1.4, 2.8, 1.8];
const VALUES = [4, 8, 2, 16, 6, 12, 10, 1];
const BLOCKS = [1, 2, 4, 8];
const LIFT = 8; // the later half is raised by at most this much
const [LOW, HIGH] = [-8, 11.5]; // the scores that the drawing shows
const [ACROSS, DOWN] = [340, 170]; // of the drawing, in its own units

const STYLE = `
.tfw-online { --ink: var(--pst-color-text-base, var(--jp-content-font-color1, #333));
  --faint: var(--pst-color-text-muted, var(--jp-content-font-color2, #6b7280));
  color: var(--ink); font: 0.95rem/1.45 var(--pst-font-family-base, system-ui, sans-serif); }
.tfw-online .controls { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 15rem), 1fr));
  gap: 0.2rem 1.5rem; }
.tfw-online label { display: flex; gap: 0.6rem; align-items: center; min-height: 2.1rem; }
.tfw-online label > span { min-width: 6.2em; }
.tfw-online input { accent-color: ${BLUE}; }
.tfw-online input[type="range"] { flex: 1; min-width: 5rem; }
.tfw-online input[type="checkbox"] { width: 1.1rem; height: 1.1rem; flex: none; }
.tfw-online output { min-width: 3em; text-align: right; font-variant-numeric: tabular-nums; }
.tfw-online svg { width: 100%; max-width: 38rem; height: auto; display: block; margin: 0.6rem auto 0; overflow: visible; }
.tfw-online text { font: 11px/1 var(--pst-font-family-base, system-ui, sans-serif); fill: var(--ink); }
.tfw-online text.title { fill: var(--faint); }
.tfw-online line.axis { stroke: var(--faint); stroke-width: 0.8; }
.tfw-online line.maximum { stroke: ${ORANGE}; stroke-width: 1.6; stroke-dasharray: 5 4; }
.tfw-online text.maximum { fill: ${ORANGE}; }
.tfw-online rect.block { fill: none; stroke: var(--faint); stroke-dasharray: 2 3; }
.tfw-online dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(max(8rem, 30%), 1fr)); gap: 0.4rem 1rem;
  margin: 0.75rem 0 0; }
.tfw-online dt { font-weight: 400; color: var(--faint); font-size: 0.85rem; margin: 0; }
.tfw-online dd { margin: 0; font-size: 1.05rem; font-variant-numeric: tabular-nums; }
.tfw-online dd.wrong { color: ${ORANGE}; }
.tfw-online .says { margin: 0.6rem 0 0; color: var(--faint); font-size: 0.9rem; }
`;

const minus = (text) => text.replace("-", "\u2212");
function short(x) {
  if (x !== 0 && Math.abs(x) < 0.001) return minus(x.toExponential(1));
  return minus(Math.abs(x) >= 10000 ? x.toExponential(2) : x.toFixed(3));
}

function compute({ read, block, lift, rescale }) {
  const scores = SCORES.map((score, i) => score + (i >= 4 ? lift : 0));
  let [maximum, sum, output, factor] = [-Infinity, 0, 0, 0];
  for (let start = 0; start < read; start += block) {
    const keys = scores.slice(0, read).map((_, i) => i).slice(start, start + block);
    const next = Math.max(maximum, ...keys.map((i) => scores[i]));
    factor = rescale || start === 0 ? Math.exp(maximum - next) : 1;
    sum = factor * sum + keys.reduce((total, i) => total + Math.exp(scores[i] - next), 0);
    output = factor * output + keys.reduce((total, i) => total + Math.exp(scores[i] - next) * VALUES[i], 0);
    maximum = next;
  }
  const parts = scores.slice(0, read).map((score) => Math.exp(score - maximum));
  const whole = parts.reduce((total, part) => total + part, 0);
  const exact = parts.reduce((total, part, i) => total + part * VALUES[i], 0) / whole;
  return { scores, maximum, sum, output, answer: output / sum, factor, exact };
}

const height = (score) => ((HIGH - score) / (HIGH - LOW)) * DOWN;

function drawing({ read, block }, { scores, maximum }) {
  const width = ACROSS / scores.length;
  const y = height(maximum);
  return [
    make("line", { class: "axis", x1: 0, x2: ACROSS, y1: height(0), y2: height(0) }),
    ...scores.map((score, i) =>
      make("rect", {
        x: i * width + 7, width: width - 14, y: Math.min(height(score), height(0)),
        height: Math.abs(height(score) - height(0)), fill: BLUE, "fill-opacity": i < read ? 1 : 0.28,
      }),
    ),
    make("rect", { class: "block", x: (read - block) * width + 1, y: 2, width: block * width - 2, height: DOWN - 4, rx: 3 }),
    make("line", { class: "maximum", x1: 0, x2: ACROSS, y1: y, y2: y }),
    make("text", { class: "maximum", x: ACROSS + 4, y: y + 4 }, ["max"]),
    make("text", { class: "title", x: ACROSS + 4, y: DOWN + 14 }, ["v"]),
    ...scores.map((_, i) =>
      make("text", { x: (i + 0.5) * width, y: DOWN + 14, "text-anchor": "middle" }, [String(VALUES[i])]),
    ),
  ];
}

function render({ model, el }) {
  const range = (label, min, max, step) => make("input", { type: "range", min, max, step, "aria-label": label });
  const read = range("Keys read", 1, VALUES.length, 1);
  const block = range("Keys in a block", 0, BLOCKS.length - 1, 1);
  const lift = range("Lift the later half", -LIFT, LIFT, 1);
  const shown = { read: make("output"), block: make("output"), lift: make("output") };
  const rescale = make("input", { type: "checkbox" });
  const svg = make("svg", {
    viewBox: `0 0 ${ACROSS + 28} ${DOWN + 18}`,
    role: "img",
    "aria-label": "Scores of eight keys as bars, the block that was read last in a frame, a line at the running maximum",
  });
  const titles = ["Maximum m", "Old sums times", "Sum \u2113", "Output \u00f5", "\u00f5 / \u2113", "Softmax, same keys"];
  const entries = numberEntries(titles);
  const says = make("p", { class: "says", "aria-live": "polite" });
  const row = (title, input, output) => make("label", {}, [make("span", {}, [title]), input, output]);
  const root = make("div", { class: "tfw-online" }, [
    make("style", {}, [STYLE]),
    make("div", { class: "controls" }, [
      row("Keys read", read, shown.read),
      row("In a block", block, shown.block),
      row("Lift later half", lift, shown.lift),
      make("label", {}, [rescale, "rescale the old sums"]),
    ]),
    svg,
    make("dl", {}, entries.map(({ entry }) => entry)),
    says,
  ]);
  el.append(root);

  let announce;
  function draw() {
    const state = {
      read: model.get("read"),
      block: model.get("block"),
      lift: model.get("lift"),
      rescale: model.get("rescale"),
    };
    const found = compute(state);
    read.min = state.block;
    read.step = state.block;
    read.value = state.read;
    block.value = BLOCKS.indexOf(state.block);
    lift.value = state.lift;
    rescale.checked = state.rescale;
    shown.read.textContent = `${state.read} of 8`;
    shown.block.textContent = state.block;
    shown.lift.textContent = minus(String(state.lift));
    read.setAttribute("aria-valuetext", `${state.read} of 8 keys`);
    block.setAttribute("aria-valuetext", `${state.block} keys in a block`);
    svg.replaceChildren(...drawing(state, found));
    const { maximum, factor, sum, output, answer, exact } = found;
    [maximum, factor, sum, output, answer, exact].forEach(
      (number, i) => (entries[i].value.textContent = short(number)),
    );
    const right = Math.abs(answer - exact) < 1e-9 * Math.max(1, Math.abs(exact));
    entries[4].value.classList.toggle("wrong", !right);
    el.dataset.state = JSON.stringify(state);
    el.dataset.values = JSON.stringify(found);
    clearTimeout(announce);
    const text =
      `After ${state.read} of 8 keys the maximum is ${short(maximum)}, the sum ${short(sum)}, the output ${short(output)}. ` +
      `Their quotient ${short(answer)} is ${right ? "" : "not "}the softmax over these keys` +
      `${right ? "" : `, which is ${short(exact)}`}.`;
    announce = setTimeout(() => (says.textContent = text), says.textContent ? 300 : 0);
  }

  function change(entries) {
    for (const [key, value] of Object.entries(entries)) model.set(key, value);
    model.save_changes();
    draw();
  }

  read.addEventListener("input", () => change({ read: Number(read.value) }));
  block.addEventListener("input", () => {
    const size = BLOCKS[Number(block.value)];
    change({ block: size, read: Math.ceil(model.get("read") / size) * size });
  });
  lift.addEventListener("input", () => change({ lift: Number(lift.value) }));
  rescale.addEventListener("change", () => change({ rescale: rescale.checked }));
  draw();
}

export default { render };
