// Four weights, raised to a power that the reader chooses. State: weights, power.

import { make } from "./common.js";

function compute({ weights, power }) {
  const raised = weights.map((weight) => weight ** power);
  const sum = raised.reduce((total, one) => total + one, 0);
  return { sharpened: raised.map((one) => one / sum) };
}

function render({ model, el }) {
  const value = model.get("power");
  const slider = make("input", { type: "range", min: 0, max: 8, step: 0.25, value, "aria-label": "Power" });
  const says = make("p", { "aria-live": "polite" });
  el.append(slider, says);
  const draw = () => {
    const state = { weights: model.get("weights"), power: Number(slider.value) };
    const numbers = compute(state);
    says.textContent = `Power ${state.power}: ${numbers.sharpened.map((one) => one.toFixed(2)).join(", ")}`;
    el.dataset.state = JSON.stringify(state);
    el.dataset.values = JSON.stringify(numbers);
  };
  slider.addEventListener("input", () => {
    model.set("power", Number(slider.value));
    model.save_changes();
    draw();
  });
  draw();
}

export default { render };
