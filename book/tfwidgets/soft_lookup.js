// The soft lookup: drag the query among the keys; the weights and the blend of the values follow.
// State: query, temperature, key, value (one row each; `keys` is a word of anywidget's). See soft_lookup.py for what every number must be.

import { BLUE, GREEN, ORANGE, PINK, make } from "./common.js";

const COLOURS = [BLUE, ORANGE, GREEN];
const REACH = 1.7; // the planes show -REACH to REACH on both axes
const SIZE = 240; // of a plane, in its own units
const STEP = 0.1; // of an arrow key; with Shift ten times finer
const HOTTEST = 10;
const COLDEST = 0.05;

const STYLE = `
.tfw-lookup { --ink: var(--pst-color-text-base, var(--jp-content-font-color1, #333));
  --faint: var(--pst-color-text-muted, var(--jp-content-font-color2, #6b7280));
  color: var(--ink); font: 0.95rem/1.45 var(--pst-font-family-base, system-ui, sans-serif); }
.tfw-lookup .planes { display: grid; grid-template-columns: 1fr 1fr; gap: 0.5rem 1rem; }
.tfw-lookup .planes p { margin: 0; font-weight: 600; text-align: center; font-size: 0.85rem; }
.tfw-lookup svg { width: 100%; height: auto; display: block; overflow: visible; }
.tfw-lookup .axis { stroke: var(--faint); stroke-width: 0.7; opacity: 0.6; }
.tfw-lookup .hull { fill: none; stroke: var(--faint); stroke-dasharray: 2 4; }
.tfw-lookup text { font: italic 15px/1 Georgia, serif; fill: var(--ink); }
.tfw-lookup text.word { font: 13px/1 var(--pst-font-family-base, system-ui, sans-serif); paint-order: stroke;
  stroke: var(--tf-card, var(--jp-layout-color0, #fff)); stroke-width: 4; stroke-linejoin: round; }
.tfw-lookup .handle { cursor: grab; outline: none; }
.tfw-lookup .handle .ring { fill: none; stroke: none; }
.tfw-lookup .handle:focus-visible .ring { stroke: var(--ink); stroke-width: 2; }
.tfw-lookup .handle:active { cursor: grabbing; }
.tfw-lookup table { width: 100%; border-collapse: collapse; margin: 0.75rem 0; font-variant-numeric: tabular-nums; }
.tfw-lookup :is(th, td) { padding: 0.15rem 0.5rem 0.15rem 0; text-align: left; font-weight: 400; border: 0;
  background: none; color: inherit; }
.tfw-lookup thead th { color: var(--faint); font-size: 0.85rem; }
.tfw-lookup tbody th i { font-family: Georgia, serif; }
.tfw-lookup td.track { width: 55%; }
.tfw-lookup .bar { display: block; height: 0.8rem; border-radius: 2px; min-width: 1px; }
.tfw-lookup .controls { display: flex; flex-wrap: wrap; gap: 0.5rem 1.25rem; align-items: center; }
.tfw-lookup label { display: flex; gap: 0.6rem; align-items: center; flex: 1 1 15rem; }
.tfw-lookup input { flex: 1; min-width: 6rem; accent-color: ${PINK}; }
.tfw-lookup output { min-width: 3em; font-variant-numeric: tabular-nums; }
.tfw-lookup button { font: inherit; font-size: 0.85rem; color: inherit; background: none; cursor: pointer;
  border: 1px solid var(--faint); border-radius: 5px; padding: 0.2rem 0.6rem; min-height: 2rem; }
.tfw-lookup button:hover { border-color: ${PINK}; }
.tfw-lookup .says { margin: 0.6rem 0 0; color: var(--faint); font-size: 0.9rem; }
@media (max-width: 600px) {
  .tfw-lookup .planes { gap: 0.5rem; }
  .tfw-lookup text { font-size: 22px; }
  .tfw-lookup text.word { font-size: 20px; }
  .tfw-lookup td.track { width: 45%; }
}
@media (prefers-reduced-motion: no-preference) { .tfw-lookup .bar { transition: width 90ms linear; } }
`;

const place = ([x, y]) => [SIZE / 2 + (x / REACH) * (SIZE / 2), SIZE / 2 - (y / REACH) * (SIZE / 2)];
const clamp = (x, low, high) => Math.min(high, Math.max(low, x));
const two = (x) => (Math.abs(x) < 0.005 ? 0 : x).toFixed(2).replace("-", "\u2212");

