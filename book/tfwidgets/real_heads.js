// A published model in the page: MiniLM is loaded on a click, reads the reader's own sentence in a worker, and shows
// the maps of all heads; a head can be cut. State: text, other, place, layer, head, silenced, jobs, name, source.
// See real_heads.py for what every number must be. The page gives the model's file in data-file and data-bytes.

import { BLUE, ORANGE, PLAIN, chooseWord, make, mapCell, numberEntries } from "./common.js";
import { workerScript } from "./encoder.js";

const SHOWN = 6; // bars
const PAUSE = 250; // milliseconds after a key until the sentence is read
const EXAMPLES = [
  ["The animal didn't cross the street because it was too tired.",
    "The animal didn't cross the street because it was too wide.", "it: tired and wide"],
  ["The street was near the animal, and it was very tired.", "The animal was near the street, and it was very tired.", "it: nouns exchanged"],
  ["A dog chased the cat, and the cat climbed a tree.", "A cat chased the dog, and the dog climbed a tree.", "words that come twice"],
  ["How do I bake bread without yeast?", "A recipe for a loaf that needs no raising agent.", "one meaning, other words"],
  ["The bank raised its interest rates.", "We had a picnic on the bank of the river.", "one word, two meanings"],
];
const OWN = "your own sentences";

