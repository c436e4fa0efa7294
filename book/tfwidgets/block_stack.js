// A stack of random blocks: depth, norm placement and gain against the size of the stream and of its gradient.
// State: depth, norm, gain, seed. See block_stack.py for what every number must be.

import { BLUE, GREEN, ORANGE, make, normals, numberEntries, softmax } from "./common.js";

const NORMS = ["pre", "post", "no sum"];
const LABELS = { pre: "pre-norm", post: "post-norm", "no sum": "no sum" };
const COLOURS = { pre: BLUE, post: ORANGE, "no sum": GREEN };
const DASHES = { pre: "none", post: "7 4", "no sum": "2 4" };
const D_MODEL = 16;
const D_FF = 32;
const HEADS = 2;
const WIDTH = D_MODEL / HEADS;
const TOKENS = 6;
const DEEPEST = 32;
const EPS = 1e-5;
const FINEST = 4; // slider steps in a doubling of the gain
const LOWEST = -8; // the gain's slider goes from a quarter to 2

const STYLE = `
.tfw-stack { --ink: var(--pst-color-text-base, var(--jp-content-font-color1, #333));
  --faint: var(--pst-color-text-muted, var(--jp-content-font-color2, #6b7280)); --mark: ${COLOURS.pre};
  color: var(--ink); font: 0.95rem/1.45 var(--pst-font-family-base, system-ui, sans-serif); }
.tfw-stack .controls { display: flex; flex-wrap: wrap; gap: 0.5rem 1.25rem; align-items: center; }
.tfw-stack label { display: flex; gap: 0.6rem; align-items: center; min-height: 2rem; flex: 1 1 15rem; }
.tfw-stack label span { min-width: 3.2rem; }
.tfw-stack input { flex: 1; min-width: 6rem; accent-color: color-mix(in srgb, var(--mark), white var(--tf-lift, 0%)); }
.tfw-stack output { min-width: 2.6em; font-variant-numeric: tabular-nums; }
.tfw-stack .buttons { display: flex; flex-wrap: wrap; gap: 0.4rem; }
.tfw-stack button { font: inherit; font-size: 0.9rem; color: inherit; background: none; cursor: pointer;
  border: 1px solid var(--faint); border-radius: 5px; padding: 0.2rem 0.7rem; min-height: 2rem; }
.tfw-stack button:hover { border-color: var(--mark); }
.tfw-stack button[aria-pressed="true"] { border-color: var(--mark); box-shadow: inset 0 0 0 1px var(--mark);
  font-weight: 600; }
.tfw-stack .plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 17rem), 1fr));
  gap: 0.75rem 1.5rem; margin-top: 0.75rem; }
.tfw-stack .plots p { margin: 0 0 0.2rem; font-weight: 600; font-size: 0.85rem; }
.tfw-stack svg { width: 100%; height: auto; display: block; overflow: visible; }
.tfw-stack text { font: 11px/1 var(--pst-font-family-base, system-ui, sans-serif); fill: var(--faint); }
.tfw-stack svg.sample { display: inline-block; width: 1.6rem; height: 0.5rem; margin-right: 0.4rem; }
.tfw-stack .axis { stroke: var(--faint); stroke-width: 0.8; fill: none; }
.tfw-stack .rule { stroke: var(--faint); stroke-width: 0.6; opacity: 0.35; }
.tfw-stack .curve { fill: none; stroke-width: 1.5; }
.tfw-stack .curve.chosen { stroke-width: 3.2; }
.tfw-stack dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr));
  gap: 0.4rem 1rem; margin: 0.75rem 0 0; }
.tfw-stack dt { font-weight: 400; color: var(--faint); font-size: 0.85rem; margin: 0; }
.tfw-stack dd { margin: 0; font-size: 1.1rem; font-variant-numeric: tabular-nums; }
.tfw-stack .says { margin: 0.6rem 0 0; color: var(--faint); font-size: 0.9rem; }
`;

function show(x) {
  if (x === 0) return "0";
  const text = x >= 1e4 || x < 0.005 ? x.toExponential(1) : x >= 100 ? x.toFixed(0) : x.toFixed(2);
  return text.replace("-", "\u2212").replace("e+", "e");
}

const drawn = new Map();

