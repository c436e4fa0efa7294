// Keeps a section that a link has led to in its place while what is above it is laid out: a browser does so by itself,
// but only after it has drawn that section.
(() => {
  "use strict";

  const SECONDS = 3; // after that, and once the reader acts, the page stays where the reader puts it
  let target = null;

  const leave = () => (target = null);
  function arrive(hash) {
    target = document.getElementById(hash.slice(1));
    setTimeout(leave, 1000 * SECONDS);
  }

  for (const act of ["wheel", "touchmove", "pointerdown", "keydown"]) addEventListener(act, leave, { passive: true });
  addEventListener("click", ({ target: clicked }) => {
    const link = clicked.closest?.('a[href^="#"]');
    if (link) arrive(link.hash);
  });
  // Who comes back or loads the page again is taken to where they were.
  if (performance.getEntriesByType("navigation")[0]?.type === "navigate") arrive(location.hash);
  new ResizeObserver(() => target?.scrollIntoView()).observe(document.querySelector(".bd-article"));
})();
