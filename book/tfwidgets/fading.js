// Fading: what is left of a push on the state after 1 to 99 steps, in a network of two units.
// State: radius, stretch, tokens, bias, seed. See fading.py for what every number must be.

import { BLUE, GREEN, ORANGE, make, normals, numberEntries } from "./common.js";

// Blue is the recurrent network, orange a gated cell, green attention.

const T = 100;
const ANGLE = 0.7;
const [LOWEST, HIGHEST] = [-20, 6]; // powers of ten
const EVEN = -2; // the weight of one token of a hundred, when all have the same
const SLIDERS = [
  ["radius", "Spectral radius of W", 0.5, 2, 0.02],
  ["stretch", "Stretch", 1, 4, 0.05],
  ["tokens", "Size of the tokens", 0, 2, 0.05],
  ["bias", "Bias of the forget gate", 0, 8, 0.1],
];

const STYLE = `
.tfw-fading { --ink: var(--pst-color-text-base, var(--jp-content-font-color1, #333));
  --faint: var(--pst-color-text-muted, var(--jp-content-font-color2, #6b7280));
  color: var(--ink); font: 0.95rem/1.45 var(--pst-font-family-base, system-ui, sans-serif); }
.tfw-fading .sides { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 17rem), 1fr));
  gap: 0.75rem 1.75rem; align-items: center; }
.tfw-fading label { display: grid; grid-template-columns: 1fr 3.2em; gap: 0 0.6rem; align-items: center; margin-bottom: 0.5rem; }
.tfw-fading label span { grid-column: 1 / -1; font-size: 0.9rem; }
.tfw-fading input { width: 100%; accent-color: ${BLUE}; }
.tfw-fading input[name="bias"] { accent-color: ${ORANGE}; }
.tfw-fading output { font-variant-numeric: tabular-nums; }
.tfw-fading button { font: inherit; font-size: 0.9rem; color: inherit; background: none; cursor: pointer;
  border: 1px solid var(--faint); border-radius: 5px; padding: 0.2rem 0.7rem; min-height: 2rem; }
.tfw-fading button:hover { border-color: ${BLUE}; }
.tfw-fading svg { width: 100%; height: auto; display: block; overflow: visible; }
.tfw-fading text { font: 11px/1 var(--pst-font-family-base, system-ui, sans-serif); fill: var(--faint); }
.tfw-fading text.line { font-weight: 600; }
.tfw-fading .axis { stroke: var(--faint); stroke-width: 0.8; fill: none; }
.tfw-fading .one { stroke: var(--faint); stroke-width: 0.6; opacity: 0.6; }
.tfw-fading .curve { fill: none; stroke-width: 2; }
.tfw-fading dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(7.5rem, 1fr));
  gap: 0.4rem 1rem; margin: 0.75rem 0 0; }
.tfw-fading dt { font-weight: 400; color: var(--faint); font-size: 0.85rem; margin: 0; }
.tfw-fading dd { margin: 0; font-size: 1.1rem; font-variant-numeric: tabular-nums; }
.tfw-fading .says { margin: 0.6rem 0 0; color: var(--faint); font-size: 0.9rem; }
`;

const signed = (x, digits) => x.toFixed(digits).replace(/^-0(\.0*)?$/, "0$1").replace("-", "\u2212");

// The network.

function weights(radius, stretch) {
  const [turn, side] = [Math.cos(ANGLE), Math.sin(ANGLE)];
  return [[radius * turn, radius * stretch * side], [(-radius * side) / stretch, radius * turn]];
}

function spectralNorm([[a, b], [c, d]]) {
  // Of two by two: s1 + s2 and s1 - s2 are the lengths of (a + d, b - c) and (a - d, b + c).
  return (Math.hypot(a + d, b - c) + Math.hypot(a - d, b + c)) / 2;
}

function compute({ radius, stretch, tokens, bias, seed }) {
  const source = normals(seed);
  const W = weights(radius, stretch);
  let state = [0, 0];
  const slopes = Array.from({ length: T }, () => {
    const token = [source.next().value, source.next().value];
    state = [0, 1].map((i) => Math.tanh(tokens * token[i] + state[0] * W[0][i] + state[1] * W[1][i]));
    return state.map((h) => 1 - h * h);
  });
  // dh_T/dh_t, divided by 10 to the power of `shift`, so that nothing underflows.
  let [product, shift] = [[[1, 0], [0, 1]], 0];
  const log_norms = [0];
  for (let t = T - 1; t > 0; t--) {
    const step = [0, 1].map((i) => [0, 1].map((j) => slopes[t][i] * W[j][i]));
    product = product.map((row) => [0, 1].map((j) => row[0] * step[0][j] + row[1] * step[1][j]));
    const norm = spectralNorm(product);
    product = product.map((row) => row.map((entry) => entry / norm));
    shift += Math.log10(norm);
    log_norms.push(shift);
  }
  const spectral_norm = spectralNorm(W);
  const gate = 1 / (1 + Math.exp(-bias));
  return {
    log_norms,
    spectral_norm,
    log_bound: (T - 1) * Math.log10(spectral_norm),
    slope: slopes.flat().reduce((sum, slope) => sum + slope, 0) / (2 * T),
    gate,
    log_gate: (T - 1) * Math.log10(gate),
  };
}

// Drawing.

const [LEFT, RIGHT, TOP, BOTTOM] = [44, 330, 8, 200];
const across = (distance) => LEFT + (distance / (T - 1)) * (RIGHT - LEFT);
const up = (power) => BOTTOM - ((power - LOWEST) / (HIGHEST - LOWEST)) * (BOTTOM - TOP);