function compute({ query, temperature, key: keys, value: values }) {
  const scale = Math.sqrt(query.length) * temperature;
  const scores = keys.map((key) => key.reduce((sum, k, i) => sum + k * query[i], 0) / scale);
  const peak = Math.max(...scores);
  const parts = scores.map((score) => Math.exp(score - peak));
  const total = parts.reduce((sum, part) => sum + part, 0);
  const weights = parts.map((part) => part / total);
  const output = values[0].map((_, i) => values.reduce((sum, value, j) => sum + weights[j] * value[i], 0));
  return { scores, weights, output };
}

function arrow(tip, colour) {
  const [[x0, y0], [x1, y1]] = [place([0, 0]), place(tip)];
  const length = Math.hypot(x1 - x0, y1 - y0);
  const line = make("line", { x1: x0, y1: y0, x2: x1, y2: y1, stroke: colour, "stroke-width": 2.5 });
  if (length < 8) return [line];
  const [ux, uy] = [(x1 - x0) / length, (y1 - y0) / length];
  const back = [x1 - 10 * ux, y1 - 10 * uy];
  const head = [[x1, y1], [back[0] - 4 * uy, back[1] + 4 * ux], [back[0] + 4 * uy, back[1] - 4 * ux]];
  return [line, make("polygon", { points: head.join(" "), fill: colour })];
}

function plane(label) {
  const middle = SIZE / 2;
  return make("svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, role: "group", "aria-label": label }, [
    make("line", { class: "axis", x1: 0, x2: SIZE, y1: middle, y2: middle }),
    make("line", { class: "axis", y1: 0, y2: SIZE, x1: middle, x2: middle }),
  ]);
}

function name(letter, number, [x, y], dx = 7, dy = -7) {
  return make("text", { x: x + dx, y: y + dy }, [letter + "\u2080\u2081\u2082\u2083\u2084\u2085\u2086"[number]]);
}