const STYLE = `
.tfw-real { --ink: var(--pst-color-text-base, var(--jp-content-font-color1, #333));
  --faint: var(--pst-color-text-muted, var(--jp-content-font-color2, #6b7280));
  color: var(--ink); font: 0.95rem/1.45 var(--pst-font-family-base, system-ui, sans-serif); }
.tfw-real .start { display: grid; gap: 0.5rem; justify-items: center; text-align: center; margin: 0.5rem 0; }
.tfw-real .start p { margin: 0; }
.tfw-real .start progress { width: min(100%, 22rem); accent-color: ${BLUE}; }
.tfw-real [hidden] { display: none; }
.tfw-real .line { display: flex; flex-wrap: wrap; gap: 0.4rem 0.8rem; align-items: center; margin-bottom: 0.5rem; }
.tfw-real .line label { display: flex; flex: 1 1 16rem; gap: 0.6rem; align-items: center; min-width: 0; }
.tfw-real .line label > span { min-width: 5.4em; }
.tfw-real :is(select, .line input) { flex: 1; min-width: 0; width: 100%; font: inherit; color: inherit; background: transparent;
  border: 1px solid var(--faint); border-radius: 5px; padding: 0.25rem 0.5rem; min-height: 2.2rem; }
.tfw-real option { color: #222; background: #fff; }
.tfw-real :is(.start, .line) button { font: inherit; font-size: 0.9rem; color: inherit; background: none; cursor: pointer;
  border: 1px solid var(--faint); border-radius: 5px; padding: 0.2rem 0.7rem; min-height: 2.2rem; }
.tfw-real .start button[aria-disabled="true"] { opacity: 0.5; cursor: default; }
.tfw-real .start button { font-weight: 600; border-color: ${BLUE}; padding: 0.35rem 1rem; }
.tfw-real button:hover { border-color: ${BLUE}; }
.tfw-real .problem { color: color-mix(in srgb, ${ORANGE}, var(--ink) 35%); margin: 0 0 0.5rem; font-size: 0.9rem; }
.tfw-real .problem:empty { display: none; }
.tfw-real .strip { display: flex; flex-wrap: wrap; gap: 3px; touch-action: none; cursor: pointer; user-select: none;
  padding: 4px; border-radius: 6px; }
.tfw-real .strip span { --weight: 0; border-radius: 4px; padding: 0.1rem 0.4rem; border: 2px solid transparent;
  overflow-wrap: anywhere;
  background: color-mix(in srgb, ${BLUE} calc(var(--weight) * 44%), color-mix(in srgb, var(--faint) 14%, transparent)); }
.tfw-real .strip span.here { border-color: ${ORANGE}; }
.tfw-real .hint { color: var(--faint); font-size: 0.85rem; margin: 0.15rem 0 0.7rem; }
.tfw-real .title { font: inherit; font-weight: 600; font-size: 0.9rem; margin: 0 0 0.3rem; }
.tfw-real .layers { container-type: inline-size; }
.tfw-real .layer { display: grid; grid-template-columns: 0.9rem 1fr; align-items: start; margin-bottom: 2px; }
.tfw-real .layer > span { font-size: 0.85rem; }
.tfw-real .heads { display: grid; align-items: start; }
.tfw-real .heads button { display: block; min-width: 0; padding: 1px; cursor: pointer; background: none; color: inherit;
  font: inherit; font-size: 0.66rem; line-height: 1.2; border: 1.5px solid transparent; border-radius: 4px; }
.tfw-real .heads button[aria-pressed="true"] { border-color: ${BLUE}; }
.tfw-real .heads button > span { display: none; }
@container (min-width: 34rem) {
  .tfw-real .layer { margin-bottom: 0.4rem; }
  .tfw-real .heads { gap: 2px; }
  .tfw-real .heads button > span { display: block; overflow-wrap: anywhere; }
}
.tfw-real .heads canvas { display: block; width: 100%; max-width: 4rem; margin: 0 auto; aspect-ratio: 1;
  image-rendering: pixelated; border-radius: 2px; }
html[data-theme="dark"] .tfw-real .heads canvas { filter: brightness(1.4); }
.tfw-real .heads button.cut canvas { opacity: 0.2; }
.tfw-real .heads button.cut { outline: 1.5px dashed ${ORANGE}; outline-offset: -2px; }
.tfw-real details { font-size: 0.9rem; margin-bottom: 0.5rem; }
.tfw-real summary { cursor: pointer; }
.tfw-real .both { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 17rem), 1fr)); gap: 0.75rem 1.5rem;
  margin-top: 0.7rem; }
.tfw-real svg { width: 100%; max-width: 24rem; height: auto; display: block; overflow: visible;
  cursor: pointer; touch-action: manipulation; }
.tfw-real svg text { font: 10px/1 var(--pst-font-family-base, system-ui, sans-serif); fill: var(--ink); }
.tfw-real svg text.here { fill: color-mix(in srgb, ${ORANGE}, var(--ink) 35%); font-weight: 600; }
.tfw-real .bars { display: grid; grid-template-columns: max-content 1fr 3em; gap: 0.1rem 0.5rem; align-items: center;
  font-variant-numeric: tabular-nums; white-space: nowrap; margin-bottom: 0.7rem; }
.tfw-real .bars i { display: block; height: 0.95em; border-radius: 2px; background: ${BLUE}; min-width: 1px; }
.tfw-real .bars span { overflow: hidden; text-overflow: ellipsis; max-width: 9em; }
.tfw-real .bars b { font-weight: 400; text-align: right; }
.tfw-real dl { display: grid; gap: 0.2rem; margin: 0 0 0.7rem; }
.tfw-real dl div { display: flex; justify-content: space-between; gap: 0.8rem; }
.tfw-real :is(dt, dd) { margin: 0; font-weight: 400; }
.tfw-real dd { font-variant-numeric: tabular-nums; font-weight: 600; }
.tfw-real .says { margin: 0.7rem 0 0; color: var(--faint); font-size: 0.9rem; }
`;

const megabytes = (bytes) => (bytes / 1e6).toFixed(1);
const short = (score) => score.toFixed(2).replace(/^0/, "");

