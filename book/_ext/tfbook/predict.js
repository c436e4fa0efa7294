// Keeps what the reader predicts, in this browser alone, and shows it beside the answer.
(() => {
  "use strict";

  // A browser may refuse to keep anything, as in a private window: then the words last as long as the page.
  function recall(key) {
    try {
      return JSON.parse(localStorage.getItem(key)) || {};
    } catch {
      return {};
    }
  }

  function keep(key, guess) {
    try {
      if (guess.choice || guess.words) localStorage.setItem(key, JSON.stringify(guess));
      else localStorage.removeItem(key);
      return true;
    } catch {
      return false;
    }
  }

  function paragraph(...content) {
    const made = document.createElement("p");
    made.append(...content);
    return made;
  }

  function start(box) {
    const key = `tfbook/predict/${box.dataset.key}`;
    const radios = [...box.querySelectorAll("input")];
    const words = box.querySelector("textarea");
    const clear = box.querySelector(".tf-clear");
    const own = box.querySelector(".tf-own");

    function show() {
      const chosen = radios.find((radio) => radio.checked);
      const text = words.value.trim();
      const written = Boolean(chosen || text);
      box.querySelector("summary").textContent = written ? "Compare" : "Show the answer";
      clear.style.visibility = written ? "visible" : "hidden";
      own.hidden = !written;
      own.replaceChildren(paragraph("You predicted"));
      if (chosen) own.append(paragraph(...chosen.nextElementSibling.cloneNode(true).childNodes));
      if (text) own.append(paragraph(text));
      return { choice: chosen ? chosen.value : "", words: text };
    }

    function change() {
      if (!keep(key, show())) words.placeholder = "It is gone when you leave the page";
    }

    const before = recall(key);
    for (const radio of radios) radio.checked = radio.value === before.choice;
    words.value = before.words || "";
    show();
    box.querySelector(".tf-guess").addEventListener("input", change);
    clear.addEventListener("click", () => {
      for (const radio of radios) radio.checked = false;
      words.value = "";
      change();
      words.focus();
    });
  }

  document.querySelectorAll(".tf-predict").forEach(start);
})();