function render({ model, el }) {
  const keys = model.get("key");
  const values = model.get("value");

  // The planes.
  const asks = plane("The query among the keys");
  keys.forEach((key, i) => asks.append(...arrow(key, COLOURS[i]), name("k", i + 1, place(key))));
  const shaft = make("g");
  const letter = make("text", {}, ["q"]);
  const ring = make("circle", { class: "ring", r: 15 });
  const handle = make(
    "g",
    { class: "handle", tabindex: 0, role: "slider", "aria-label": "Query, moved by the arrow keys" },
    [make("circle", { r: 24, fill: "transparent" }), ring, make("circle", { r: 8, fill: PINK })],
  );
  asks.append(shaft, letter, handle);

  const gives = plane("The values and the output");
  gives.append(make("polygon", { class: "hull", points: values.map((value) => place(value).join()).join(" ") }));
  const squares = values.map((value, i) => {
    gives.append(name("v", i + 1, place(value), value[0] < 0 ? -34 : 16, 5));
    return gives.appendChild(make("rect", { fill: COLOURS[i] }));
  });
  const diamond = gives.appendChild(make("path", { d: "M0-9 9 0 0 9-9 0z", fill: PINK }));
  const word = gives.appendChild(make("text", { class: "word" }, ["output"]));

  // The table of scores and weights.
  const rows = keys.map((_, i) => {
    const [score, weight] = [make("td"), make("td")];
    const bar = make("span", { class: "bar", style: `background: ${COLOURS[i]}` });
    const key = make("th", { scope: "row" }, [make("i", {}, ["k"]), make("sub", {}, [String(i + 1)])]);
    return { row: make("tr", {}, [key, score, weight, make("td", { class: "track" }, [bar])]), score, weight, bar };
  });
  const head = ["key", "score", "weight", ""].map((title) =>
    title ? make("th", { scope: "col" }, [title]) : make("td"),
  );
  const table = make("table", {}, [
    make("thead", {}, [make("tr", {}, head)]),
    make("tbody", {}, rows.map(({ row }) => row)),
  ]);

  // The controls.
  const slider = make("input", {
    type: "range",
    min: Math.log10(COLDEST),
    max: Math.log10(HOTTEST),
    step: "any",
    "aria-label": "Temperature",
  });
  const shown = make("output");
  const asToken = keys.map((key, i) => {
    const button = make("button", { type: "button" }, [`q = k${"\u2081\u2082\u2083\u2084"[i]}`]);
    button.addEventListener("click", () => change({ query: [...key], temperature: 1 }));
    return button;
  });
  const controls = make("div", { class: "controls" }, [
    make("label", {}, ["Temperature", slider, shown]),
    make("span", {}, asToken.flatMap((button) => [button, " "])),
  ]);
  const says = make("p", { class: "says", "aria-live": "polite" });

  const side = (title, svg) => make("div", {}, [make("p", {}, [title]), svg]);
  const root = make("div", { class: "tfw-lookup" }, [
    make("style", {}, [STYLE]),
    make("div", { class: "planes" }, [side("Query among keys", asks), side("Values and output", gives)]),
    table,
    controls,
    says,
  ]);
  el.append(root);

  let announce;
  function draw() {
    const state = { query: model.get("query"), temperature: model.get("temperature"), key: keys, value: values };
    const { scores, weights, output } = compute(state);
    const [x, y] = place(state.query);
    shaft.replaceChildren(...arrow(state.query, PINK));
    handle.setAttribute("transform", `translate(${x} ${y})`);
    letter.setAttribute("x", x + 12);
    letter.setAttribute("y", y + 20);
    handle.setAttribute("aria-valuemin", -REACH);
    handle.setAttribute("aria-valuemax", REACH);
    handle.setAttribute("aria-valuenow", state.query[0]);
    handle.setAttribute("aria-valuetext", `${two(state.query[0])} across, ${two(state.query[1])} up`);
    squares.forEach((square, i) => {
      const side = 4 + 22 * Math.sqrt(weights[i]);
      const [cx, cy] = place(values[i]);
      for (const [key, value] of [["x", cx - side / 2], ["y", cy - side / 2], ["width", side], ["height", side]])
        square.setAttribute(key, value);
    });
    const [ox, oy] = place(output);
    diamond.setAttribute("transform", `translate(${ox} ${oy})`);
    word.setAttribute("x", clamp(ox + 13, 0, SIZE - 45));
    word.setAttribute("y", oy + 22);
    rows.forEach((row, i) => {
      row.score.textContent = two(scores[i]);
      row.weight.textContent = two(weights[i]);
      row.bar.style.width = `${100 * weights[i]}%`;
    });
    slider.value = Math.log10(state.temperature);
    shown.textContent = state.temperature.toPrecision(2);
    slider.setAttribute("aria-valuetext", shown.textContent);
    el.dataset.state = JSON.stringify(state);
    el.dataset.values = JSON.stringify({ scores, weights, output });
    clearTimeout(announce);
    const list = weights.map((weight, i) => `${two(weight)} on key ${i + 1}`).join(", ");
    const text = `Query (${state.query.map(two).join(", ")}): weights ${list}; output (${output.map(two).join(", ")}).`;
    announce = setTimeout(() => (says.textContent = text), says.textContent ? 300 : 0);
  }

  function change(entries) {
    for (const [key, value] of Object.entries(entries)) model.set(key, value);
    model.save_changes();
    draw();
  }

  const snap = (x) => Math.round(clamp(x, -REACH, REACH) * 100) / 100;
  function follow(event) {
    const box = asks.getBoundingClientRect();
    const across = ((event.clientX - box.left) / box.width) * 2 - 1;
    const up = 1 - ((event.clientY - box.top) / box.height) * 2;
    change({ query: [snap(across * REACH), snap(up * REACH)] });
  }
  // A finger on the handle moves the query, not the page. (CSS touch-action does not hold for parts of an SVG.)
  handle.addEventListener("touchstart", (event) => event.preventDefault(), { passive: false });
  handle.addEventListener("pointerdown", (event) => {
    handle.setPointerCapture(event.pointerId);
    event.preventDefault();
    handle.focus({ preventScroll: true });
  });
  handle.addEventListener("pointermove", (event) => {
    if (handle.hasPointerCapture(event.pointerId)) follow(event);
  });
  asks.addEventListener("click", (event) => {
    if (!handle.contains(event.target)) follow(event);
  });
  handle.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    const step = event.shiftKey ? STEP / 10 : STEP;
    change({ query: model.get("query").map((x, i) => snap(x + step * move[i])) });
  });
  slider.addEventListener("input", () => {
    change({ temperature: clamp(10 ** Number(slider.value), COLDEST, HOTTEST) });
  });
  slider.addEventListener("keydown", (event) => {
    // With step "any" a browser's own step is a hundredth of the range or nothing; make it a tenth of a decade.
    const way = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key];
    if (!way) return;
    event.preventDefault();
    change({ temperature: clamp(model.get("temperature") * 10 ** (way / 10), COLDEST, HOTTEST) });
  });
  draw();
}

export default { render };
