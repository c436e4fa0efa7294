// Weights and cache in the memory of some H100s, and one decoding step on their roofline.
// State: model, context, batch, weight_bits, cache_bits, devices. See cache_calculator.py for every number.

import { BLUE, ORANGE, PINK, make, numberEntries } from "./common.js";

// Layers, width, heads, inner width, vocabulary, longest context, heads of keys; the rest as Llama has it.
const llama = (L, d, h, ff, V, longest, kv) => ({ L, d, h, ff, V, longest, kv, width: d / h, gated: true, own: true });
const gpt = (L, d, h, longest) => ({
  L, d, h, ff: 4 * d, V: 50257, longest, kv: h, width: d / h, bias: true, layer: true, learned: true,
});
const MODELS = {
  "GPT-2 XL": gpt(48, 1600, 25, 1024),
  "Llama 2 7B": llama(32, 4096, 32, 11008, 32000, 4096, 32),
  "Mistral 7B": { ...llama(32, 4096, 32, 14336, 32000, 32768, 8), window: 4096 },
  "Llama 3 8B": llama(32, 4096, 32, 14336, 128256, 8192, 8),
  "Gemma 7B": { ...llama(28, 3072, 16, 24576, 256128, 8192, 16), width: 256, own: false },
  "Mixtral 8x7B": { ...llama(32, 4096, 32, 14336, 32000, 32768, 8), experts: 8, sent: 2 },
  "Llama 2 70B": llama(80, 8192, 64, 28672, 32000, 4096, 8),
  "Llama 3 70B": llama(80, 8192, 64, 28672, 128256, 8192, 8),
  "GPT-3": gpt(96, 12288, 96, 2048),
  "Llama 3.1 405B": llama(126, 16384, 128, 53248, 128256, 131072, 8),
};
const NAMES = Object.keys(MODELS);
const MEMORY = 80e9; // of one H100, as are the next two
const FLOPS = 989e12;
const BYTES = 3.35e12;
const RIDGE = FLOPS / BYTES;
const SHORTEST = 7; // log2 of the fewest tokens
const BITS = [16, 8, 4];
const CHOICES = { batch: 10, devices: 4 }; // log2 of the most
const COLOURS = { weights: BLUE, cache: ORANGE, dot: PINK };

const STYLE = `
.tfw-cache { --ink: var(--pst-color-text-base, var(--jp-content-font-color1, #333));
  --faint: var(--pst-color-text-muted, var(--jp-content-font-color2, #6b7280));
  color: var(--ink); font: 0.95rem/1.45 var(--pst-font-family-base, system-ui, sans-serif); }
.tfw-cache .controls { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 18rem), 1fr));
  gap: 0.2rem 1.5rem; }
.tfw-cache label { display: flex; gap: 0.6rem; align-items: center; min-height: 1.9rem; }
.tfw-cache label > span { min-width: 4.2em; }
.tfw-cache input { accent-color: ${COLOURS.weights}; flex: 1; min-width: 4rem; }
.tfw-cache output { min-width: 7.2em; text-align: right; font-variant-numeric: tabular-nums; }
.tfw-cache svg { width: 100%; max-width: 30rem; height: auto; display: block; margin: 0.6rem auto 0; overflow: visible; }
.tfw-cache text { font: 11px/1 var(--pst-font-family-base, system-ui, sans-serif); fill: var(--ink); }
@media (max-width: 600px) { .tfw-cache text { font-size: 12.5px; } }
.tfw-cache text.faint { fill: var(--faint); }
.tfw-cache .frame { fill: none; stroke: var(--ink); stroke-width: 1.2; }
.tfw-cache .roof { fill: none; stroke: var(--ink); stroke-width: 1.6; }
.tfw-cache .guide { stroke: var(--faint); stroke-dasharray: 2 3; }
.tfw-cache dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(6.2rem, 1fr)); gap: 0.3rem 0.6rem;
  margin: 0.5rem 0 0; }
.tfw-cache dt { font-weight: 400; color: var(--faint); font-size: 0.85rem; margin: 0; }
.tfw-cache dd { margin: 0; font-size: 1rem; font-variant-numeric: tabular-nums; }
.tfw-cache dd small { color: var(--faint); font-size: 0.8rem; display: block; }
.tfw-cache .says { margin: 0.4rem 0 0; color: var(--faint); font-size: 0.9rem; }
`;

const count = (n) => n.toLocaleString("en-GB");
const digits = (x) => {
  if (x >= 100) return count(Math.round(x));
  return x >= 10 ? x.toFixed(1) : x.toPrecision(2);
};

