// Heads and groups: how d_model is cut, which key head a query head reads, and what that costs.
// State: heads, kv_heads, tokens, tiled. See head_groups.py for what every number must be.

import { BLUE, GREEN, OLIVE, ORANGE, PINK, make, numberEntries } from "./common.js";

const D_MODEL = 768;
const HEADS = [1, 2, 3, 4, 6, 8, 12, 16, 24];
const COLOURS = [BLUE, ORANGE, GREEN, PINK, OLIVE];
const FEWEST = 6; // log2 of the tokens at the slider's ends
const MOST = 14;
const ACROSS = 360; // of the drawing, in its own units

const STYLE = `
.tfw-groups { --ink: var(--pst-color-text-base, var(--jp-content-font-color1, #333));
  --faint: var(--pst-color-text-muted, var(--jp-content-font-color2, #6b7280));
  color: var(--ink); font: 0.95rem/1.45 var(--pst-font-family-base, system-ui, sans-serif); }
.tfw-groups .controls { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 18rem), 1fr));
  gap: 0.2rem 1.5rem; }
.tfw-groups label { display: flex; gap: 0.6rem; align-items: center; min-height: 2.1rem; }
.tfw-groups label > span { min-width: 7em; }
.tfw-groups input { accent-color: ${COLOURS[0]}; }
.tfw-groups input[type="range"] { flex: 1; min-width: 5rem; }
.tfw-groups input[type="checkbox"] { width: 1.1rem; height: 1.1rem; flex: none; }
.tfw-groups output { min-width: 3.4em; text-align: right; font-variant-numeric: tabular-nums; }
.tfw-groups svg { width: 100%; max-width: 38rem; height: auto; display: block; margin: 0.6rem auto 0; overflow: visible; }
.tfw-groups text { font: 11px/1 var(--pst-font-family-base, system-ui, sans-serif); fill: var(--ink); }
.tfw-groups text.title { font-size: 12px; fill: var(--faint); }
@media (min-width: 601px) { .tfw-groups text { font-size: 8.5px; } .tfw-groups text.title { font-size: 9.5px; } }
.tfw-groups .bare { fill: none; stroke: var(--faint); stroke-dasharray: 2 3; }
.tfw-groups rect.head { fill-opacity: 0.3; stroke-width: 1.5; }
.tfw-groups line { stroke-width: 1.6; }
.tfw-groups dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(7.6rem, 1fr)); gap: 0.4rem 1rem;
  margin: 0.75rem 0 0; }
.tfw-groups dt { font-weight: 400; color: var(--faint); font-size: 0.85rem; margin: 0; }
.tfw-groups dd { margin: 0; font-size: 1.05rem; font-variant-numeric: tabular-nums; }
.tfw-groups dd small { color: var(--faint); font-size: 0.8rem; display: block; }
.tfw-groups .says { margin: 0.6rem 0 0; color: var(--faint); font-size: 0.9rem; }
`;

const count = (n) => n.toLocaleString("en-GB");
const named = (n, kind) => `${n} ${kind} head${n === 1 ? "" : "s"}`;
const colour = (key) => COLOURS[key % COLOURS.length];
const divisors = (h) => Array.from({ length: h }, (_, i) => i + 1).filter((d) => h % d === 0);

function compute({ heads, kv_heads, tokens, tiled }) {
  const width = D_MODEL / heads;
  const group = heads / kv_heads;
  const parameters = 2 * D_MODEL * D_MODEL + 2 * D_MODEL * kv_heads * width;
  return {
    width,
    reads: Array.from({ length: heads }, (_, i) => (tiled ? i % kv_heads : Math.floor(i / group))),
    parameters,
    multiplications: tokens * parameters + 2 * tokens * tokens * D_MODEL,
    scores: heads * tokens * tokens,
    kept: 2 * kv_heads * width,
  };
}

function drawing(state, { width, reads }) {
  const unit = ACROSS / D_MODEL;
  const centre = (i) => (i + 0.5) * width * unit;
  const box = (i, y, key) =>
    make("rect", {
      class: "head", x: i * width * unit + 1, y, width: width * unit - 2, height: 24, rx: 2,
      fill: colour(key), stroke: colour(key),
    });
  const size = Math.min(11, 0.57 * width * unit); // two digits must fit into a narrow head
  const number = (i, y) =>
    make("text", { x: centre(i), y, "text-anchor": "middle", style: `font-size: ${size}px` }, [String(i + 1)]);
  const keys = Array.from({ length: state.kv_heads }, (_, i) => i);
  return [
    make("text", { class: "title", x: 0, y: 11 }, [`queries: ${state.heads} \u00d7 ${width} channels`]),
    ...reads.map((key, i) => make("line", { x1: centre(i), x2: centre(key), y1: 42, y2: 98, stroke: colour(key) })),
    ...reads.flatMap((key, i) => [box(i, 18, key), number(i, 34)]),
    make("rect", { class: "bare", x: 1, y: 98, width: ACROSS - 2, height: 24, rx: 2 }),
    ...keys.flatMap((key) => [box(key, 98, key), number(key, 114)]),
    make("text", { class: "title", x: 0, y: 138 }, [
      `keys, and values: ${state.kv_heads} \u00d7 ${width} channels of ${D_MODEL}`,
    ]),
  ];
}

