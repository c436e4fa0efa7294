// Fast weights: five cards (key, value) are written into a state of two numbers, by one of four rules.
// State: written, rule, alpha, beta, angle. See fast_weights.py for what every number must be.

import { BLUE, GREEN, ORANGE, PINK, make, numberEntries } from "./common.js";

// Pink is the state.

const CARDS = [["x", 3], ["y", 5], ["x", 7], ["z", 2], ["y", 4]];
const NAMES = ["x", "y", "z"];
const COLOURS = { x: BLUE, y: ORANGE, z: GREEN };
const RULES = ["add", "fade", "replace", "fade and replace"];
const FORMULAS = {
  add: "S \u2190 S + v k\u1d40",
  fade: "S \u2190 \u03b1 S + v k\u1d40",
  replace: "S \u2190 S + \u03b2 (v \u2212 S k) k\u1d40",
  "fade and replace": "S \u2190 \u03b1 S + \u03b2 (v \u2212 \u03b1 S k) k\u1d40",
};
const TURN = 5; // degrees in a step of the angle; with Shift 1
const UNIT = 20; // of the drawing, for a length of 1
const RIM = 8; // a key has length 1 and is drawn at this length
const [LEFT, RIGHT, TOP, BOTTOM] = [-10.2, 22.2, 11.2, -1.9]; // what the drawing shows
const [LEAST, MOST] = [-7, 21]; // the bars: no answer is below or above