function draw(seed, rows, columns) {
  if (!drawn.has(seed)) {
    const source = normals(seed);
    const row = () => Float64Array.from({ length: columns }, () => source.next().value);
    drawn.set(seed, Array.from({ length: rows }, row));
  }
  return drawn.get(seed);
}

// Matrices as arrays of rows. Every layer returns what it says and a function that takes a gradient back.

const scaled = (matrix, factor) => matrix.map((row) => row.map((x) => factor * x));
const sum = (a, b) => a.map((row, i) => row.map((x, j) => x + b[i][j]));

function dot(a, b) {
  let total = 0;
  for (let i = 0; i < a.length; i++) total += a[i] * b[i];
  return total;
}

// x W' for weights of shape (out, in), as a linear layer keeps them.
const times = (x, weights) => x.map((row) => Float64Array.from(weights, (weight) => dot(row, weight)));

function timesBack(gradient, weights) {
  return gradient.map((row) => {
    const back = new Float64Array(weights[0].length);
    for (let i = 0; i < weights.length; i++)
      for (let j = 0; j < back.length; j++) back[j] += row[i] * weights[i][j];
    return back;
  });
}

function layerNorm(x) {
  const scales = [];
  const said = x.map((row) => {
    const mean = row.reduce((total, value) => total + value, 0) / row.length;
    const centred = row.map((value) => value - mean);
    const scale = 1 / Math.sqrt(dot(centred, centred) / row.length + EPS);
    scales.push(scale);
    return centred.map((value) => value * scale);
  });
  const back = (gradient) =>
    gradient.map((row, i) => {
      const mean = row.reduce((total, value) => total + value, 0) / row.length;
      const along = dot(row, said[i]) / row.length;
      return row.map((value, j) => scales[i] * (value - mean - along * said[i][j]));
    });
  return [said, back];
}

const identity = (x) => [x, (gradient) => gradient];

function attention(W_qkv, W_o) {
  const root = Math.sqrt(WIDTH);
  return (x) => {
    const qkv = times(x, W_qkv);
    const part = (row, which, head) => row.subarray((which * HEADS + head) * WIDTH, (which * HEADS + head + 1) * WIDTH);
    const joined = x.map(() => new Float64Array(D_MODEL));
    const heads = [];
    for (let head = 0; head < HEADS; head++) {
      const [q, k, v] = [0, 1, 2].map((which) => qkv.map((row) => part(row, which, head)));
      const weights = q.map((query) => softmax(k.map((key) => dot(query, key) / root)));
      weights.forEach((row, i) =>
        row.forEach((weight, j) => v[j].forEach((value, c) => (joined[i][head * WIDTH + c] += weight * value))),
      );
      heads.push({ q, k, v, weights });
    }
    const back = (gradient) => {
      const toJoined = timesBack(gradient, W_o);
      const toQkv = x.map(() => new Float64Array(3 * D_MODEL));
      heads.forEach(({ q, k, v, weights }, head) => {
        weights.forEach((row, i) => {
          const g = toJoined[i].subarray(head * WIDTH, (head + 1) * WIDTH);
          const toWeights = v.map((value) => dot(value, g));
          const common = row.reduce((total, weight, j) => total + weight * toWeights[j], 0);
          row.forEach((weight, j) => {
            const toScore = (weight * (toWeights[j] - common)) / root;
            const [toQ, toK, toV] = [part(toQkv[i], 0, head), part(toQkv[j], 1, head), part(toQkv[j], 2, head)];
            for (let c = 0; c < WIDTH; c++) {
              toQ[c] += toScore * k[j][c];
              toK[c] += toScore * q[i][c];
              toV[c] += weight * g[c];
            }
          });
        });
      });
      return timesBack(toQkv, W_qkv);
    };
    return [times(joined, W_o), back];
  };
}

function feedForward(W_up, W_down) {
  return (x) => {
    const inner = times(x, W_up);
    const back = (gradient) => {
      const toInner = timesBack(gradient, W_down);
      toInner.forEach((row, i) => row.forEach((_, j) => (row[j] = inner[i][j] > 0 ? row[j] : 0)));
      return timesBack(toInner, W_up);
    };
    return [times(inner.map((row) => row.map((value) => Math.max(0, value))), W_down), back];
  };
}