// Start a worker and show how far it is; `onReady` is called with the worker and the sizes of its model.
function loader(el, name, onReady) {
  const { file, bytes } = el.dataset;
  const total = Number(bytes);
  const button = make("button", { type: "button" }, [`Load ${name} (${megabytes(total)} MB)`]);
  const choose = make("input", { type: "file", accept: ".bin" });
  const bar = make("progress", { max: total || 1, value: 0, "aria-label": `Loading ${name}`, hidden: "" });
  const come = make("p", { "aria-live": "polite" });
  const problem = make("p", { class: "problem", role: "alert" });
  const panel = make("div", { class: "start" });
  const fromDisk = location.protocol === "file:";
  const about = make("p", { class: "hint" }, [
    "The model is loaded from the server of this page. Your sentences stay in your browser.",
  ]);

  const lock = (locked) => {
    for (const control of [button, choose]) control.setAttribute("aria-disabled", String(locked)); // which keeps its focus
  };
  function begin(message) {
    if (button.ariaDisabled === "true") return;
    problem.textContent = "";
    bar.hidden = !message.address;
    lock(true);
    come.textContent = `Loading ${name} \u2026`;
    const address = URL.createObjectURL(new Blob([workerScript()], { type: "text/javascript" }));
    const fail = (why) => {
      worker?.terminate();
      URL.revokeObjectURL(address);
      bar.hidden = true;
      lock(false);
      come.textContent = choose.value = "";
      button.textContent = "Try again";
      problem.textContent = `${name} was not loaded: ${why}. The rest of the page does not need it.`;
    };
    let worker;
    try {
      worker = new Worker(address);
    } catch {
      return fail("this browser starts no worker here; try another browser");
    }
    worker.onerror = (event) => fail(event.message || "the worker stopped");
    worker.onmessage = ({ data }) => {
      if (data.problem) return fail(data.problem);
      if (data.sizes) {
        URL.revokeObjectURL(address);
        return onReady(worker, data.sizes);
      }
      const tenths = Math.floor((10 * data.come) / total);
      if (tenths > Math.floor((10 * bar.value) / total)) come.textContent = `${megabytes(data.come)} of ${megabytes(total)} MB`;
      bar.value = data.come;
    };
    worker.postMessage(message);
  }

  button.addEventListener("click", () => begin({ address: new URL(file, document.baseURI).href, bytes: total }));
  choose.addEventListener("change", () => choose.files.length && begin({ file: choose.files[0] }));
  if (!file) panel.append(make("p", {}, [`This widget reads ${name} from a file beside a page of the book: open it there.`]));
  else if (fromDisk)
    panel.append(
      make("p", {}, [
        "This page was opened from disk, where a page may not read a second file. Open it through a server " +
          "(make serve), or choose the file yourself:",
      ]),
      make("label", {}, [`${decodeURI(file).replace(/^(\.\.\/)+/, "")} `, choose]),
    );
  else panel.append(button, about);
  panel.append(bar, come, problem);
  return panel;
}

const label = (title, ...parts) => make("label", {}, [make("span", {}, [title]), ...parts]);

// Return a line for each job, with its heads from the clearest on.
function listOfJobs(jobs) {
  const heads = Object.entries(jobs).sort(([, a], [, b]) => b[1] - a[1]);
  const names = [...new Set(heads.map(([, [job]]) => job))];
  const of = (job) => heads.filter(([, [other]]) => other === job).map(([head, [, score]]) => `${head} (${short(score)})`);
  return make("ul", {}, names.map((job) => make("li", {}, [make("b", {}, [job]), `: ${of(job).join(", ")}`])));
}

