"use strict";
(() => {
  const THEMES = ["dark", "light"];
  const root = document.documentElement;
  const outer = (() => {
    try { return window.parent === window ? null : window.parent.document; } catch { return null; }
  })();
  const system = window.matchMedia("(prefers-color-scheme: dark)");

  /* Airflow names its theme by a class of its root; where there is no Airflow around, by what it keeps. */
  function theme() {
    const above = outer && outer.documentElement;
    const shown = above && THEMES.find((name) => above.classList.contains(name) || above.dataset.theme === name);
    let kept = null;
    try { kept = window.localStorage.getItem("theme"); } catch { /* this browser keeps nothing */ }
    return shown || THEMES.find((name) => name === kept) || (system.matches ? "dark" : "light");
  }

  function follow() {
    const now = theme();
    const frame = document.getElementById("document");
    root.dataset.theme = now;
    if (!frame || frame.dataset.shown === now) return;
    const address = new URL(window.location.href);
    address.searchParams.delete("look");
    address.searchParams.set("theme", now);
    if (frame.dataset.shown) frame.contentWindow.location.replace(address.href); else frame.src = address.href;
    frame.dataset.shown = now;
  }

  /* This frame may not lead the whole window elsewhere, so a link of Airflow's own document does. */
  function leave(event) {
    const link = event.target.closest("a[data-airflow]");
    if (!link || !outer) return;
    event.preventDefault();
    const other = outer.createElement("a");
    other.href = link.href;
    outer.body.append(other);
    other.click();
    other.remove();
  }

  function ready() {
    for (const link of document.querySelectorAll("a[href]:not([data-airflow])")) {
      const address = new URL(link.href);
      if (address.origin !== window.location.origin) continue;
      address.searchParams.set("look", "airflow");
      link.href = address.href;
    }
    follow();
  }

  follow();
  document.addEventListener("DOMContentLoaded", ready);
  document.addEventListener("click", leave);
  window.addEventListener("storage", follow);
  system.addEventListener("change", follow);
  if (outer) {
    const watched = { attributes: true, attributeFilter: ["class", "data-theme"] };
    new MutationObserver(follow).observe(outer.documentElement, watched);
  }
})();
