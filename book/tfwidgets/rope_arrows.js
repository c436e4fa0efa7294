// RoPE as turning arrows: move the query, the key, or both, and watch what their score depends on.
// State: m, n, both, query, key, base. See rope_arrows.py for what every number must be.

import { BLUE, ORANGE, PINK, make } from "./common.js";

// Pink is the query, blue the key, orange the score.

const LAST = 30; // the highest place on the two sliders
const FARTHEST = 60; // how far both can be moved
const REACH = 1.45; // a dial shows -REACH to REACH on both axes
const SIZE = 120; // of a dial, in its own units

const STYLE = `
.tfw-rope { --ink: var(--pst-color-text-base, var(--jp-content-font-color1, #333));
  --faint: var(--pst-color-text-muted, var(--jp-content-font-color2, #6b7280));
  color: var(--ink); font: 0.95rem/1.45 var(--pst-font-family-base, system-ui, sans-serif); }
.tfw-rope .dials { display: grid; grid-template-columns: repeat(3, 1fr); gap: 0.5rem 1rem; }
.tfw-rope .dials p { margin: 0; text-align: center; font-size: 0.85rem; font-variant-numeric: tabular-nums; }
.tfw-rope .dials .adds { color: var(--faint); }
.tfw-rope svg { width: 100%; height: auto; display: block; overflow: visible; }
.tfw-rope .rim { fill: none; stroke: var(--faint); stroke-width: 0.8; opacity: 0.7; }
.tfw-rope .rest { stroke-width: 1; stroke-dasharray: 2 3; opacity: 0.8; }
.tfw-rope .axis { stroke: var(--faint); stroke-width: 0.8; fill: none; }
.tfw-rope .curve { fill: none; stroke: var(--ink); stroke-width: 1.8; }
.tfw-rope text { font: 9.5px/1 var(--pst-font-family-base, system-ui, sans-serif); fill: var(--faint); }
@media (min-width: 601px) { .tfw-rope text { font-size: 6.8px; } }
.tfw-rope .controls { display: grid; gap: 0.2rem; margin: 0.5rem 0 0.75rem; }
.tfw-rope label { display: grid; grid-template-columns: 7.5rem 1fr 2.5em; gap: 0.6rem; align-items: center; min-height: 2rem; }
.tfw-rope input { width: 100%; min-width: 5rem; }
.tfw-rope .of-query { accent-color: ${PINK}; }
.tfw-rope .of-key { accent-color: ${BLUE}; }
.tfw-rope .of-both { accent-color: ${ORANGE}; }
.tfw-rope output { font-variant-numeric: tabular-nums; text-align: right; }
.tfw-rope b { font-weight: 600; }
.tfw-rope b.q { color: color-mix(in srgb, ${PINK} 65%, var(--ink)); }
.tfw-rope b.k { color: color-mix(in srgb, ${BLUE} 65%, var(--ink)); }
.tfw-rope .score { margin: 0; font-variant-numeric: tabular-nums; }
.tfw-rope .says { margin: 0.6rem 0 0; color: var(--faint); font-size: 0.9rem; }
@media (max-width: 600px) {
  .tfw-rope text { font-size: 14px; }
  .tfw-rope label { grid-template-columns: 7.4rem 1fr 2.2em; }
}
`;

const two = (x) => (Math.abs(x) < 0.005 ? 0 : x).toFixed(2).replace("-", "\u2212");
const whole = (x) => String(x).replace("-", "\u2212");

// What the places make of the two vectors. Channel i is paired with channel i + half.

function frequencies(d, base) {
  return Array.from({ length: d / 2 }, (_, i) => base ** ((-2 * i) / d));
}

function turn(vector, place, omega) {
  const half = omega.length;
  const out = Array(2 * half);
  omega.forEach((speed, i) => {
    const [cos, sin] = [Math.cos(place * speed), Math.sin(place * speed)];
    out[i] = vector[i] * cos - vector[i + half] * sin;
    out[i + half] = vector[i] * sin + vector[i + half] * cos;
  });
  return out;
}

function partsOf(query, key) {
  const half = query.length / 2;
  const root = Math.sqrt(query.length);
  return Array.from({ length: half }, (_, i) => (query[i] * key[i] + query[i + half] * key[i + half]) / root);
}

const sum = (numbers) => numbers.reduce((total, x) => total + x, 0);

function compute(state) {
  const omega = frequencies(state.query.length, state.base);
  const places = [state.m + state.both, state.n + state.both];
  const query = turn(state.query, places[0], omega);
  const key = turn(state.key, places[1], omega);
  const parts = partsOf(query, key);
  const curve = Array.from({ length: 2 * LAST + 1 }, (_, i) =>
    sum(partsOf(state.query, turn(state.key, i - LAST, omega))),
  );
  return { places, frequencies: omega, query, key, parts, score: sum(parts), curve };
}

// Drawing.