// Make the elements of the loaded widget, in the order in which they are read.
function build(sizes, jobs) {
  const field = () => make("input", { type: "text", spellcheck: "false", autocomplete: "off", maxlength: 1000 });
  const parts = {
    examples: make("select", {}, [
      ...EXAMPLES.map(([, , name], i) => make("option", { value: i }, [name])),
      make("option", { value: "" }, [OWN]),
    ]),
    text: field(),
    other: field(),
    problem: make("p", { class: "problem", role: "status" }),
    strip: make("div", {
      class: "strip", role: "slider", tabindex: 0, "aria-label": "Token to look from", "aria-valuemin": 0,
    }),
    cut: make("button", { type: "button" }),
    cutLayer: make("button", { type: "button" }),
    restore: make("button", { type: "button" }, ["Put all back"]),
    list: make("details", {}, [make("summary", {}, ["What each head does, as measured"]), listOfJobs(jobs)]),
    mapTitle: make("p", { class: "title" }),
    svg: make("svg", { role: "img" }),
    barsTitle: make("p", { class: "title" }),
    bars: make("div", { class: "bars" }),
    numbers: numberEntries([
      "Similarity of the two sentences, no head cut",
      "Similarity with the cut",
      "First sentence with the cut, to itself without",
    ]),
    says: make("p", { class: "says", "aria-live": "polite" }),
    cells: [],
  };
  for (let layer = 0; layer < sizes.layers; layer++)
    for (let head = 0; head < sizes.heads; head++) {
      const canvas = make("canvas", { "aria-hidden": "true" });
      const caption = make("span");
      parts.cells.push({ layer, head, canvas, caption, show: make("button", { type: "button" }, [canvas, caption]) });
    }
  const layers = Array.from({ length: sizes.layers }, (_, layer) => {
    const own = parts.cells.filter((cell) => cell.layer === layer).map(({ show }) => show);
    const columns = `grid-template-columns: repeat(${sizes.heads}, 1fr)`;
    const group = make("div", { class: "heads", role: "group", "aria-label": `Heads of layer ${layer}`, style: columns }, own);
    return make("div", { class: "layer" }, [make("span", { "aria-hidden": "true" }, [String(layer)]), group]);
  });
  parts.whole = [
    make("div", { class: "line" }, [label("Example", parts.examples)]),
    make("div", { class: "line" }, [label("Sentence", parts.text)]),
    make("div", { class: "line" }, [label("Compare to", parts.other)]),
    parts.problem,
    parts.strip,
    make("p", { class: "hint" }, ["Blue: what the chosen head attends to from the outlined token."]),
    make("p", { class: "title" }, ["All heads, a row for each layer"]),
    make("div", { class: "layers" }, layers),
    parts.list,
    make("div", { class: "line" }, [parts.cut, parts.cutLayer, parts.restore]),
    make("div", { class: "both" }, [
      make("div", {}, [parts.mapTitle, parts.svg]),
      make("div", {}, [parts.barsTitle, parts.bars, make("dl", {}, parts.numbers.map(({ entry }) => entry))]),
    ]),
    parts.says,
  ];
  return parts;
}

function drawMap(svg, map, names, place) {
  const size = 260 / names.length;
  const left = 66;
  const text = (i, more) => make("text", { class: i === place ? "here" : "", "text-anchor": "end", ...more }, [names[i]]);
  svg.setAttribute("viewBox", `0 0 ${left + 264} 312`);
  svg.replaceChildren(
    ...map.flatMap((weights, i) => weights.map((weight, j) => mapCell(j, i, left, size, names, weight))),
    make("rect", { x: left - 1, y: place * size - 1, width: 261, height: size + 1, fill: "none", stroke: ORANGE }),
    ...names.flatMap((_, i) => {
      const middle = (i + 0.5) * size;
      const across = left + middle + 3;
      return [text(i, { x: left - 4, y: middle + 3.5 }), text(i, { x: across, y: 268, transform: `rotate(-65 ${across} 268)` })];
    }),
  );
}

function drawSmall(canvas, map) {
  canvas.width = canvas.height = map.length;
  const pen = canvas.getContext("2d");
  pen.fillStyle = PLAIN.BLUE;
  map.forEach((row, i) =>
    row.forEach((weight, j) => {
      pen.globalAlpha = 0.12 + 0.88 * weight;
      pen.fillRect(j, i, 1, 1);
    }),
  );
}

function drawBars(bars, row, names) {
  const order = row.map((_, j) => j).sort((a, b) => row[b] - row[a]);
  bars.replaceChildren(
    ...order.slice(0, SHOWN).flatMap((j) => [
      make("span", {}, [names[j]]),
      make("i", { style: `width: ${100 * row[j]}%` }),
      make("b", {}, [row[j].toFixed(2)]),
    ]),
  );
  return order[0];
}

// Return what the reader should know about a text that was not read as it was typed.
function remarks(found, sizes, asked) {
  const said = [];
  if (!asked.text.trim()) said.push("Type a sentence: these are the maps of [CLS] and [SEP] alone.");
  ["The sentence", "The sentence to compare to"].forEach((which, i) => {
    const cut = found.left_out[i];
    if (!cut) return;
    said.push(`${which} is too long: its last ${cut} word pieces are left out.`);
    said.push(`This page reads ${sizes.longest} tokens, with [CLS] and [SEP].`);
  });
  if (found.names.includes("[UNK]")) said.push("[UNK] is read in the place of what the model has no word piece for.");
  return said.join(" ");
}