// Numbers of a model, part by part.
function parts(m) {
  const [q, kv] = [m.h * m.width, m.kv * m.width];
  const matrices = m.gated ? 3 : 2;
  const biases = m.bias ? (matrices - 1) * m.ff + m.d : 0;
  const experts = m.experts ?? 1;
  return {
    embedding: m.V * m.d,
    positions: m.learned ? m.longest * m.d : 0,
    attention: m.L * (2 * m.d * (q + kv) + (m.bias ? q + 2 * kv + m.d : 0)),
    network: m.L * experts * (matrices * m.d * m.ff + biases),
    router: experts > 1 ? m.L * m.d * experts : 0,
    norms: (2 * m.L + 1) * m.d * (m.layer ? 2 : 1),
    head: m.own ? m.V * m.d : 0,
  };
}

const sum = (of) => Object.values(of).reduce((a, b) => a + b, 0);

function compute({ model, context, batch, weight_bits, cache_bits, devices }) {
  const m = MODELS[model];
  const all = parts(m);
  const parameters = sum(all);
  const [experts, sent] = [m.experts ?? 1, m.sent ?? 1];
  const read = { ...all, positions: Math.min(all.positions, m.d) };
  if (m.own) read.embedding = Math.min(batch, m.V) * m.d;
  read.network = Math.floor(all.network / experts) * Math.min(experts, batch * sent);

  const seen = Math.min(m.window ?? context, context);
  const text = (2 * m.L * m.kv * m.width * seen * cache_bits) / 8;
  const weights = Math.round((parameters * weight_bits) / 8);
  const moved = (sum(read) * weight_bits) / 8 + batch * text;

  const projections = 4 * m.d * m.width * (m.h + m.kv);
  const network = sent * 2 * (m.gated ? 3 : 2) * m.d * m.ff + (experts > 1 ? 2 * m.d * experts : 0);
  const flops = batch * (m.L * (projections + network + 4 * m.h * m.width * seen) + 2 * m.d * m.V);

  const seconds = Math.max(flops / (devices * FLOPS), moved / (devices * BYTES));
  return {
    parameters,
    weights_gb: weights / 1e9,
    cache_gb: (batch * text) / 1e9,
    memory_gb: (devices * MEMORY) / 1e9,
    most_texts: Math.max(0, Math.floor((devices * MEMORY - weights) / text)),
    intensity: flops / moved,
    ridge: RIDGE,
    arithmetic: Math.min(1, flops / moved / RIDGE),
    step_ms: 1e3 * seconds,
    tokens_per_second: batch / seconds,
  };
}

const overfull = (found) => found.weights_gb + found.cache_gb > found.memory_gb;

function drawing(found) {
  const [across, left] = [360, 6];
  const most = Math.max(found.memory_gb, found.weights_gb + found.cache_gb);
  const gb = (x) => (x / most) * (across - 2 * left);
  const bar = (from, size, colour) =>
    make("rect", { x: left + gb(from), y: 34, width: gb(size), height: 22, fill: colour, "fill-opacity": 0.6 });

  // The roofline, in logarithms of operations a byte and of the share of the arithmetic.
  const [top, bottom, x0, x1] = [86, 172, 44, across - left];
  const x = (intensity) => x0 + ((Math.log10(intensity) + 1) / 5) * (x1 - x0); // 0.1 to 10,000
  const y = (share) => top + (-Math.log10(share) / 3.6) * (bottom - top);
  const inside = Math.min(Math.max(found.intensity, 0.1), 1e4);
  const label = (px, py, words, more = {}) => make("text", { x: px, y: py, ...more }, [words]);
  return [
    label(left, 12, `weights ${digits(found.weights_gb)} GB`, { style: `fill: ${COLOURS.weights}` }),
    label(left, 28, `cache ${digits(found.cache_gb)} GB`, { style: `fill: ${COLOURS.cache}` }),
    bar(0, found.weights_gb, COLOURS.weights),
    bar(found.weights_gb, found.cache_gb, COLOURS.cache),
    make("rect", { class: "frame", x: left, y: 34, width: gb(found.memory_gb), height: 22 }),
    label(across - left, 12, `memory ${count(found.memory_gb)} GB`, { "text-anchor": "end" }),
    label(across - left, 28, overfull(found) ? "does not fit" : "fits", { class: "faint", "text-anchor": "end" }),
    ...[1, 10, 100, 1000].flatMap((i) => [
      make("line", { class: "guide", x1: x(i), x2: x(i), y1: top, y2: bottom }),
      label(x(i), bottom + 14, count(i), { class: "faint", "text-anchor": "middle" }),
    ]),
    ...[1, 0.1, 0.01, 0.001].map((share) =>
      label(x0 - 4, y(share) + 4, `${share * 100} %`, { class: "faint", "text-anchor": "end" }),
    ),
    label((x0 + x1) / 2, bottom + 28, "operations for each byte", { "text-anchor": "middle" }),
    label(x0, top - 9, "share of the arithmetic that can be used", {}),
    make("path", { class: "guide", d: `M${x0} ${bottom}H${x1}` }),
    make("path", {
      class: "roof",
      d: `M${x0} ${y(0.1 / RIDGE)} L${x(RIDGE)} ${y(1)} L${x1} ${y(1)}`,
    }),
    make("circle", { cx: x(inside), cy: y(Math.max(found.arithmetic, 10 ** -3.6)), r: 6, fill: COLOURS.dot }),
  ];
}

