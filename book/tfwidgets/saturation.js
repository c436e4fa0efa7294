// Saturation: lengthen the vectors and watch softmax over eight keys become a hard choice.
// State: d_k, scaled, seed. See saturation.py for what every number must be.

import { BLUE, ORANGE, make, normals, numberEntries, softmax } from "./common.js";

// Blue: divided by the root of d_k. Orange: not divided.

const KEYS = 8;
const FINEST = 4; // slider steps in a doubling of d_k
const LONGEST = 1024;
const WIDTHS = [...new Set(Array.from({ length: 41 }, (_, step) => widthAt(step)))];
const DRAWS = Array.from({ length: 32 }, (_, i) => i + 1); // the seeds that the curves are means over
const LIMIT = 100; // the scores' axis shows -LIMIT to LIMIT
const HALF = 0.5; // the largest norm that a softmax's Jacobian can have

const STYLE = `
.tfw-saturation { --ink: var(--pst-color-text-base, var(--jp-content-font-color1, #333));
  --faint: var(--pst-color-text-muted, var(--jp-content-font-color2, #6b7280)); --mark: ${ORANGE};
  color: var(--ink); font: 0.95rem/1.45 var(--pst-font-family-base, system-ui, sans-serif); }
.tfw-saturation[data-scaled="true"] { --mark: ${BLUE}; }
.tfw-saturation .controls { display: flex; flex-wrap: wrap; gap: 0.5rem 1.25rem; align-items: center; }
.tfw-saturation label { display: flex; gap: 0.6rem; align-items: center; min-height: 2rem; }
.tfw-saturation label.width { flex: 1 1 15rem; }
.tfw-saturation input { accent-color: color-mix(in srgb, var(--mark), white var(--tf-lift, 0%)); }
.tfw-saturation input[type="range"] { flex: 1; min-width: 6rem; }
.tfw-saturation input[type="checkbox"] { width: 1.1rem; height: 1.1rem; }
.tfw-saturation output { min-width: 2.6em; font-variant-numeric: tabular-nums; }
.tfw-saturation button { font: inherit; font-size: 0.9rem; color: inherit; background: none; cursor: pointer;
  border: 1px solid var(--faint); border-radius: 5px; padding: 0.2rem 0.7rem; min-height: 2rem; }
.tfw-saturation button:hover { border-color: var(--mark); }
.tfw-saturation i { font-family: Georgia, serif; }
.tfw-saturation .plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 17rem), 1fr));
  gap: 0.75rem 1.5rem; margin-top: 0.75rem; }
.tfw-saturation .plots p { margin: 0 0 0.2rem; font-weight: 600; font-size: 0.85rem; }
.tfw-saturation svg { width: 100%; height: auto; display: block; overflow: visible; }
.tfw-saturation text { font: 11px/1 var(--pst-font-family-base, system-ui, sans-serif); fill: var(--faint); }
.tfw-saturation .axis { stroke: var(--faint); stroke-width: 0.8; }
.tfw-saturation .dot { fill: var(--mark); fill-opacity: 0.75; }
.tfw-saturation .weight { fill: var(--mark); }
.tfw-saturation .curve { fill: none; stroke-width: 2; }
.tfw-saturation dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr));
  gap: 0.4rem 1rem; margin: 0.75rem 0 0; }
.tfw-saturation dt { font-weight: 400; color: var(--faint); font-size: 0.85rem; margin: 0; }
.tfw-saturation dd { margin: 0; font-size: 1.1rem; font-variant-numeric: tabular-nums; }
.tfw-saturation .says { margin: 0.6rem 0 0; color: var(--faint); font-size: 0.9rem; }
`;

const two = (x) => (Math.abs(x) < 0.005 ? 0 : x).toFixed(2).replace("-", "\u2212");

function widthAt(step) {
  // Rounds halves to even, as Python does; no power of the fourth root of two is a half.
  return Math.round(2 ** (step / FINEST));
}

function dotProducts(seed) {
  const source = normals(seed);
  const sums = Array(KEYS).fill(0);
  return Array.from({ length: LONGEST }, () => {
    const query = source.next().value;
    return sums.map((_, key) => (sums[key] += query * source.next().value));
  });
}

// What the scores say.

function jacobianNorm(scores) {
  const p = softmax(scores);
  let squares = 0;
  for (const [i, row] of p.entries())
    for (const [j, column] of p.entries()) squares += (row * ((i === j) - column)) ** 2;
  return Math.sqrt(squares);
}