const STYLE = `
.tfw-fast { --ink: var(--pst-color-text-base, var(--jp-content-font-color1, #333));
  --faint: var(--pst-color-text-muted, var(--jp-content-font-color2, #6b7280));
  color: var(--ink); font: 0.95rem/1.45 var(--pst-font-family-base, system-ui, sans-serif); }
.tfw-fast .cards { display: flex; flex-wrap: wrap; gap: 0.35rem; margin: 0 0 0.5rem; padding: 0; list-style: none; }
.tfw-fast .cards li { margin: 0; padding: 0.1rem 0.55rem; border: 1px dashed var(--faint); border-radius: 5px;
  color: var(--faint); font-variant-numeric: tabular-nums; }
.tfw-fast .cards li.written { border: 1px solid var(--of); color: var(--ink); }
.tfw-fast .cards li.last { box-shadow: inset 0 0 0 1px var(--of); font-weight: 600; }
.tfw-fast svg { width: 100%; height: auto; display: block; overflow: visible; }
.tfw-fast text { font: italic 16px/1 Georgia, serif; fill: var(--ink); text-anchor: middle; dominant-baseline: central;
  paint-order: stroke; stroke: var(--tf-card, var(--jp-layout-color0, #fff)); stroke-width: 4; stroke-linejoin: round; }
.tfw-fast .rim { fill: none; stroke: var(--faint); stroke-width: 1; opacity: 0.6; }
.tfw-fast .axis { stroke: var(--faint); stroke-width: 1; opacity: 0.6; }
.tfw-fast .foot { stroke-width: 1.3; stroke-dasharray: 3 4; }
.tfw-fast .step { stroke: ${PINK}; stroke-width: 8; stroke-linecap: round; opacity: 0.3; }
.tfw-fast .goal { fill: none; stroke-width: 2; }
.tfw-fast .handle { cursor: grab; outline: none; }
.tfw-fast .handle .ring { fill: none; stroke: none; }
.tfw-fast .handle:focus-visible .ring { stroke: var(--ink); stroke-width: 2; }
.tfw-fast .handle:active { cursor: grabbing; }
.tfw-fast .legend { margin: 0.3rem 0 0; color: var(--faint); font-size: 0.85rem; }
.tfw-fast table { width: 100%; border-collapse: collapse; margin: 0.6rem 0; font-variant-numeric: tabular-nums; }
.tfw-fast :is(th, td) { padding: 0.15rem 0.6rem 0.15rem 0; text-align: right; vertical-align: middle; font-weight: 400; border: 0;
  background: none; color: inherit; }
.tfw-fast :is(th:first-child, .bars) { text-align: left; }
.tfw-fast thead th { color: var(--faint); font-size: 0.85rem; }
.tfw-fast tbody th { font: italic 1.05rem/1 Georgia, serif; }
.tfw-fast td.bars { width: 60%; padding-right: 0; }
.tfw-fast .track { display: block; position: relative; height: 1.2rem; }
.tfw-fast .track span { position: absolute; box-sizing: border-box; top: 0.25rem; height: 0.7rem; }
.tfw-fast .track .wanted { top: 0; height: 1.2rem; border: 1.5px solid var(--ink); }
.tfw-fast .track .zero { top: 0; height: 1.2rem; width: 1px; background: var(--faint); }
.tfw-fast .controls { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 17rem), 1fr));
  gap: 0.1rem 1.5rem; }
.tfw-fast label { display: flex; gap: 0.6rem; align-items: center; min-height: 2rem; }
.tfw-fast label span { min-width: 6.7em; }
.tfw-fast input { flex: 1; min-width: 5rem; accent-color: var(--of, ${PINK}); }
.tfw-fast output { min-width: 3em; text-align: right; font-variant-numeric: tabular-nums; }
.tfw-fast .rules { display: flex; flex-wrap: wrap; gap: 0.4rem; align-items: center; margin: 0.4rem 0; }
.tfw-fast button { font: inherit; font-size: 0.9rem; color: inherit; background: none; cursor: pointer;
  border: 1px solid var(--faint); border-radius: 5px; padding: 0.2rem 0.7rem; min-height: 2rem; }
.tfw-fast button:hover { border-color: ${PINK}; }
.tfw-fast button[aria-pressed="true"] { border-color: ${PINK}; box-shadow: inset 0 0 0 1px ${PINK}; font-weight: 600; }
.tfw-fast .formula { font: italic 1.05rem/1.3 Georgia, serif; white-space: nowrap; margin-left: 0.3rem; }
.tfw-fast .title { margin: 0.5rem 0 0.1rem; color: var(--faint); font-size: 0.85rem; }
.tfw-fast dl { display: grid; grid-template-columns: repeat(4, auto); gap: 0.2rem 1rem; margin: 0; }
.tfw-fast dt { font-weight: 400; color: var(--faint); font-size: 0.85rem; margin: 0; }
.tfw-fast dd { margin: 0; font-size: 1.05rem; font-variant-numeric: tabular-nums; }
.tfw-fast .chosen :is(dt, dd) { color: var(--ink); font-weight: 600; }
.tfw-fast .says { margin: 0.6rem 0 0; color: var(--faint); font-size: 0.9rem; }
@media (max-width: 600px) {
  .tfw-fast text { font-size: 27px; }
  .tfw-fast .goal, .tfw-fast .foot { stroke-width: 3; }
  .tfw-fast td.bars { width: 50%; }
  .tfw-fast .formula { flex-basis: 100%; }
  .tfw-fast dl { grid-template-columns: 1fr 1fr; }
}
@media (prefers-reduced-motion: no-preference) { .tfw-fast .track span { transition: left 90ms linear, width 90ms linear; } }
`;

const clamp = (x, low, high) => Math.min(high, Math.max(low, x));
const two = (x) => (Math.abs(x) < 0.005 ? 0 : x).toFixed(2).replace("-", "\u2212");
const dot = (a, b) => a[0] * b[0] + a[1] * b[1];

// Writing.

function write({ written, alpha, beta }, rule, keys) {
  const states = [[0, 0]];
  for (const [name, value] of CARDS.slice(0, written)) {
    const key = keys[NAMES.indexOf(name)];
    const kept = states.at(-1).map((x) => (rule.includes("fade") ? alpha : 1) * x);
    const change = rule.includes("replace") ? beta * (value - dot(kept, key)) : value;
    states.push(kept.map((x, i) => x + change * key[i]));
  }
  return states;
}

