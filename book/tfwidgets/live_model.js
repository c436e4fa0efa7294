// The capstone's model, live: a text, what the model expects after each token, and what its heads attend to.
// State: text, place, layer, head, silenced, temperature, model. See live_model.py for what every number must be.

import { BLUE, ORANGE, PLAIN, chooseWord, make, mapCell, softmax } from "./common.js";

const BOS = 1;
const EOS = 2;
const SPECIAL = 3; // ids below it are no words
const EPS = 1e-5;
const SHOWN = 7; // bars
const EXAMPLES = [
  ["the old camel didn't cross the road because it was too tired . what was tired ? the", "camel or road? (tired)"],
  ["the old camel didn't cross the road because it was too wide . what was wide ? the", "camel or road? (wide)"],
  ["the young goat couldn't climb the cliff since it was too scared . what was scared ? the", "goat or cliff? (scared)"],
  ["the young goat couldn't climb the cliff since it was too crumbly . what was crumbly ? the", "goat or cliff? (crumbly)"],
  ["the horse", "the horse ... write on"],
  ["the camel didn't cross the road because it was too tired . what was wide ? the", "out of the grammar: asked for the other"],
  ["the road didn't cross the camel because it was too tired . what was tired ? the", "out of the grammar: nouns exchanged"],
];
const OWN = "your own text";

const STYLE = `
.tfw-live { --ink: var(--pst-color-text-base, var(--jp-content-font-color1, #333));
  --faint: var(--pst-color-text-muted, var(--jp-content-font-color2, #6b7280));
  color: var(--ink); font: 0.95rem/1.45 var(--pst-font-family-base, system-ui, sans-serif); }
.tfw-live .line { display: flex; flex-wrap: wrap; gap: 0.4rem 0.8rem; align-items: center; margin-bottom: 0.5rem; }
.tfw-live .line label { display: flex; flex: 1 1 16rem; gap: 0.6rem; align-items: center; min-width: 0; }
.tfw-live .line label > span { min-width: 5.4em; }
.tfw-live :is(select, input[type="text"]) { flex: 1; min-width: 0; width: 100%; font: inherit; color: inherit; background: transparent;
  border: 1px solid var(--faint); border-radius: 5px; padding: 0.25rem 0.5rem; min-height: 2.2rem; }
.tfw-live option { color: #222; background: #fff; }
.tfw-live input[aria-invalid="true"] { border-color: ${ORANGE}; box-shadow: inset 0 0 0 1px ${ORANGE}; }
.tfw-live input { accent-color: ${BLUE}; }
.tfw-live input[type="range"] { flex: 1; min-width: 5rem; }
.tfw-live output { min-width: 2.6em; text-align: right; font-variant-numeric: tabular-nums; }
.tfw-live .line button { font: inherit; font-size: 0.9rem; color: inherit; background: none; cursor: pointer;
  border: 1px solid var(--faint); border-radius: 5px; padding: 0.2rem 0.7rem; min-height: 2.2rem; }
.tfw-live button:hover { border-color: ${BLUE}; }
.tfw-live .problem { color: ${ORANGE}; margin: 0 0 0.5rem; font-size: 0.9rem; }
.tfw-live .problem:empty { margin: 0; }
.tfw-live .strip { display: flex; flex-wrap: wrap; gap: 3px; touch-action: none; cursor: pointer; user-select: none;
  padding: 4px; border-radius: 6px; }
.tfw-live .strip span { --weight: 0; border-radius: 4px; padding: 0.1rem 0.4rem; border: 2px solid transparent;
  background: color-mix(in srgb, ${BLUE} calc(var(--weight) * 44%), color-mix(in srgb, var(--faint) 14%, transparent)); }
.tfw-live .strip span.here { border-color: ${ORANGE}; }
.tfw-live .hint { color: var(--faint); font-size: 0.85rem; margin: 0.15rem 0 0.7rem; }
.tfw-live .both { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 17rem), 1fr)); gap: 0.75rem 1.5rem; }
.tfw-live .title { font: inherit; font-weight: 600; font-size: 0.9rem; margin: 0 0 0.3rem; }
.tfw-live .bars { display: grid; grid-template-columns: max-content 1fr 4.2em; gap: 0.1rem 0.5rem; align-items: center;
  font-variant-numeric: tabular-nums; white-space: nowrap; }
.tfw-live .bars i { display: block; height: 0.95em; border-radius: 2px; background: ${BLUE}; min-width: 1px; }
.tfw-live .bars i.noun { background: ${ORANGE}; }
.tfw-live .bars b { font-weight: 400; text-align: right; }
.tfw-live svg { width: 100%; max-width: 22rem; height: auto; display: block; overflow: visible; }
.tfw-live svg text { font: 10.5px/1 var(--pst-font-family-base, system-ui, sans-serif); fill: var(--ink); }
.tfw-live svg text.here { fill: ${ORANGE}; font-weight: 600; }
.tfw-live .layers { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 17rem), 1fr)); gap: 0.4rem 1.5rem;
  margin-top: 0.7rem; }
.tfw-live .heads { display: grid; gap: 0.3rem; }
.tfw-live .heads > div { min-width: 0; }
.tfw-live .heads button { display: block; width: 100%; padding: 2px; cursor: pointer; background: none;
  border: 2px solid transparent; border-radius: 5px; }
.tfw-live .heads button[aria-pressed="true"] { border-color: ${BLUE}; }
.tfw-live .heads canvas { display: block; width: 100%; aspect-ratio: 1; image-rendering: pixelated; border-radius: 2px; }
.tfw-live .heads label { display: flex; gap: 0.35rem; align-items: center; font-size: 0.82rem; min-height: 1.9rem; padding-left: 3px; }
html[data-theme="dark"] .tfw-live .heads canvas { filter: brightness(1.4); }
.tfw-live .heads .cut canvas { opacity: 0.25; }
.tfw-live .says { margin: 0.7rem 0 0; color: var(--faint); font-size: 0.9rem; }
.tfw-live details { margin-top: 0.5rem; font-size: 0.9rem; }
.tfw-live summary { cursor: pointer; }
`;

