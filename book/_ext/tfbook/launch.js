// Closes the box of commands by a click elsewhere and by Escape.
(() => {
  "use strict";

  const opened = () => document.querySelector(".tf-launch details[open]");
  const close = () => (opened().open = false);

  addEventListener("click", ({ target }) => {
    if (opened() && !opened().contains(target)) close();
  });
  addEventListener("keydown", ({ key }) => {
    if (key !== "Escape" || !opened()) return;
    opened().querySelector("summary").focus();
    close();
  });
})();