const divided = (scores, d) => scores.map((score) => score / Math.sqrt(d));

function meanCurves() {
  const draws = DRAWS.map(dotProducts);
  const mean = (norm) => draws.reduce((sum, products) => sum + norm(products), 0) / draws.length;
  return {
    plain_curve: WIDTHS.map((d) => mean((products) => jacobianNorm(products[d - 1]))),
    scaled_curve: WIDTHS.map((d) => mean((products) => jacobianNorm(divided(products[d - 1], d)))),
  };
}

function compute({ d_k, scaled }, products, curves) {
  const scores = scaled ? divided(products[d_k - 1], d_k) : products[d_k - 1];
  const weights = softmax(scores);
  const mean = scores.reduce((sum, score) => sum + score, 0) / KEYS;
  return {
    scores,
    spread: Math.sqrt(scores.reduce((sum, score) => sum + (score - mean) ** 2, 0) / KEYS),
    weights,
    largest: Math.max(...weights),
    entropy: weights.reduce((sum, p) => sum - (p > 0 ? p * Math.log(p) : 0), 0),
    jacobian_norm: jacobianNorm(scores),
    ...curves,
  };
}

// Drawing.

const at = {
  score: (score) => 150 + (Math.max(-LIMIT, Math.min(LIMIT, score)) / LIMIT) * 140,
  width: (d) => 34 + (Math.log2(d) / Math.log2(LONGEST)) * 256,
  norm: (norm) => 135 - (norm / HALF) * 120,
};

function scoresPlot() {
  const svg = make("svg", { viewBox: "0 0 300 58", role: "img", "aria-label": "The eight scores on a line" });
  svg.append(make("line", { class: "axis", x1: 10, x2: 290, y1: 34, y2: 34 }));
  for (const tick of [-100, -50, 0, 50, 100]) {
    const x = at.score(tick);
    svg.append(make("line", { class: "axis", x1: x, x2: x, y1: 34, y2: 38 }));
    svg.append(make("text", { x, y: 52, "text-anchor": "middle" }, [String(tick).replace("-", "\u2212")]));
  }
  const dots = Array.from({ length: KEYS }, () => svg.appendChild(make("circle", { class: "dot", r: 5, cy: 22 })));
  return { svg, draw: (scores) => dots.forEach((dot, i) => dot.setAttribute("cx", at.score(scores[i]))) };
}

function weightsPlot() {
  const svg = make("svg", { viewBox: "0 0 300 150", role: "img", "aria-label": "The eight weights as bars" });
  svg.append(make("line", { class: "axis", x1: 4, x2: 296, y1: 132, y2: 132 }));
  const bars = Array.from({ length: KEYS }, (_, key) => {
    const x = 22 + 36.5 * key;
    const bar = svg.appendChild(make("rect", { class: "weight", x: x - 12, width: 24 }));
    const number = svg.appendChild(make("text", { x, "text-anchor": "middle" }));
    svg.append(make("text", { x, y: 147, "text-anchor": "middle" }, [String(key + 1)]));
    return { bar, number };
  });
  const draw = (weights) =>
    bars.forEach(({ bar, number }, i) => {
      const height = Math.max(0.5, 112 * weights[i]);
      bar.setAttribute("y", 132 - height);
      bar.setAttribute("height", height);
      number.setAttribute("y", 132 - height - 4);
      number.textContent = two(weights[i]);
    });
  return { svg, draw };
}