function compute(state) {
  const turns = [0, 1, 0.5].map((share) => (share * state.angle * Math.PI) / 180);
  const keys = turns.map((turn) => [Math.cos(turn), Math.sin(turn)]);
  const last = Object.fromEntries(CARDS.slice(0, state.written));
  const seen = NAMES.filter((name) => name in last);
  const wanted = seen.map((name) => last[name]);
  const answers = (rule) => seen.map((name) => dot(write(state, rule, keys).at(-1), keys[NAMES.indexOf(name)]));
  const error = (rule) => answers(rule).reduce((sum, answer, i) => sum + (answer - wanted[i]) ** 2, 0);
  return {
    keys,
    states: write(state, state.rule, keys),
    wanted,
    answers: answers(state.rule),
    errors: RULES.map(error),
  };
}

// Drawing.

const WIDTH = (RIGHT - LEFT) * UNIT;
const HEIGHT = (TOP - BOTTOM) * UNIT;
const place = ([x, y]) => [(x - LEFT) * UNIT, (TOP - y) * UNIT];
const times = (vector, factor) => vector.map((x) => factor * x);

function segment(from, to, attributes) {
  const [[x1, y1], [x2, y2]] = [place(from), place(to)];
  return make("line", { x1, y1, x2, y2, ...attributes });
}

function arrow(tip, colour, width) {
  const [[x0, y0], [x1, y1]] = [place([0, 0]), place(tip)];
  const length = Math.hypot(x1 - x0, y1 - y0);
  if (length < 12) return [segment([0, 0], tip, { stroke: colour, "stroke-width": width })];
  const [ux, uy] = [(x1 - x0) / length, (y1 - y0) / length];
  const [bx, by] = [x1 - 13 * ux, y1 - 13 * uy];
  const head = [[x1, y1], [bx - 5.5 * uy, by + 5.5 * ux], [bx + 5.5 * uy, by - 5.5 * ux]];
  return [
    make("line", { x1: x0, y1: y0, x2: bx, y2: by, stroke: colour, "stroke-width": width }),
    make("polygon", { points: head.join(" "), fill: colour }),
  ];
}

function drawing({ keys, states, wanted, answers }, seen) {
  const memory = states.at(-1);
  const key = (name) => keys[NAMES.indexOf(name)];
  const ofKey = (name) => arrow(times(key(name), RIM), COLOURS[name], seen.includes(name) ? 3 : 1.5);
  const beside = keys[1][0] > 0.92; // y is so close to z that its letter goes further out
  const letters = { x: [RIM - 0.4, -1.2], y: times(key("y"), RIM + (beside ? 3 : 1.5)), z: times(key("z"), RIM + 1.5) };
  const feet = seen.flatMap((name, i) => {
    const stroke = COLOURS[name];
    const [foot, goal] = [times(key(name), answers[i]), times(key(name), wanted[i])];
    const [[cx, cy], [x, y]] = [foot, goal].map(place);
    return [
      segment(memory, foot, { class: "foot", stroke }),
      make("circle", { cx, cy, r: 6, fill: stroke }),
      make("rect", { class: "goal", x: x - 8, y: y - 8, width: 16, height: 16, stroke }),
    ];
  });
  return [
    ...NAMES.flatMap(ofKey),
    ...(states.length > 1 ? [segment(states.at(-2), memory, { class: "step" })] : []),
    ...feet,
    ...arrow(memory, PINK, 4.5),
    ...Object.entries({ ...letters, S: [memory[0] + 0.8, memory[1] + 0.8] }).map(([letter, at]) => {
      const [x, y] = place(at);
      return make("text", { x, y }, [letter]);
    }),
  ];
}

function plane(handle) {
  const label = "The three keys as arrows, the state S, its answers as dots on the keys, the values wanted as squares";
  const [[x0, y0], [x1]] = [[-RIM, 0], [RIM, 0]].map(place);
  const r = RIM * UNIT;
  const drawn = make("g");
  const svg = make("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group", "aria-label": label }, [
    segment([LEFT, 0], [RIGHT, 0], { class: "axis" }),
    make("path", { class: "rim", d: `M${x0} ${y0}A${r} ${r} 0 0 1 ${x1} ${y0}` }),
    drawn,
    handle,
  ]);
  return { svg, drawn };
}