function showModel({ model, el, worker, sizes, onProblem }) {
  const fail = (why) => {
    worker.terminate();
    onProblem(why);
  };
  const jobs = model.get("jobs");
  const parts = build(sizes, jobs);
  const jobOf = (layer, head) => jobs[`${layer}.${head}`];
  const isCut = (layer, head) => model.get("silenced").some(([l, h]) => l === layer && h === head);
  let found; // the last answer of the worker, and what it was asked
  let asked;
  let announce;
  let typing;

  function ask() {
    el.setAttribute("aria-busy", "true");
    if (asked && asked !== found?.asked) return; // one question at a time; the answer asks again
    asked = { text: model.get("text"), other: model.get("other"), cut: model.get("silenced") };
    worker.postMessage({ id: 0, ...asked });
  }
  worker.onerror = (event) => fail(event.message || "its worker ended");
  worker.onmessage = ({ data }) => {
    if (data.problem) return fail(data.problem);
    found = { ...data.result, asked };
    const now = [model.get("text"), model.get("other"), model.get("silenced")];
    if (asked.text !== now[0] || asked.other !== now[1] || asked.cut !== now[2]) return ask();
    if (typing === undefined) el.setAttribute("aria-busy", "false");
    draw();
  };

  function drawHeads(layer, head) {
    for (const cell of parts.cells) {
      const { show } = cell;
      const chosen = cell.layer === layer && cell.head === head;
      const job = jobOf(cell.layer, cell.head);
      const cut = isCut(cell.layer, cell.head);
      drawSmall(cell.canvas, found.maps[cell.layer][cell.head]);
      show.className = cut ? "cut" : "";
      show.tabIndex = chosen ? 0 : -1;
      show.setAttribute("aria-pressed", String(chosen));
      const does = job ? `: ${job[0]} ${job[1].toFixed(2)}` : "";
      show.setAttribute("aria-label", `Head ${cell.layer}.${cell.head}${does}${cut ? ", cut" : ""}`);
      cell.caption.textContent = job ? `${job[0]} ${short(job[1])}` : "";
    }
  }

  function draw() {
    const { names, maps, tokens } = found;
    const [layer, head] = [model.get("layer"), model.get("head")];
    const place = Math.min(model.get("place"), names.length - 1);
    const map = maps[layer][head];
    const row = map[place];
    const name = `${layer}.${head}`;
    const job = jobOf(layer, head);
    parts.problem.textContent = remarks(found, sizes, found.asked);
    parts.strip.replaceChildren(
      ...names.map((piece, i) =>
        make("span", { class: i === place ? "here" : "", style: `--weight: ${row[i].toFixed(3)}` }, [piece]),
      ),
    );
    parts.strip.setAttribute("aria-valuemax", names.length - 1);
    parts.strip.setAttribute("aria-valuenow", place);
    parts.strip.setAttribute("aria-valuetext", `token ${place}, ${names[place]}`);
    parts.cut.textContent = isCut(layer, head) ? `Put head ${name} back` : `Cut head ${name}`;
    parts.cutLayer.textContent = `Cut all of layer ${layer}`;
    parts.mapTitle.textContent = `Head ${name}${job ? `, ${job[0]} ${short(job[1])}` : ""}: a row for each query`;
    parts.svg.setAttribute("aria-label", `Attention weights of head ${name}`);
    parts.barsTitle.textContent = `From \u201c${names[place]}\u201d head ${name} attends to`;
    drawMap(parts.svg, map, names, place);
    drawHeads(layer, head);
    const most = drawBars(parts.bars, row, names);
    [...found.similarity, found.kept].forEach((number, i) => (parts.numbers[i].value.textContent = number.toFixed(3)));
    const state = Object.fromEntries(["name", "source", "jobs"].map((key) => [key, model.get(key)]));
    const { text, other, cut } = found.asked;
    el.dataset.state = JSON.stringify({ ...state, text, other, silenced: cut, place, layer, head });
    el.dataset.values = JSON.stringify({
      tokens,
      map,
      rows: maps.map((ofHeads) => ofHeads.map((weights) => weights[place])),
      similarity: found.similarity,
      kept: found.kept,
    });
    const all = cut.map((pair) => pair.join(".")).sort().join(", ");
    const sentence =
      `From token ${place}, \u201c${names[place]}\u201d, head ${name} attends most to \u201c${names[most]}\u201d (${row[most].toFixed(2)}). ` +
      (job ? `Its job, as measured: ${job[0]} ${job[1].toFixed(2)}. ` : "") +
      (all ? `Cut: ${all}. ` : "No head is cut. ") +
      `Similarity of the sentences: ${found.similarity[0].toFixed(3)}${all ? `, with the cut ${found.similarity[1].toFixed(3)}` : ""}.`;
    clearTimeout(announce);
    announce = setTimeout(() => (parts.says.textContent = sentence), parts.says.textContent ? 300 : 0);
  }

  function change(entries) {
    for (const [key, value] of Object.entries(entries)) model.set(key, value);
    model.save_changes();
    if ("text" in entries || "other" in entries || "silenced" in entries) ask();
    else if (found) draw();
  }

  listen({ model, parts, sizes, change, isCut, count: () => found.names.length, onTyping });
  function onTyping() {
    el.setAttribute("aria-busy", "true");
    parts.examples.value = "";
    clearTimeout(typing);
    typing = setTimeout(() => {
      typing = undefined;
      change({ text: parts.text.value, other: parts.other.value });
    }, PAUSE);
  }
  [parts.text.value, parts.other.value] = [model.get("text"), model.get("other")];
  const example = EXAMPLES.findIndex(([text, other]) => text === model.get("text") && other === model.get("other"));
  parts.examples.value = example < 0 ? "" : String(example);
  ask();
  return parts.whole;
}