function curvesPlot() {
  const label = "The norm of the Jacobian against d k, with and without the division";
  const svg = make("svg", { viewBox: "0 0 300 172", role: "img", "aria-label": label });
  svg.append(make("path", { class: "axis", d: "M34 10V135H292", fill: "none" }));
  for (const norm of [0, 0.25, 0.5])
    svg.append(make("text", { x: 29, y: at.norm(norm) + 4, "text-anchor": "end" }, [String(norm)]));
  for (const d of [1, 4, 16, 64, 256, 1024])
    svg.append(make("text", { x: at.width(d), y: 150, "text-anchor": "middle" }, [String(d)]));
  const d = make("tspan", { "font-style": "italic" }, ["d"]);
  const k = make("tspan", { dy: 3, "font-size": 8 }, ["k"]);
  svg.append(make("text", { x: 163, y: 167, "text-anchor": "middle" }, ["components ", d, k]));
  const line = (stroke, dash) =>
    svg.appendChild(make("path", { class: "curve", stroke, "stroke-dasharray": dash }));
  const [scaled, plain] = [line(BLUE, "none"), line(ORANGE, "5 4")];
  for (const [text, stroke, dash, y] of [["divided", BLUE, "none", 108], ["not divided", ORANGE, "5 4", 124]]) {
    svg.append(make("line", { x1: 42, x2: 66, y1: y, y2: y, stroke, "stroke-width": 2, "stroke-dasharray": dash }));
    svg.append(make("text", { x: 71, y: y + 4 }, [text]));
  }
  const dot = svg.appendChild(make("circle", { class: "weight", r: 5.5 }));
  const path = (norms) => "M" + WIDTHS.map((d, i) => `${at.width(d)} ${at.norm(norms[i])}`).join("L");
  const draw = ({ d_k }, numbers) => {
    scaled.setAttribute("d", path(numbers.scaled_curve));
    plain.setAttribute("d", path(numbers.plain_curve));
    dot.setAttribute("cx", at.width(d_k));
    dot.setAttribute("cy", at.norm(numbers.jacobian_norm));
  };
  return { svg, draw };
}

function render({ model, el }) {
  const d_k = () => make("i", {}, ["d", make("sub", {}, ["k"])]);
  const slider = make("input", { type: "range", min: 0, max: 40, step: 1, "aria-label": "d k, the number of components" });
  const shown = make("output");
  const box = make("input", { type: "checkbox" });
  const again = make("button", { type: "button" }, ["Draw again"]);
  const plots = { scores: scoresPlot(), weights: weightsPlot(), curves: curvesPlot() };
  const numbers = numberEntries(["Spread of the scores", "Largest weight", "Entropy (nats)", "Norm of the Jacobian"]);
  const says = make("p", { class: "says", "aria-live": "polite" });
  const panel = (title, ...drawn) => [make("p", {}, [title]), ...drawn];
  const root = make("div", { class: "tfw-saturation" }, [
    make("style", {}, [STYLE]),
    make("div", { class: "controls" }, [
      make("label", { class: "width" }, [d_k(), slider, shown]),
      make("label", {}, [box, make("span", {}, ["divide by \u221a", d_k()])]),
      again,
    ]),
    make("div", { class: "plots" }, [
      make("div", {}, [...panel("Scores", plots.scores.svg), ...panel("Weights", plots.weights.svg)]),
      make("div", {}, panel("Norm of the Jacobian: this draw (dot), mean of 32 (lines)", plots.curves.svg)),
    ]),
    make("dl", {}, numbers.map(({ entry }) => entry)),
    says,
  ]);
  el.append(root);

  const curves = meanCurves();
  let products = { seed: null };
  let announce;
  function draw() {
    const state = { d_k: model.get("d_k"), scaled: model.get("scaled"), seed: model.get("seed") };
    if (products.seed !== state.seed) products = { seed: state.seed, rows: dotProducts(state.seed) };
    const found = compute(state, products.rows, curves);
    root.dataset.scaled = state.scaled;
    slider.value = Math.round(FINEST * Math.log2(state.d_k));
    slider.setAttribute("aria-valuetext", `d k is ${state.d_k}`);
    shown.textContent = state.d_k;
    box.checked = state.scaled;
    plots.scores.draw(found.scores);
    plots.weights.draw(found.weights);
    plots.curves.draw(state, found);
    [found.spread, found.largest, found.entropy, found.jacobian_norm].forEach((number, i) => {
      numbers[i].value.textContent = number > 0 && number < 0.005 ? number.toExponential(1).replace("-", "\u2212") : two(number);
    });
    el.dataset.state = JSON.stringify(state);
    el.dataset.values = JSON.stringify(found);
    clearTimeout(announce);
    const how = state.scaled ? "divided by the root" : "not divided";
    const text =
      `Vectors of ${state.d_k} numbers, ${how}: the scores spread by ${two(found.spread)}, ` +
      `the largest weight is ${two(found.largest)}.`;
    announce = setTimeout(() => (says.textContent = text), says.textContent ? 300 : 0);
  }

  function change(entries) {
    for (const [key, value] of Object.entries(entries)) model.set(key, value);
    model.save_changes();
    draw();
  }

  slider.addEventListener("input", () => change({ d_k: widthAt(Number(slider.value)) }));
  box.addEventListener("change", () => change({ scaled: box.checked }));
  again.addEventListener("click", () => change({ seed: model.get("seed") + 1 }));
  draw();
}

export default { render };