function bar(span, value) {
  const percent = (x) => (100 * (clamp(x, LEAST, MOST) - LEAST)) / (MOST - LEAST);
  span.style.left = `${percent(Math.min(0, value))}%`;
  span.style.width = `${percent(Math.max(0, value)) - percent(Math.min(0, value))}%`;
}

function answerRow(name) {
  const [answer, goal] = [make("td"), make("td")];
  const [filled, outline] = [make("span", { style: `background: ${COLOURS[name]}` }), make("span", { class: "wanted" })];
  const zero = make("span", { class: "zero" });
  zero.style.left = `${(-100 * LEAST) / (MOST - LEAST)}%`;
  const bars = make("td", { class: "bars" }, [make("span", { class: "track" }, [zero, filled, outline])]);
  const row = make("tr", {}, [make("th", { scope: "row" }, [name]), answer, goal, bars]);
  const draw = (answered, wanted) => {
    const known = wanted !== undefined;
    answer.textContent = known ? two(answered) : "\u2014";
    goal.textContent = known ? wanted : "\u2014";
    filled.hidden = outline.hidden = !known;
    bar(filled, known ? answered : 0);
    bar(outline, known ? wanted : 0);
  };
  return { row, draw };
}

function render({ model, el }) {
  const ring = make("circle", { class: "ring", r: 15 });
  const grip = [make("circle", { r: 40, fill: "transparent" }), ring, make("circle", { r: 9, fill: COLOURS.y })];
  const handle = make("g", { class: "handle", tabindex: 0, role: "slider", "aria-label": "Key y, turned by the arrow keys" }, grip);
  const { svg, drawn } = plane(handle);
  const cards = CARDS.map(([name, value]) => make("li", { style: `--of: ${COLOURS[name]}` }, [`${name} \u2192 ${value}`]));
  const rows = NAMES.map(answerRow);
  const head = ["key", "answer", "wanted"].map((title) => make("th", { scope: "col" }, [title]));
  const table = make("table", {}, [
    make("thead", {}, [make("tr", {}, [...head, make("td", { class: "bars" })])]),
    make("tbody", {}, rows.map(({ row }) => row)),
  ]);

  const slide = (name, title, label, attributes) => {
    const input = make("input", { type: "range", "aria-label": label, ...attributes });
    const shown = make("output");
    input.addEventListener("input", () => change({ [name]: Number(input.value) }));
    return { name, input, shown, whole: make("label", {}, [make("span", {}, [title]), input, shown]) };
  };
  const part = { min: 0, max: 1, step: 0.05 };
  const sliders = [
    slide("written", "Cards written", "Cards written", { min: 0, max: CARDS.length, step: 1 }),
    slide("angle", "Angle of y", "Angle of y to x, in degrees", { min: 0, max: 180, step: TURN, style: `--of: ${COLOURS.y}` }),
    slide("alpha", "\u03b1 of fade", "\u03b1 of fade: the share of the state that is kept", part),
    slide("beta", "\u03b2 of replace", "\u03b2 of replace: the share of the old answer that is replaced", part),
  ];
  const buttons = RULES.map((rule) => {
    const button = make("button", { type: "button", "aria-pressed": "false" }, [rule]);
    button.addEventListener("click", () => change({ rule }));
    return button;
  });
  const formula = make("span", { class: "formula" });
  const errors = numberEntries(RULES);
  const says = make("p", { class: "says", "aria-live": "polite" });
  el.append(
    make("div", { class: "tfw-fast" }, [
      make("style", {}, [STYLE]),
      make("ul", { class: "cards", "aria-label": "The cards: key and value" }, cards),
      svg,
      make("p", { class: "legend" }, [
        `Keys have length 1 and are drawn ${RIM} times as long. Small dot: the answer S k. Large dot: turn the key. Square: the value wanted. Pale line: the last step of S.`,
      ]),
      table,
      make("div", { class: "rules", role: "group", "aria-label": "Rule by which a card is written" }, [...buttons, formula]),
      make("div", { class: "controls" }, sliders.map(({ whole }) => whole)),
      make("p", { class: "title" }, ["Sum of squared errors under each rule"]),
      make("dl", {}, errors.map(({ entry }) => entry)),
      says,
    ]),
  );

  let announce;
  function draw() {
    const state = Object.fromEntries(["written", "rule", "alpha", "beta", "angle"].map((name) => [name, model.get(name)]));
    const found = compute(state);
    const seen = NAMES.filter((name) => CARDS.slice(0, state.written).some(([key]) => key === name));
    drawn.replaceChildren(...drawing(found, seen));
    handle.setAttribute("transform", `translate(${place(times(found.keys[1], RIM)).join(" ")})`);
    const degrees = { "aria-valuemin": 0, "aria-valuemax": 180, "aria-valuenow": state.angle, "aria-valuetext": `${state.angle} degrees` };
    for (const [name, value] of Object.entries(degrees)) handle.setAttribute(name, value);
    cards.forEach((card, i) => {
      card.classList.toggle("written", i < state.written);
      card.classList.toggle("last", i === state.written - 1);
    });
    rows.forEach(({ draw: show }, i) => {
      const at = seen.indexOf(NAMES[i]);
      show(found.answers[at], found.wanted[at]);
    });
    const texts = { written: `${state.written} of ${CARDS.length}`, angle: `${state.angle}\u00b0` };
    for (const { name, input, shown } of sliders) {
      input.value = state[name];
      shown.textContent = texts[name] ?? state[name].toFixed(2);
      input.setAttribute("aria-valuetext", shown.textContent);
    }
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", RULES[i] === state.rule));
    formula.textContent = FORMULAS[state.rule];
    errors.forEach(({ value, entry }, i) => {
      value.textContent = two(found.errors[i]);
      entry.classList.toggle("chosen", RULES[i] === state.rule);
    });
    el.dataset.state = JSON.stringify(state);
    el.dataset.values = JSON.stringify(found);
    clearTimeout(announce);
    const list = seen.map((name, i) => `${name} answers ${two(found.answers[i])} and should answer ${found.wanted[i]}`);
    const text =
      `${state.written} of ${CARDS.length} cards, rule \u201c${state.rule}\u201d, y at ${state.angle} degrees: ` +
      `S = (${found.states.at(-1).map(two).join(", ")}); ${list.map((entry) => `${entry}; `).join("")}` +
      `sum of squared errors ${two(found.errors[RULES.indexOf(state.rule)])}.`;
    announce = setTimeout(() => (says.textContent = text), says.textContent ? 300 : 0);
  }

  function change(entries) {
    for (const [key, value] of Object.entries(entries)) model.set(key, value);
    model.save_changes();
    draw();
  }

  function follow(event) {
    const box = svg.getBoundingClientRect();
    const x = LEFT + ((event.clientX - box.left) / box.width) * (RIGHT - LEFT);
    const y = TOP - ((event.clientY - box.top) / box.height) * (TOP - BOTTOM);
    const turn = y < 0 ? (x < 0 ? 180 : 0) : (Math.atan2(y, x) * 180) / Math.PI;
    change({ angle: TURN * Math.round(turn / TURN) });
  }
  // A finger on the handle turns the key and does not scroll the page. (CSS touch-action does not hold for parts of an SVG.)
  handle.addEventListener("touchstart", (event) => event.preventDefault(), { passive: false });
  handle.addEventListener("pointerdown", (event) => {
    handle.setPointerCapture(event.pointerId);
    event.preventDefault();
    handle.focus({ preventScroll: true });
  });
  handle.addEventListener("pointermove", (event) => {
    if (handle.hasPointerCapture(event.pointerId)) follow(event);
  });
  handle.addEventListener("keydown", (event) => {
    const way = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key];
    if (!way) return;
    event.preventDefault();
    change({ angle: clamp(model.get("angle") + way * (event.shiftKey ? 1 : TURN), 0, 180) });
  });
  draw();
}

export default { render };
