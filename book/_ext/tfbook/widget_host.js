// Mounts the widgets of a page: loads each one's script, and the data of its state where they are kept in
// another, when it comes near the window, and gives it the model and the element that anywidget would give it.
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
    const data = root.dataset.key ? window.tfWidgetData[root.dataset.key] : {};
    const model = makeModel({ ...data, ...JSON.parse(root.dataset.initial) });
    window.tfWidgets[root.dataset.widget].render({ model, el: root });
    root.closest(".tf-widget").dataset.mounted = "true";
  }

  function fetchScript(address, next) {
    const script = document.createElement("script");
    script.src = address;
    script.onload = next;
    document.head.append(script);
  }

  function load(root) {
    const { widget, script, key, data } = root.dataset;
    if (key && !(window.tfWidgetData || {})[key]) return fetchScript(data, () => load(root));
    if (!(window.tfWidgets || {})[widget]) return fetchScript(script, () => load(root));
    mount(root);
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