function listen({ model, parts, sizes, change, isCut, count, onTyping }) {
  const { text, other, examples, strip, svg, cut, cutLayer, restore, cells } = parts;
  for (const field of [text, other]) field.addEventListener("input", onTyping);
  examples.addEventListener("change", () => {
    if (!examples.value) return text.focus();
    [text.value, other.value] = EXAMPLES[Number(examples.value)];
    change({ text: text.value, other: other.value });
  });
  const go = (place) => change({ place: Math.max(0, Math.min(count() - 1, place)) });
  chooseWord(strip, () => Math.min(model.get("place"), count() - 1), go);
  svg.addEventListener("click", (event) => {
    const box = svg.getBoundingClientRect();
    const row = Math.floor((((event.clientY - box.top) / box.height) * 312 * count()) / 260);
    if (row < count()) go(row);
  });
  const at = (layer, head) => cells.find((cell) => cell.layer === layer && cell.head === head);
  for (const { layer, head, show } of cells) {
    show.addEventListener("click", () => change({ layer, head }));
    show.addEventListener("keydown", (event) => {
      const [down, right] = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key] || [];
      const next = down === undefined ? undefined : at(layer + down, head + right);
      if (!next) return;
      event.preventDefault();
      change({ layer: next.layer, head: next.head });
      next.show.focus();
    });
  }
  cut.addEventListener("click", () => {
    const [layer, head] = [model.get("layer"), model.get("head")];
    const others = model.get("silenced").filter(([l, h]) => l !== layer || h !== head);
    change({ silenced: isCut(layer, head) ? others : [...others, [layer, head]] });
  });
  cutLayer.addEventListener("click", () => {
    const layer = model.get("layer");
    const all = Array.from({ length: sizes.heads }, (_, head) => [layer, head]);
    change({ silenced: [...model.get("silenced").filter(([l]) => l !== layer), ...all] });
  });
  restore.addEventListener("click", () => change({ silenced: [] }));
}

function render({ model, el }) {
  const root = make("div", { class: "tfw-real" }, [make("style", {}, [STYLE])]);
  const name = model.get("name");
  const place = (...content) => root.replaceChildren(root.firstChild, ...content);
  function wait(problem = "") {
    el.dataset.waits = "";
    el.removeAttribute("aria-busy");
    const panel = loader(el, name, (worker, sizes) => {
      const byHand = panel.contains(document.activeElement);
      delete el.dataset.waits;
      place(...showModel({ model, el, worker, sizes, onProblem: wait }));
      if (byHand) root.querySelector(".strip").focus({ preventScroll: true });
    });
    if (problem) panel.append(make("p", { class: "problem", role: "alert" }, [`${name} stopped: ${problem}. Load it again.`]));
    place(panel);
  }
  wait();
  el.append(root);
}

export default { render };