// One sublayer on the stream: normed on its way in ("pre"), together with the stream ("post"), or in place of it.
function add(x, norm, sublayer) {
  const [read, readBack] = (norm === "post" ? identity : layerNorm)(x);
  const [change, changeBack] = sublayer(read);
  if (norm === "no sum") return [change, (gradient) => readBack(changeBack(gradient))];
  const [out, outBack] = (norm === "post" ? layerNorm : identity)(sum(x, change));
  const back = (gradient) => {
    const toSum = outBack(gradient);
    return sum(toSum, readBack(changeBack(toSum)));
  };
  return [out, back];
}

const size = (x) => Math.sqrt(x.reduce((total, row) => total + dot(row, row), 0) / (x.length * x[0].length));

function sizes({ depth, gain, seed }, norm) {
  let x = draw(1000 * seed, TOKENS, D_MODEL);
  const stream = [size(x)];
  const backs = [];
  for (let number = 1; number <= depth; number++) {
    const root = 1000 * seed + 10 * number;
    const inner = 1 / Math.sqrt(D_MODEL);
    const attend = attention(
      scaled(draw(root, 3 * D_MODEL, D_MODEL), inner),
      scaled(draw(root + 1, D_MODEL, D_MODEL), gain * inner),
    );
    const widen = feedForward(
      scaled(draw(root + 2, D_FF, D_MODEL), inner),
      scaled(draw(root + 3, D_MODEL, D_FF), gain * Math.sqrt(2 / D_FF)),
    );
    const [middle, attendBack] = add(x, norm, attend);
    const [out, widenBack] = add(middle, norm, widen);
    backs.push((gradient) => attendBack(widenBack(gradient)));
    x = out;
    stream.push(size(x));
  }
  let gradient = layerNorm(x)[1](draw(1000 * seed + 1, TOKENS, D_MODEL));
  const gradients = [size(gradient)];
  for (const back of backs.reverse()) gradients.unshift(size((gradient = back(gradient))));
  return [stream, gradients];
}

function compute(state) {
  const found = NORMS.map((norm) => sizes(state, norm));
  const [stream, gradient] = found[NORMS.indexOf(state.norm)];
  return {
    streams: found.map(([row]) => row),
    gradients: found.map(([, row]) => row),
    growth: stream.at(-1) / stream[0],
    bottom_to_top: gradient[0] / gradient.at(-1),
  };
}

// Drawing.

function plot(label, low, high) {
  const svg = make("svg", { viewBox: "0 0 300 172", role: "img", "aria-label": label });
  const across = (place, depth) => 38 + (place / depth) * 252;
  const up = (value) => {
    const power = Math.log10(Math.max(value, 1e-300));
    return 135 - ((Math.max(low, Math.min(high, power)) - low) / (high - low)) * 122;
  };
  svg.append(make("path", { class: "axis", d: "M38 10V135H292" }));
  for (let power = low; power <= high; power++) {
    const y = up(10 ** power);
    svg.append(make("line", { class: "rule", x1: 38, x2: 290, y1: y, y2: y }));
    svg.append(make("text", { x: 33, y: y + 4, "text-anchor": "end" }, [String(10 ** power)]));
  }
  const ticks = svg.appendChild(make("g"));
  svg.append(make("text", { x: 164, y: 167, "text-anchor": "middle" }, ["after block"]));
  const curves = Object.fromEntries(
    NORMS.map((norm) => [norm, svg.appendChild(make("path", { stroke: COLOURS[norm], "stroke-dasharray": DASHES[norm] }))]),
  );
  const draw = ({ depth, norm }, rows) => {
    const step = depth <= 8 ? 1 : depth <= 16 ? 4 : 8;
    const places = Array.from({ length: Math.floor(depth / step) + 1 }, (_, i) => i * step);
    ticks.replaceChildren(
      ...places.map((place) => make("text", { x: across(place, depth), y: 150, "text-anchor": "middle" }, [String(place)])),
    );
    NORMS.forEach((name, i) => {
      curves[name].setAttribute("class", name === norm ? "curve chosen" : "curve");
      curves[name].setAttribute("d", "M" + rows[i].map((value, place) => `${across(place, depth)} ${up(value)}`).join("L"));
    });
  };
  return { svg, draw };
}

