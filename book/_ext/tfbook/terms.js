// Shows the definition of a term, or the reference of a citation, beside its link: while the pointer is on the link
// or on the box, while the keyboard is on the link, or after a first tap; a second tap follows the link. Escape
// closes the box.
(() => {
  "use strict";

  if (!HTMLElement.prototype.showPopover) return;
  const PAUSE = 150; // in which the pointer can travel from the link to the box
  const EDGE = 8; // pixels between the box and the edge of the window
  let shown = null; // the link whose definition is open
  let shownAt; // where the pointer was, in pixels from the left
  let timer = 0;
  let touched = false;

  const TERM = '.tf-term, .bd-article a[href*="bibliography.html#"]:is([title], [aria-describedby])';
  let references = 0;

  const termAt = (node) => (node instanceof Element ? node.closest(TERM) : null);
  const box = (link) => document.getElementById(link.getAttribute("aria-describedby")) ?? makeReference(link);

  // Sphinx writes the reference of a citation into the title of its link, which only a mouse can show.
  function makeReference(link) {
    const reference = document.createElement("div");
    reference.className = "tf-definition";
    reference.id = `reference-${++references}`;
    reference.role = "tooltip";
    reference.popover = "manual";
    reference.textContent = link.title;
    link.closest(".bd-article").append(reference);
    link.removeAttribute("title");
    link.setAttribute("aria-describedby", reference.id);
    return reference;
  }

  function place() {
    if (!shown) return;
    // A link that is broken across two lines has a rectangle on each.
    const lines = [...shown.getClientRects()];
    const line = lines.find((each) => each.left <= shownAt && shownAt <= each.right) ?? lines[0];
    const definition = box(shown);
    const { width, height } = definition.getBoundingClientRect();
    const page = document.documentElement;
    const left = Math.max(EDGE, Math.min(line.left, page.clientWidth - width - EDGE));
    const fits = line.bottom + height + EDGE <= page.clientHeight;
    const top = fits || line.top < height + EDGE ? line.bottom : line.top - height;
    definition.style.left = `${left + scrollX}px`;
    definition.style.top = `${top + scrollY}px`;
  }

  function show(link, x) {
    clearTimeout(timer);
    if (shown === link) return;
    hide();
    shown = link;
    shownAt = x;
    box(link).showPopover();
    place();
  }

  function hide() {
    clearTimeout(timer);
    if (shown) box(shown).hidePopover();
    shown = null;
  }

  // The keyboard scrolls to a link after it has the focus, and what comes into sight above may push the text.
  addEventListener("scroll", place, { passive: true });
  addEventListener("resize", place);

  document.addEventListener("pointerover", (event) => {
    if (event.pointerType === "touch") return;
    const link = termAt(event.target);
    clearTimeout(timer);
    if (link) timer = setTimeout(() => show(link, event.clientX), PAUSE);
    else if (shown && !shown.matches(":focus-visible") && !event.target.closest(".tf-definition"))
      timer = setTimeout(hide, PAUSE);
  });

  document.addEventListener("pointerdown", (event) => {
    touched = event.pointerType === "touch";
    if (shown && termAt(event.target) !== shown && !event.target.closest(".tf-definition")) hide();
  });

  document.addEventListener("click", (event) => {
    const link = termAt(event.target);
    if (!link || !touched || link === shown) return;
    event.preventDefault();
    show(link, event.clientX);
  });

  document.addEventListener("focusin", (event) => {
    const link = termAt(event.target);
    if (link && link.matches(":focus-visible")) show(link);
  });

  document.addEventListener("focusout", (event) => {
    if (termAt(event.target) === shown) hide();
  });

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
  });
})();