function render({ model, el }) {
  const range = (label, max) => make("input", { type: "range", min: 0, max, step: 1, "aria-label": label });
  const heads = range("Query heads", HEADS.length - 1);
  const keys = range("Key and value heads", 1);
  const tokens = range("Tokens", MOST - FEWEST);
  const shown = { heads: make("output"), keys: make("output"), tokens: make("output") };
  const tiled = make("input", { type: "checkbox" });
  const svg = make("svg", {
    viewBox: `0 0 ${ACROSS} 142`,
    role: "img",
    "aria-label": "Query heads above, key heads below, a line from each query head to the key head that it reads",
  });
  const entries = numberEntries(["Width of a head", "Parameters", "Multiplications", "Scores", "Kept for each token"]);
  const says = make("p", { class: "says", "aria-live": "polite" });
  const row = (title, input, output) => make("label", {}, [make("span", {}, [title]), input, output]);
  const root = make("div", { class: "tfw-groups" }, [
    make("style", {}, [STYLE]),
    make("div", { class: "controls" }, [
      row("Query heads", heads, shown.heads),
      row("Key heads", keys, shown.keys),
      row("Tokens", tokens, shown.tokens),
      make("label", {}, [tiled, "tiled: 1, 2, 1, 2 in place of 1, 1, 2, 2"]),
    ]),
    svg,
    make("dl", {}, entries.map(({ entry }) => entry)),
    says,
  ]);
  el.append(root);

  let announce;
  function draw() {
    const state = {
      heads: model.get("heads"),
      kv_heads: model.get("kv_heads"),
      tokens: model.get("tokens"),
      tiled: model.get("tiled"),
    };
    const found = compute(state);
    const alone = compute({ ...state, heads: 1, kv_heads: 1 }); // one head of the full width
    const own = compute({ ...state, kv_heads: state.heads }); // a key head for each query head
    const choices = divisors(state.heads);
    heads.value = HEADS.indexOf(state.heads);
    keys.max = Math.max(1, choices.length - 1);
    keys.disabled = choices.length === 1;
    keys.value = choices.indexOf(state.kv_heads);
    tokens.value = Math.log2(state.tokens) - FEWEST;
    tiled.checked = state.tiled;
    for (const [input, output, n, what] of [
      [heads, shown.heads, state.heads, "query heads"],
      [keys, shown.keys, state.kv_heads, "key heads"],
      [tokens, shown.tokens, state.tokens, "tokens"],
    ]) {
      output.textContent = count(n);
      input.setAttribute("aria-valuetext", `${count(n)} ${what}`);
    }
    svg.replaceChildren(...drawing(state, found));
    const share = (part, whole) => `${Math.round((100 * part) / whole)} % of ungrouped`;
    const notes = [
      [count(found.width), `${D_MODEL} / ${state.heads}`],
      [count(found.parameters), share(found.parameters, own.parameters)],
      [`${(found.multiplications / 1e9).toFixed(2)} billion`, share(found.multiplications, own.multiplications)],
      [count(found.scores), `${found.scores / alone.scores} \u00d7 one wide head`],
      [count(found.kept), share(found.kept, own.kept)],
    ];
    notes.forEach(([number, note], i) => entries[i].value.replaceChildren(number, make("small", {}, [note])));
    el.dataset.state = JSON.stringify(state);
    el.dataset.values = JSON.stringify(found);
    clearTimeout(announce);
    const text =
      `${named(state.heads, "query")} of width ${found.width} read${state.heads > 1 ? "" : "s"} ${named(state.kv_heads, "key")}` +
      `${state.heads > 1 ? ` (query head 2 reads key head ${found.reads[1] + 1})` : ""}. ${count(found.parameters)} parameters, ` +
      `${count(found.scores)} scores, ${count(found.kept)} numbers kept for each token.`;
    announce = setTimeout(() => (says.textContent = text), says.textContent ? 300 : 0);
  }

  function change(entries) {
    for (const [key, value] of Object.entries(entries)) model.set(key, value);
    model.save_changes();
    draw();
  }

  heads.addEventListener("input", () => {
    // A key head for each query head stays so; else as near to the old number as the new number of heads allows.
    const h = HEADS[Number(heads.value)];
    const old = model.get("kv_heads") === model.get("heads") ? h : model.get("kv_heads");
    const near = (d) => Math.abs(Math.log(d / old));
    const kv = divisors(h).reduce((best, d) => (near(d) < near(best) ? d : best));
    change({ heads: h, kv_heads: kv });
  });
  keys.addEventListener("input", () => {
    const choices = divisors(model.get("heads"));
    change({ kv_heads: choices[Math.min(Number(keys.value), choices.length - 1)] });
  });
  tokens.addEventListener("input", () => change({ tokens: 2 ** (Number(tokens.value) + FEWEST) }));
  tiled.addEventListener("change", () => change({ tiled: tiled.checked }));
  draw();
}

export default { render };