function render({ model, el }) {
  const slide = (title, label, attributes) => {
    const slider = make("input", { type: "range", step: 1, "aria-label": label, ...attributes });
    const shown = make("output");
    return { slider, shown, whole: make("label", {}, [make("span", {}, [title]), slider, shown]) };
  };
  const depth = slide("Blocks", "Number of blocks", { min: 1, max: DEEPEST });
  const gain = slide("Gain", "Gain of what the sublayers write", { min: LOWEST, max: FINEST });
  const choices = NORMS.map((norm) => {
    const sample = make("svg", { class: "sample", viewBox: "0 0 26 8", "aria-hidden": "true" }, [
      make("line", { x1: 0, x2: 26, y1: 4, y2: 4, stroke: COLOURS[norm], "stroke-width": 2.5, "stroke-dasharray": DASHES[norm] }),
    ]);
    const button = make("button", { type: "button", "aria-pressed": "false" }, [sample, LABELS[norm]]);
    button.style.setProperty("--mark", COLOURS[norm]);
    button.addEventListener("click", () => change({ norm }));
    return button;
  });
  const again = make("button", { type: "button" }, ["Draw again"]);
  const stream = plot("The size of the stream after each block, on a logarithmic axis", -1, 3);
  const gradient = plot("The size of the gradient after each block, on a logarithmic axis", -3, 1);
  const numbers = numberEntries(["Stream, last to first", "Gradient, first to last"]);
  const says = make("p", { class: "says", "aria-live": "polite" });
  const panel = (title, { svg }) => make("div", {}, [make("p", {}, [title]), svg]);
  const root = make("div", { class: "tfw-stack" }, [
    make("style", {}, [STYLE]),
    make("div", { class: "controls" }, [
      depth.whole,
      gain.whole,
      make("div", { class: "buttons", role: "group", "aria-label": "Where the norm stands" }, [...choices, again]),
    ]),
    make("div", { class: "plots" }, [panel("Size of the stream", stream), panel("Size of its gradient", gradient)]),
    make("dl", {}, numbers.map(({ entry }) => entry)),
    says,
  ]);
  el.append(root);

  let announce;
  function draw() {
    const state = Object.fromEntries(["depth", "norm", "gain", "seed"].map((name) => [name, model.get(name)]));
    const found = compute(state);
    root.style.setProperty("--mark", COLOURS[state.norm]);
    depth.slider.value = state.depth;
    depth.shown.textContent = state.depth;
    gain.slider.value = Math.round(FINEST * Math.log2(state.gain));
    gain.shown.textContent = state.gain.toFixed(2);
    gain.slider.setAttribute("aria-valuetext", gain.shown.textContent);
    choices.forEach((button, i) => button.setAttribute("aria-pressed", NORMS[i] === state.norm));
    stream.draw(state, found.streams);
    gradient.draw(state, found.gradients);
    [found.growth, found.bottom_to_top].forEach((number, i) => (numbers[i].value.textContent = show(number)));
    el.dataset.state = JSON.stringify(state);
    el.dataset.values = JSON.stringify(found);
    clearTimeout(announce);
    const [sizes, back] = [found.streams, found.gradients].map((rows) => rows[NORMS.indexOf(state.norm)]);
    const text =
      `${state.depth} block${state.depth > 1 ? "s" : ""}, ${LABELS[state.norm]}, gain ${gain.shown.textContent}: ` +
      `the stream goes from ${show(sizes[0])} to ${show(sizes.at(-1))}; its gradient is ${show(back.at(-1))} ` +
      `after the last block and ${show(back[0])} before the first.`;
    announce = setTimeout(() => (says.textContent = text), says.textContent ? 300 : 0);
  }

  function change(entries) {
    for (const [key, value] of Object.entries(entries)) model.set(key, value);
    model.save_changes();
    draw();
  }

  depth.slider.addEventListener("input", () => change({ depth: Number(depth.slider.value) }));
  gain.slider.addEventListener("input", () => change({ gain: 2 ** (Number(gain.slider.value) / FINEST) }));
  again.addEventListener("click", () => change({ seed: model.get("seed") + 1 }));
  draw();
}

export default { render };
