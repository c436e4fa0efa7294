// Marks in the contents of the page the section that is being read: the last that begins in the upper third of the
// window or above it. The theme marks a section only while its heading passes through that third.
(() => {
  "use strict";

  const PAUSE = 100; // milliseconds; by then the theme has marked what it wants
  const contents = document.getElementById("pst-page-toc-nav");
  if (!contents) return;
  const links = [...contents.querySelectorAll('a[href^="#"]')].filter((link) => link.hash);
  const top = (link) => document.getElementById(decodeURIComponent(link.hash.slice(1))).getBoundingClientRect().top;

  function read() {
    const atTheEnd = scrollY + innerHeight >= document.documentElement.scrollHeight - 2;
    const asked = atTheEnd && links.find((link) => link.hash === location.hash && top(link) >= 0);
    return asked || links.findLast((link) => top(link) < innerHeight / 3);
  }

  let waiting = false;
  function mark() {
    waiting = false;
    const here = read();
    for (const link of links) {
      link.classList.toggle("active", link === here);
      if (link === here) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    for (const entry of contents.querySelectorAll(".toc-entry")) entry.classList.toggle("active", entry.contains(here ?? null));
  }

  function soon() {
    if (!waiting) setTimeout(mark, PAUSE);
    waiting = true;
  }
  for (const event of ["scroll", "hashchange", "resize", "load"]) addEventListener(event, soon, { passive: true });
})();
