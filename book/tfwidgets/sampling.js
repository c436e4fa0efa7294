// Sampling: what temperature, top-k and top-p leave of a distribution over twelve words, and a few draws.
// State: temperature, top_k, top_p, sure, seed. See sampling.py for what every number must be.

import { BLUE, ORANGE, make, numberEntries, softmax, uniforms } from "./common.js";

// Blue is what is drawn from, orange the model.

const OPEN = {
  beginning: "She opened the door and saw a \u2026",
  words: "man woman dog light letter cat ghost child mirror whale seven of".split(" "),
  logits: [3.1, 2.95, 2.6, 2.4, 2.31, 2.1, 1.9, 1.5, 1.2, 0.1, -1.0, -1.4],
};
const SURE = {
  beginning: "The opposite of hot is \u2026",
  words: "cold cool warm freezing icy chilly not tepid mild a blue seven".split(" "),
  logits: [6.5, 3.2, 2.4, 2.1, 1.8, 1.1, 0.9, 0.6, -0.2, -0.9, -1.5, -2.0],
};
const WORDS = 12;
const DRAWS = 8;

const STYLE = `
.tfw-sampling { --ink: var(--pst-color-text-base, var(--jp-content-font-color1, #333));
  --faint: var(--pst-color-text-muted, var(--jp-content-font-color2, #6b7280));
  color: var(--ink); font: 0.95rem/1.45 var(--pst-font-family-base, system-ui, sans-serif); }
.tfw-sampling .controls { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 15rem), 1fr));
  gap: 0.2rem 1.5rem; }
.tfw-sampling .more { display: flex; flex-wrap: wrap; gap: 0.5rem 1.5rem; align-items: center; margin-top: 0.4rem; }
.tfw-sampling label { display: flex; gap: 0.6rem; align-items: center; min-height: 2rem; }
.tfw-sampling label > span { min-width: 7em; }
.tfw-sampling input { accent-color: ${BLUE}; }
.tfw-sampling input[type="range"] { flex: 1; min-width: 6rem; }
.tfw-sampling input[type="checkbox"] { width: 1.1rem; height: 1.1rem; }
.tfw-sampling .more label > span { min-width: 0; }
.tfw-sampling output { min-width: 2.6em; font-variant-numeric: tabular-nums; }
.tfw-sampling button { font: inherit; font-size: 0.9rem; color: inherit; background: none; cursor: pointer;
  border: 1px solid var(--faint); border-radius: 5px; padding: 0.2rem 0.7rem; min-height: 2rem; }
.tfw-sampling button:hover { border-color: ${BLUE}; }
.tfw-sampling .beginning { margin: 0.75rem 0 0.2rem; font-weight: 600; }
.tfw-sampling svg { width: 100%; max-width: 34rem; height: auto; display: block; overflow: visible; }
.tfw-sampling text { font: 11.5px/1 var(--pst-font-family-base, system-ui, sans-serif); fill: var(--ink); }
@media (min-width: 601px) { .tfw-sampling text { font-size: 9.5px; } }
.tfw-sampling text.number, .tfw-sampling .out text { fill: var(--faint); }
.tfw-sampling .bar { fill: ${BLUE}; }
.tfw-sampling .model { fill: none; stroke: ${ORANGE}; stroke-width: 1.3; }
.tfw-sampling dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr));
  gap: 0.4rem 1rem; margin: 0.75rem 0 0; }
.tfw-sampling dt { font-weight: 400; color: var(--faint); font-size: 0.85rem; margin: 0; }
.tfw-sampling dd { margin: 0; font-size: 1.1rem; font-variant-numeric: tabular-nums; }
.tfw-sampling .drawn { margin: 0.6rem 0 0; }
.tfw-sampling .says { margin: 0.4rem 0 0; color: var(--faint); font-size: 0.9rem; }
`;

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

// The words stand likeliest first, so that the k likeliest are the first k.

function compute({ temperature, top_k, top_p, sure, seed }) {
  const { logits } = sure ? SURE : OPEN;
  const greedy = logits.map((_, i) => Number(i === 0));
  const warm = temperature === 0 ? greedy : softmax(logits.map((z) => z / temperature));
  let probabilities = warm;
  if (temperature > 0) {
    let kept = logits.map((z, i) => (i < top_k ? z / temperature : -Infinity));
    const among = softmax(kept);
    let before = 0;
    kept = kept.map((z, i) => {
      const stays = top_p === 1 || before < top_p;
      before += among[i];
      return stays ? z : -Infinity;
    });
    probabilities = softmax(kept);
  }
  const left = probabilities.filter((p) => p > 0).length;
  const uniform = uniforms(seed);
  const draws = Array.from({ length: DRAWS }, () => {
    const u = uniform();
    let reached = 0;
    let index = 0;
    for (const p of probabilities) {
      reached += p;
      if (reached <= u) index += 1;
    }
    return Math.min(index, left - 1);
  });
  return {
    model: softmax(logits),
    probabilities,
    after_top_k: temperature === 0 ? 1 : top_k,
    left,
    share: sum(warm.filter((_, i) => probabilities[i] > 0)),
    entropy: -sum(probabilities.map((p) => (p > 0 ? p * Math.log(p) : 0))),
    draws,
  };
}