function render({ model, el }) {
  const range = (label, max) => make("input", { type: "range", min: 0, max, step: 1, "aria-label": label });
  const inputs = {
    model: range("Model", NAMES.length - 1),
    context: range("Tokens in each text", 10),
    batch: range("Texts in the batch", CHOICES.batch),
    weight_bits: range("Bits of a weight", BITS.length - 1),
    cache_bits: range("Bits of a number in the cache", BITS.length - 1),
    devices: range("Devices", CHOICES.devices),
  };
  const titles = {
    model: "Model", context: "Tokens", batch: "Batch", weight_bits: "Weights", cache_bits: "Cache", devices: "Devices",
  };
  const shown = Object.fromEntries(Object.keys(inputs).map((name) => [name, make("output")]));
  const svg = make("svg", {
    viewBox: "0 0 360 204",
    role: "img",
    "aria-label": "Weights and cache in the memory, and the decoding step on the roofline",
  });
  const entries = numberEntries(["Weights", "Cache", "Texts that fit", "Intensity", "One step", "In a second"]);
  const says = make("p", { class: "says", "aria-live": "polite" });
  const row = (name) => make("label", {}, [make("span", {}, [titles[name]]), inputs[name], shown[name]]);
  el.append(
    make("div", { class: "tfw-cache" }, [
      make("style", {}, [STYLE]),
      make("div", { class: "controls" }, Object.keys(inputs).map(row)),
      svg,
      make("dl", {}, entries.map(({ entry }) => entry)),
      says,
    ]),
  );

  let announce;
  function draw() {
    const state = Object.fromEntries(Object.keys(inputs).map((name) => [name, model.get(name)]));
    const found = compute(state);
    inputs.model.value = NAMES.indexOf(state.model);
    inputs.context.max = Math.log2(MODELS[state.model].longest) - SHORTEST;
    inputs.context.value = Math.log2(state.context) - SHORTEST;
    inputs.batch.value = Math.log2(state.batch);
    inputs.devices.value = Math.log2(state.devices);
    const words = {
      model: state.model,
      context: `${count(state.context)} tokens`,
      batch: `${count(state.batch)} text${state.batch > 1 ? "s" : ""}`,
      weight_bits: `${state.weight_bits} bits`,
      cache_bits: `${state.cache_bits} bits`,
      devices: `${state.devices} \u00d7 H100`,
    };
    for (const name of ["weight_bits", "cache_bits"]) inputs[name].value = BITS.indexOf(state[name]);
    for (const [name, input] of Object.entries(inputs)) {
      shown[name].textContent = words[name];
      input.setAttribute("aria-valuetext", words[name]);
    }
    svg.replaceChildren(...drawing(found));
    const limit = found.intensity < found.ridge ? "memory is the limit" : "arithmetic is the limit";
    const notes = [
      [`${digits(found.weights_gb)} GB`, `${(found.parameters / 1e9).toFixed(1)} billion`],
      [`${digits(found.cache_gb)} GB`, `${digits(found.cache_gb / found.weights_gb)} \u00d7 weights`],
      [count(found.most_texts), `in ${count(found.memory_gb)} GB`],
      [`${digits(found.intensity)}`, `ridge at ${Math.round(found.ridge)}`],
      [`${digits(found.step_ms)} ms`, "at least"],
      [`${digits(found.tokens_per_second)} tokens`, "at most"],
    ];
    notes.forEach(([number, note], i) => entries[i].value.replaceChildren(number, make("small", {}, [note])));
    el.dataset.state = JSON.stringify(state);
    el.dataset.values = JSON.stringify(found);
    clearTimeout(announce);
    const text =
      `${state.model}: weights ${digits(found.weights_gb)} GB, cache ${digits(found.cache_gb)} GB, of ` +
      `${count(found.memory_gb)}${overfull(found) ? ": does not fit" : ""}. ${digits(found.intensity)} operations for each byte: ${limit}.`;
    announce = setTimeout(() => (says.textContent = text), says.textContent ? 300 : 0);
  }

  const chosen = {
    model: (i) => NAMES[i],
    context: (i) => 2 ** (i + SHORTEST),
    batch: (i) => 2 ** i,
    weight_bits: (i) => BITS[i],
    cache_bits: (i) => BITS[i],
    devices: (i) => 2 ** i,
  };
  for (const [name, input] of Object.entries(inputs)) {
    input.addEventListener("input", () => {
      model.set(name, chosen[name](Number(input.value)));
      const longest = MODELS[model.get("model")].longest;
      if (model.get("context") > longest) model.set("context", longest);
      model.save_changes();
      draw();
    });
  }
  draw();
}

export default { render };
