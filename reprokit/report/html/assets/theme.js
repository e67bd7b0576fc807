// In the head, before anything is painted: the theme that was chosen here before, where storage allows to remember it.
"use strict";
(() => {
  const CHOICES = { auto: "auto", light: "light", dark: "dark" };
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let chosen = "auto";
  try {
    chosen = localStorage.getItem("reprokit-theme") || "auto";
  } catch {
    // Storage is off, or this page was opened from a disk where it is.
  }
  const apply = () => {
    if (!(chosen in CHOICES)) chosen = "auto";
    root.dataset.theme = chosen === "auto" && dark.matches ? "dark" : chosen; // the stylesheets know this one alone
    const button = document.getElementById("theme");
    if (!button) return;
    const word = document.createElement("span");
    word.textContent = "Theme: ";
    button.replaceChildren(word, CHOICES[chosen]);
    button.title = "Theme: as the system, light, or dark";
  };
  apply();
  dark.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", () => {
    apply();
    document.getElementById("theme").addEventListener("click", () => {
      const names = Object.keys(CHOICES);
      chosen = names[(names.indexOf(chosen) + 1) % names.length];
      apply();
      try {
        localStorage.setItem("reprokit-theme", chosen);
      } catch {
        // It then holds until the page is closed.
      }
    });
  });
})();