function barsPlot() {
  const label = "The probability of each word: what the model says in outline, what is drawn from filled";
  const svg = make("svg", { viewBox: `0 0 340 ${WORDS * 19 + 4}`, role: "img", "aria-label": label });
  const rows = Array.from({ length: WORDS }, (_, i) => {
    const y = 2 + 19 * i;
    const group = svg.appendChild(make("g"));
    const word = group.appendChild(make("text", { x: 60, y: y + 12, "text-anchor": "end" }));
    const bar = group.appendChild(make("rect", { class: "bar", x: 66, y: y + 1, height: 14 }));
    const model = group.appendChild(make("rect", { class: "model", x: 66, y: y + 1, height: 14 }));
    const number = group.appendChild(make("text", { class: "number", y: y + 12 }));
    return { group, word, bar, model, number };
  });
  const draw = (words, { model, probabilities }) =>
    rows.forEach((row, i) => {
      const [before, after] = [model[i], probabilities[i]].map((p) => 232 * p);
      row.group.setAttribute("class", after > 0 ? "in" : "out");
      row.word.textContent = words[i];
      row.bar.setAttribute("width", after);
      row.model.setAttribute("width", before);
      row.number.setAttribute("x", 72 + Math.max(before, after));
      row.number.textContent = after > 0 ? after / 232 < 0.005 ? "< 0.01" : (after / 232).toFixed(2) : "out";
    });
  return { svg, draw };
}

function render({ model, el }) {
  const range = (name, min, max, step) =>
    make("input", { type: "range", min, max, step, "aria-label": name });
  const sliders = {
    temperature: range("temperature", 0, 2, 0.05),
    top_k: range("top-k", 1, WORDS, 1),
    top_p: range("top-p", 0.05, 1, 0.05),
  };
  const shown = { temperature: make("output"), top_k: make("output"), top_p: make("output") };
  const names = { temperature: "temperature", top_k: "top-k", top_p: "top-p" };
  const box = make("input", { type: "checkbox" });
  const again = make("button", { type: "button" }, ["Draw again"]);
  const beginning = make("p", { class: "beginning" });
  const bars = barsPlot();
  const titles = ["Words left by top-k", "Words left in all", "Share that is kept", "Entropy (nats)"];
  const numbers = numberEntries(titles);
  const drawn = make("p", { class: "drawn" });
  const says = make("p", { class: "says", "aria-live": "polite" });
  const labelled = Object.keys(sliders).map((key) =>
    make("label", {}, [make("span", {}, [names[key]]), sliders[key], shown[key]])
  );
  const root = make("div", { class: "tfw-sampling" }, [
    make("style", {}, [STYLE]),
    make("div", { class: "controls" }, labelled),
    make("div", { class: "more" }, [make("label", {}, [box, make("span", {}, ["a sure model"])]), again]),
    beginning,
    bars.svg,
    make("dl", {}, numbers.map(({ entry }) => entry)),
    drawn,
    says,
  ]);
  el.append(root);

  let announce;
  function draw() {
    const state = Object.fromEntries(
      ["temperature", "top_k", "top_p", "sure", "seed"].map((key) => [key, model.get(key)])
    );
    const found = compute(state);
    const context = state.sure ? SURE : OPEN;
    for (const key of Object.keys(sliders)) {
      sliders[key].value = state[key];
      shown[key].textContent = key === "top_k" ? state[key] : state[key].toFixed(2);
    }
    box.checked = state.sure;
    beginning.textContent = context.beginning;
    bars.draw(context.words, found);
    const values = [found.after_top_k, found.left, `${(100 * found.share).toFixed(0)} %`, found.entropy.toFixed(2)];
    values.forEach((value, i) => (numbers[i].value.textContent = value));
    drawn.textContent = `Drawn: ${found.draws.map((i) => context.words[i]).join(", ")}.`;
    el.dataset.state = JSON.stringify(state);
    el.dataset.values = JSON.stringify(found);
    clearTimeout(announce);
    const text =
      `Temperature ${state.temperature}, top-k ${state.top_k}, top-p ${state.top_p}: ` +
      `${found.left} of ${WORDS} words can be drawn, with an entropy of ${found.entropy.toFixed(2)} nats; ` +
      `the likeliest, ${context.words[0]}, has ${found.probabilities[0].toFixed(2)}.`;
    announce = setTimeout(() => (says.textContent = text), says.textContent ? 300 : 0);
  }

  function change(entries) {
    for (const [key, value] of Object.entries(entries)) model.set(key, value);
    model.save_changes();
    draw();
  }

  for (const [key, slider] of Object.entries(sliders))
    slider.addEventListener("input", () => change({ [key]: Number(slider.value) }));
  box.addEventListener("change", () => change({ sure: box.checked }));
  again.addEventListener("click", () => change({ seed: model.get("seed") + 1 }));
  draw();
}

export default { render };