// Text to tokens, as tfcore.data.WordVocabulary does it.

const split = (text) => text.toLowerCase().match(/[\p{L}\p{N}_']+|[^\p{L}\p{N}_\s]/gu) || [];

// The weights: half-precision numbers in base64, in the order of Decoder.parameters().

function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

function unpack(packed) {
  const raw = atob(packed.weights);
  let at = 0;
  const vector = (size) =>
    Float64Array.from({ length: size }, () => {
      const bits = raw.charCodeAt(at) | (raw.charCodeAt(at + 1) << 8);
      at += 2;
      return half(bits);
    });
  const matrix = (rows, columns) => Array.from({ length: rows }, () => vector(columns));
  const d = packed.d_model;
  const norm = () => ({ weight: vector(d), bias: vector(d) });
  const linear = (into, from) => ({ weight: matrix(into, from), bias: vector(into) });
  const embedding = matrix(packed.words.length, d);
  const positions = matrix(packed.max_len, d);
  const blocks = Array.from({ length: packed.num_layers }, () => ({
    norm_attention: norm(),
    W_qkv: linear(3 * d, d),
    W_o: linear(d, d),
    norm_ffn: norm(),
    W_up: linear(4 * d, d),
    W_down: linear(d, 4 * d),
  }));
  return { embedding, positions, blocks, final_norm: norm(), heads: packed.num_heads, width: d / packed.num_heads };
}

// The forward pass. A sequence is an array of rows, one for each token.

function dot(a, b) {
  let total = 0;
  for (let i = 0; i < a.length; i++) total += a[i] * b[i];
  return total;
}

const add = (a, b) => a.map((row, i) => row.map((x, j) => x + b[i][j]));
const project = (x, { weight, bias }) => x.map((row) => Float64Array.from(bias, (b, i) => dot(row, weight[i]) + b));
const gelu = (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));

function layerNorm(x, { weight, bias }) {
  return x.map((row) => {
    const mean = row.reduce((total, value) => total + value, 0) / row.length;
    const centred = row.map((value) => value - mean);
    const scale = 1 / Math.sqrt(dot(centred, centred) / row.length + EPS);
    return centred.map((value, i) => value * scale * weight[i] + bias[i]);
  });
}

function attend(x, { W_qkv, W_o }, { heads, width }, silent) {
  const d = heads * width;
  const qkv = project(x, W_qkv);
  const said = x.map(() => new Float64Array(d));
  const maps = [];
  for (let head = 0; head < heads; head++) {
    const piece = (row, part) => row.subarray(part * d + head * width, part * d + (head + 1) * width);
    const map = qkv.map((row, i) => {
      const scores = qkv.slice(0, i + 1).map((key) => dot(piece(row, 0), piece(key, 1)) / Math.sqrt(width));
      return [...softmax(scores), ...new Array(x.length - i - 1).fill(0)]; // causal
    });
    maps.push(map);
    if (silent(head)) continue;
    map.forEach((weights, i) =>
      weights.slice(0, i + 1).forEach((weight, j) => {
        const value = piece(qkv[j], 2);
        for (let c = 0; c < width; c++) said[i][head * width + c] += weight * value[c];
      }),
    );
  }
  return [project(said, W_o), maps];
}

function run(model, tokens, silenced) {
  let x = tokens.map((id, i) => model.embedding[id].map((value, c) => value + model.positions[i][c]));
  const maps = [];
  model.blocks.forEach((block, layer) => {
    const silent = (head) => silenced.some(([l, h]) => l === layer && h === head);
    const [said, ofHeads] = attend(layerNorm(x, block.norm_attention), block, model, silent);
    maps.push(ofHeads);
    x = add(x, said);
    const wide = project(layerNorm(x, block.norm_ffn), block.W_up).map((row) => row.map(gelu));
    x = add(x, project(wide, block.W_down));
  });
  const logits = layerNorm(x, model.final_norm).map((row) => model.embedding.map((word) => dot(row, word)));
  return { logits, maps };
}

const percent = (p) => (p > 0 && p < 0.001 ? "< 0.1 %" : `${(100 * p).toFixed(p < 0.0995 ? 1 : 0)} %`);

function render({ model, el }) {
  const packed = model.get("model");
  const { words, num_layers: layers, num_heads: heads, max_len: longest } = packed;
  const network = unpack(packed);
  const ids = new Map(words.map((word, id) => [word, id]));
  const tokensOf = (text) => [BOS, ...split(text).map((word) => ids.get(word))];

  const examples = make("select", {}, [
    ...EXAMPLES.map(([text, label]) => make("option", { value: text }, [label])),
    make("option", { value: "" }, [OWN]),
  ]);
  const text = make("input", { type: "text", spellcheck: "false", autocomplete: "off", autocapitalize: "off" });
  const problem = make("p", { class: "problem", role: "alert" });
  const strip = make("div", {
    class: "strip", role: "slider", tabindex: 0, "aria-label": "Token to look from", "aria-valuemin": 0,
  });
  const writeOn = make("button", { type: "button" }, ["Write on: add the likeliest word"]);
  const temperature = make("input", { type: "range", min: -10, max: 10, step: 1, "aria-label": "Temperature" });
  const degrees = make("output");
  const bars = make("div", { class: "bars" });
  const barsTitle = make("p", { class: "title" });
  const mapTitle = make("p", { class: "title" });
  const svg = make("svg", { role: "img" });
  const says = make("p", { class: "says", "aria-live": "polite" });
  const cells = [];
  for (let layer = 0; layer < layers; layer++)
    for (let head = 0; head < heads; head++) {
      const name = `layer ${layer + 1}, head ${head + 1}`;
      const canvas = make("canvas", { "aria-hidden": "true" });
      const show = make("button", { type: "button", "aria-label": `Enlarge the map of ${name}` }, [canvas]);
      const cut = make("input", { type: "checkbox", "aria-label": `Cut ${name}` });
      const box = make("div", {}, [show, make("label", {}, [cut, `cut ${layer + 1}.${head + 1}`])]);
      show.addEventListener("click", () => change({ layer, head }));
      cut.addEventListener("change", () => {
        const others = model.get("silenced").filter(([l, h]) => l !== layer || h !== head);
        change({ silenced: cut.checked ? [...others, [layer, head]] : others });
      });
      cells.push({ layer, head, canvas, show, cut, box });
    }
  const row = (title, ...parts) => make("label", {}, [make("span", {}, [title]), ...parts]);
  const list = words.slice(SPECIAL).join(", ");
  el.append(
    make("div", { class: "tfw-live" }, [
      make("style", {}, [STYLE]),
      make("div", { class: "line" }, [row("Example", examples)]),
      make("div", { class: "line" }, [row("Text", text)]),
      problem,
      strip,
      make("p", { class: "hint" }, [
        "The outlined token is where the model guesses the next one. Blue: what the chosen head attends to from there.",
      ]),
      make("div", { class: "line" }, [writeOn, row("Temperature", temperature, degrees)]),
      make("div", { class: "both" }, [
        make("div", {}, [barsTitle, bars]),
        make("div", {}, [mapTitle, svg]),
      ]),
      make("div", { class: "layers" }, Array.from({ length: layers }, (_, layer) =>
        make("div", {}, [
          make("p", { class: "title" }, [`Layer ${layer + 1}`]),
          make("div", { class: "heads", style: `grid-template-columns: repeat(${heads}, 1fr)` },
            cells.filter((cell) => cell.layer === layer).map(({ box }) => box)),
        ]),
      )),
      says,
      make("details", {}, [make("summary", {}, [`All ${words.length - SPECIAL} words that it knows`]), list]),
    ]),
  );

  function drawBars(probabilities, tokens) {
    const order = probabilities.map((_, id) => id).sort((a, b) => probabilities[b] - probabilities[a]);
    const read = new Set(tokens);
    const kept = order.slice(0, SHOWN);
    bars.replaceChildren(
      ...kept.flatMap((id) => {
        const bar = make("i", { style: `width: ${100 * probabilities[id]}%` });
        if (read.has(id)) bar.className = "noun";
        return [make("span", {}, [id === EOS ? "(end)" : words[id]]), bar, make("b", {}, [percent(probabilities[id])])];
      }),
    );
    return kept;
  }

  function drawMap(map, names, place) {
    const size = 250 / names.length;
    const left = 58;
    const label = (x, y, i, more) =>
      make("text", { x, y, class: i === place ? "here" : "", ...more }, [names[i]]);
    svg.setAttribute("viewBox", `0 0 ${left + 255} 304`);
    svg.replaceChildren(
      ...map.flatMap((weights, i) =>
        weights.slice(0, i + 1).map((weight, j) => mapCell(j, i, left, size, names, weight)),
      ),
      make("rect", {
        x: left - 1, y: place * size - 1, width: (place + 1) * size + 1, height: size + 1, fill: "none", stroke: ORANGE,
      }),
      ...names.flatMap((_, i) => {
        const middle = (i + 0.5) * size;
        const turned = `rotate(-65 ${left + middle + 3} 258)`;
        return [
          label(left - 4, middle + 3.5, i, { "text-anchor": "end" }),
          label(left + middle + 3, 258, i, { "text-anchor": "end", transform: turned }),
        ];
      }),
    );
  }

  function drawSmall({ canvas }, map) {
    const n = map.length;
    canvas.width = n;
    canvas.height = n;
    const pen = canvas.getContext("2d");
    pen.fillStyle = PLAIN.BLUE;
    for (let i = 0; i < n; i++)
      for (let j = 0; j <= i; j++) {
        pen.globalAlpha = 0.14 + 0.86 * map[i][j];
        pen.fillRect(j, i, 1, 1);
      }
  }

  let announce;
  let next; // the likeliest token after the text
  function draw() {
    const state = Object.fromEntries(
      ["text", "place", "layer", "head", "silenced", "temperature"].map((key) => [key, model.get(key)]),
    );
    const tokens = tokensOf(state.text);
    const names = tokens.map((id) => (id === BOS ? "(start)" : words[id]));
    const { logits, maps } = run(network, tokens, state.silenced);
    const probabilities = softmax(logits[state.place].map((logit) => logit / state.temperature));
    const map = maps[state.layer][state.head];
    const last = logits[tokens.length - 1];
    next = last.indexOf(Math.max(...last));

    examples.value = EXAMPLES.some(([known]) => known === state.text) ? state.text : "";
    strip.replaceChildren(
      ...names.map((name, i) => {
        const weight = i <= state.place ? map[state.place][i] : 0;
        return make("span", { class: i === state.place ? "here" : "", style: `--weight: ${weight.toFixed(3)}` }, [name]);
      }),
    );
    strip.setAttribute("aria-valuemax", tokens.length - 1);
    strip.setAttribute("aria-valuenow", state.place);
    strip.setAttribute("aria-valuetext", `token ${state.place}, ${names[state.place]}`);
    temperature.value = Math.round(Math.log2(state.temperature) * 5);
    degrees.textContent = state.temperature.toFixed(2);
    temperature.setAttribute("aria-valuetext", state.temperature.toFixed(2));
    barsTitle.textContent = `What comes after \u201c${names[state.place]}\u201d?`;
    const kept = drawBars(probabilities, tokens);
    mapTitle.textContent = `Layer ${state.layer + 1}, head ${state.head + 1}: a row for each query`;
    svg.setAttribute("aria-label", `Attention weights of layer ${state.layer + 1}, head ${state.head + 1}`);
    drawMap(map, names, state.place);
    for (const cell of cells) {
      const silent = state.silenced.some(([l, h]) => l === cell.layer && h === cell.head);
      drawSmall(cell, maps[cell.layer][cell.head]);
      cell.cut.checked = silent;
      cell.box.className = silent ? "cut" : "";
      cell.show.setAttribute("aria-pressed", String(cell.layer === state.layer && cell.head === state.head));
    }
    el.dataset.state = JSON.stringify(state);
    el.dataset.values = JSON.stringify({
      tokens,
      probabilities,
      map,
      rows: maps.map((ofHeads) => ofHeads.map((weights) => weights[state.place])),
    });

    const cut = state.silenced.map(([l, h]) => `${l + 1}.${h + 1}`).sort().join(", ");
    const most = map[state.place].indexOf(Math.max(...map[state.place]));
    const guesses = kept.slice(0, 3).map((id) => `${id === EOS ? "the end" : words[id]} ${percent(probabilities[id])}`);
    const sentence =
      `After token ${state.place}, \u201c${names[state.place]}\u201d: ${guesses.join(", ")}. ` +
      `From there head ${state.layer + 1}.${state.head + 1} attends most to \u201c${names[most]}\u201d ` +
      `(${map[state.place][most].toFixed(2)}). ${cut ? `Cut: ${cut}.` : "No head is cut."}`;
    clearTimeout(announce);
    announce = setTimeout(() => (says.textContent = sentence), says.textContent ? 300 : 0);
  }

  function change(entries) {
    for (const [key, value] of Object.entries(entries)) model.set(key, value);
    model.save_changes();
    draw();
  }

  function trouble(typed) {
    const read = split(typed);
    const unknown = [...new Set(read.filter((word) => !ids.has(word)))];
    if (unknown.length)
      return `The model has no token for ${unknown.map((word) => `\u201c${word}\u201d`).join(", ")}. Its words are listed at the end.`;
    if (read.length >= longest) return `The model has ${longest} positions, one of them for the start: this text is too long.`;
    return read.length ? "" : "Type a word.";
  }

  function type(typed) {
    const wrong = trouble(typed);
    problem.textContent = wrong && `${wrong} Below is still the last text that it could read.`;
    text.setAttribute("aria-invalid", String(Boolean(wrong)));
    if (!wrong) change({ text: typed, place: split(typed).length });
  }

  function set(typed) {
    text.value = typed;
    type(typed);
  }

  text.value = model.get("text");
  text.addEventListener("input", () => type(text.value));
  examples.addEventListener("change", () => (examples.value ? set(examples.value) : text.focus()));
  writeOn.addEventListener("click", () => {
    const known = model.get("text");
    const full = split(known).length >= longest - 1;
    if (next >= SPECIAL && !full) return set(`${known} ${words[next]}`);
    text.value = known;
    text.setAttribute("aria-invalid", "false");
    problem.textContent = full ? "All positions are taken." : "The likeliest next token is the end of the text.";
  });
  temperature.addEventListener("input", () => change({ temperature: 2 ** (Number(temperature.value) / 5) }));

  const go = (place) => change({ place: Math.max(0, Math.min(tokensOf(model.get("text")).length - 1, place)) });
  chooseWord(strip, () => model.get("place"), go);
  draw();
}

export default { render };
