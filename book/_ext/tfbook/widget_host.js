// Mounts the widgets of a page: loads each one's script when it comes near the window, and gives it the
// model and the element that anywidget would give it in a notebook.
(() => {
  "use strict";

  function makeModel(state) {
    const values = new Map(Object.entries(state));
    const listeners = new Map();
    const call = (event, ...args) => (listeners.get(event) || []).forEach((listener) => listener(...args));
    return {
      get: (key) => values.get(key),
      set(key, value) {
        values.set(key, value);
        call(`change:${key}`, value);
        call("change");
      },
      save_changes() {},
      on(event, listener) {
        listeners.set(event, [...(listeners.get(event) || []), listener]);
      },
      off(event, listener) {
        listeners.set(event, (listeners.get(event) || []).filter((known) => known !== listener));
      },
    };
  }

  function mount(root) {
    const model = makeModel(JSON.parse(root.dataset.initial));
    window.tfWidgets[root.dataset.widget].render({ model, el: root });
    root.closest(".tf-widget").dataset.mounted = "true";
  }

  function load(root) {
    if ((window.tfWidgets || {})[root.dataset.widget]) return mount(root);
    const script = document.createElement("script");
    script.src = root.dataset.script;
    script.onload = () => mount(root);
    document.head.append(script);
  }

  const roots = [...document.querySelectorAll(".tf-widget-root")];
  if (!("IntersectionObserver" in window)) return roots.forEach(load);
  const observer = new IntersectionObserver(
    (entries) => {
      for (const entry of entries.filter((seen) => seen.isIntersecting)) {
        observer.unobserve(entry.target);
        load(entry.target.querySelector(".tf-widget-root"));
      }
    },
    { rootMargin: "600px" },
  );
  // The root is empty until it is mounted; the figure around it has a size.
  roots.forEach((root) => observer.observe(root.closest(".tf-widget")));
})();