function arrow(node, [x, y], colour) {
  const middle = SIZE / 2;
  const [dx, dy] = [(x / REACH) * middle, (-y / REACH) * middle];
  const length = Math.hypot(dx, dy) || 1;
  const [ux, uy] = [dx / length, dy / length];
  const [tipX, tipY] = [middle + dx, middle + dy];
  const [backX, backY] = [tipX - 9 * ux, tipY - 9 * uy];
  const head = [[tipX, tipY], [backX - 4 * uy, backY + 4 * ux], [backX + 4 * uy, backY - 4 * ux]];
  node.replaceChildren(
    make("line", { x1: middle, y1: middle, x2: backX, y2: backY, stroke: colour, "stroke-width": 2.5 }),
    make("polygon", { points: head.join(" "), fill: colour }),
  );
}

function dial(omega, pair) {
  const label = `Pair ${pair + 1}, which turns ${two(omega)} radians a place`;
  const svg = make("svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, role: "img", "aria-label": label });
  svg.append(make("circle", { class: "rim", cx: SIZE / 2, cy: SIZE / 2, r: (1.3 / REACH) * (SIZE / 2) }));
  const [key, query] = [svg.appendChild(make("g")), svg.appendChild(make("g"))];
  const adds = make("p", { class: "adds" });
  const box = make("div", {}, [make("p", {}, [`${two(omega)} rad a place`]), svg, adds]);
  const draw = (numbers) => {
    const half = numbers.parts.length;
    arrow(key, [numbers.key[pair], numbers.key[pair + half]], BLUE);
    arrow(query, [numbers.query[pair], numbers.query[pair + half]], PINK);
    adds.textContent = `adds ${two(numbers.parts[pair])}`;
  };
  return { box, draw };
}

function curvePlot() {
  const at = { x: (offset) => 200 + offset * 6, y: (score) => 86 - score * 46 };
  const label = "The score against the place of the key minus that of the query";
  const svg = make("svg", { viewBox: "0 0 400 168", role: "img", "aria-label": label });
  svg.append(make("path", { class: "axis", d: `M20 ${at.y(0)}H380M20 132H380` }));
  for (const tick of [-30, -20, -10, 0, 10, 20, 30])
    svg.append(make("text", { x: at.x(tick), y: 146, "text-anchor": "middle" }, [whole(tick)]));
  svg.append(make("text", { x: 200, y: 164, "text-anchor": "middle" }, ["place of the key \u2212 place of the query"]));
  for (const tick of [0, 1])
    svg.append(make("text", { x: 14, y: at.y(tick) + 4, "text-anchor": "end" }, [String(tick)]));
  const line = svg.appendChild(make("path", { class: "curve" }));
  const dot = svg.appendChild(make("circle", { r: 6, fill: ORANGE }));
  const draw = (numbers) => {
    line.setAttribute("d", "M" + numbers.curve.map((score, i) => `${at.x(i - LAST)} ${at.y(score)}`).join("L"));
    dot.setAttribute("cx", at.x(numbers.places[1] - numbers.places[0]));
    dot.setAttribute("cy", at.y(numbers.score));
  };
  return { svg, draw };
}

function render({ model, el }) {
  const fixed = { query: model.get("query"), key: model.get("key"), base: model.get("base") };
  const dials = frequencies(fixed.query.length, fixed.base).map(dial);
  const plot = curvePlot();

  const slider = (entry, name, words, max) => {
    const input = make("input", { type: "range", min: 0, max, step: 1, class: `of-${name}`, "aria-label": words });
    const shown = make("output");
    input.addEventListener("input", () => {
      model.set(entry, Number(input.value));
      model.save_changes();
      draw();
    });
    return { entry, input, shown };
  };
  const sliders = [
    slider("m", "query", "Place of the query", LAST),
    slider("n", "key", "Place of the key", LAST),
    slider("both", "both", "Move both on by", FARTHEST),
  ];
  const letters = [make("b", { class: "q" }, ["query"]), make("b", { class: "k" }, ["key"]), null];
  const rows = sliders.map(({ input, shown }, i) =>
    make("label", {}, [
      make("span", {}, letters[i] ? [letters[i], " at place"] : ["move both by"]),
      input,
      shown,
    ]),
  );
  const score = make("p", { class: "score" });
  const says = make("p", { class: "says", "aria-live": "polite" });
  el.append(
    make("div", { class: "tfw-rope" }, [
      make("style", {}, [STYLE]),
      make("div", { class: "dials" }, dials.map(({ box }) => box)),
      make("div", { class: "controls" }, rows),
      score,
      plot.svg,
      says,
    ]),
  );

  let announce;
  function draw() {
    const state = { m: model.get("m"), n: model.get("n"), both: model.get("both"), ...fixed };
    const numbers = compute(state);
    for (const { draw: show } of [...dials, plot]) show(numbers);
    for (const { entry, input, shown } of sliders) {
      input.value = state[entry];
      shown.textContent = entry === "both" ? `+${state.both}` : numbers.places[entry === "m" ? 0 : 1];
    }
    score.replaceChildren("Score, all three parts added: ", make("b", {}, [two(numbers.score)]));
    el.dataset.state = JSON.stringify(state);
    el.dataset.values = JSON.stringify(numbers);
    clearTimeout(announce);
    const [m, n] = numbers.places;
    const text = `Query at ${m}, key at ${n}, difference ${whole(n - m)}: score ${two(numbers.score)}.`;
    announce = setTimeout(() => (says.textContent = text), says.textContent ? 300 : 0);
  }
  draw();
}

export default { render };