function plot(id) {
  const label = "What is left of a push against the steps back, on a logarithmic axis";
  const svg = make("svg", { viewBox: "0 0 340 256", role: "img", "aria-label": label });
  svg.append(make("path", { class: "axis", d: `M${LEFT} ${TOP}V${BOTTOM}H${RIGHT}` }));
  svg.append(make("line", { class: "one", x1: LEFT, x2: RIGHT, y1: up(0), y2: up(0) }));
  for (let power = LOWEST; power < HIGHEST; power += 5) {
    const raised = make("tspan", { dy: -4, "font-size": "8px" }, [signed(power, 0)]);
    const text = power ? ["10", raised] : ["1"];
    svg.append(make("text", { x: LEFT - 5, y: up(power) + 4, "text-anchor": "end" }, text));
  }
  for (const distance of [0, 25, 50, 75, 99])
    svg.append(make("text", { x: across(distance), y: BOTTOM + 15, "text-anchor": "middle" }, [String(distance)]));
  svg.append(make("text", { x: (LEFT + RIGHT) / 2, y: BOTTOM + 32, "text-anchor": "middle" }, ["steps back"]));
  const clip = make("rect", { x: LEFT, y: TOP, width: RIGHT - LEFT, height: BOTTOM - TOP });
  svg.append(make("clipPath", { id }, [clip]));
  const lines = make("g", { "clip-path": `url(#${id})` });
  svg.append(lines);
  const line = (stroke, dash) =>
    lines.appendChild(make("path", { class: "curve", stroke, "stroke-dasharray": dash }));
  const [bound, gate, even, network] = [line(BLUE, "2 4"), line(ORANGE, "7 4"), line(GREEN, "9 3 2 3"), line(BLUE, "none")];
  const keys = [["network", BLUE, "none"], ["bound", BLUE, "2 4"], ["cell", ORANGE, "7 4"], ["attention", GREEN, "9 3 2 3"]];
  keys.forEach(([text, stroke, dash], i) => {
    const [x, y] = [[12, 102, 180, 246][i], BOTTOM + 51]; // below the axis, where no line can cross it
    svg.append(make("line", { x1: x, x2: x + 22, y1: y, y2: y, stroke, "stroke-width": 2, "stroke-dasharray": dash }));
    svg.append(make("text", { x: x + 27, y: y + 4 }, [text]));
  });
  const path = (points) => "M" + points.map(([distance, power]) => `${across(distance)} ${up(power)}`).join("L");
  const draw = ({ log_norms, log_bound, log_gate }) => {
    network.setAttribute("d", path(log_norms.map((power, distance) => [distance, power])));
    bound.setAttribute("d", path([[0, 0], [T - 1, log_bound]]));
    gate.setAttribute("d", path([[0, 0], [T - 1, log_gate]]));
    even.setAttribute("d", path([[0, EVEN], [T - 1, EVEN]]));
  };
  return { svg, draw };
}

let count = 0;

function render({ model, el }) {
  const sliders = SLIDERS.map(([name, title, min, max, step]) => {
    const input = make("input", { type: "range", name, min, max, step, "aria-label": title });
    const shown = make("output");
    input.addEventListener("input", () => change({ [name]: Number(input.value) }));
    return { name, input, shown, label: make("label", {}, [make("span", {}, [title]), input, shown]) };
  });
  const again = make("button", { type: "button" }, ["Draw other tokens"]);
  again.addEventListener("click", () => change({ seed: model.get("seed") + 1 }));
  const drawn = plot(`tfw-fading-${(count += 1)}`);
  const titles = ["Norm of W", "Mean slope of tanh", "Left after 99 steps", "Forget gate", "Left in the cell"];
  const numbers = numberEntries(titles);
  const says = make("p", { class: "says", "aria-live": "polite" });
  el.append(
    make("div", { class: "tfw-fading" }, [
      make("style", {}, [STYLE]),
      make("div", { class: "sides" }, [
        make("div", {}, [...sliders.map(({ label }) => label), again]),
        drawn.svg,
      ]),
      make("dl", {}, numbers.map(({ entry }) => entry)),
      says,
    ]),
  );

  const power = (logarithm) => ["10", make("sup", {}, [signed(logarithm, 1)])];
  let announce;
  function draw() {
    const state = { seed: model.get("seed") };
    for (const { name, input, shown } of sliders) {
      state[name] = model.get(name);
      input.value = state[name];
      shown.textContent = state[name].toFixed(2);
    }
    const found = compute(state);
    const left = found.log_norms[T - 1];
    drawn.draw(found);
    const values = [[found.spectral_norm.toFixed(2)], [found.slope.toFixed(2)], power(left), [found.gate.toFixed(3)], power(found.log_gate)];
    values.forEach((value, i) => numbers[i].value.replaceChildren(...value));
    el.dataset.state = JSON.stringify(state);
    el.dataset.values = JSON.stringify(found);
    clearTimeout(announce);
    const text =
      `Radius ${state.radius.toFixed(2)}, norm ${found.spectral_norm.toFixed(2)}, mean slope ${found.slope.toFixed(2)}: ` +
      `after 99 steps 10 to the power of ${signed(left, 1)} of a push is left. ` +
      `The cell keeps 10 to the power of ${signed(found.log_gate, 1)}.`;
    announce = setTimeout(() => (says.textContent = text), says.textContent ? 300 : 0);
  }

  function change(entries) {
    for (const [key, value] of Object.entries(entries)) model.set(key, value);
    model.save_changes();
    draw();
  }

  draw();
}

export default { render };
