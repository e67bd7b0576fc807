// Shortcuts: what pages register with reprokit.key, and the list of them, with what the letters of verdicts mean.
"use strict";
(() => {
  const { h, key } = reprokit;
  const dialog = document.getElementById("keys");

  const help = () => {
    if (dialog.open) return dialog.close();
    const names = reprokit.keys().filter((one) => one.words);
    dialog.replaceChildren(
      h("h2", { id: "keys-title" }, "Keys"),
      h("dl", null, names.map((one) => h("div", null, h("dt", null, h("kbd", null, one.name)), h("dd", null, one.words)))),
      h("h2", null, "Verdicts of a cell"),
      h("dl", null, Object.entries(reprokit.VERDICTS).map(([verdict, { words }]) => h("div", null, h("dt", null, reprokit.badge(verdict)), h("dd", null, words)))),
      h("h2", null, "A case departs"),
      h("p", null, "where a verdict is not the one that the case expects. Only the first four verdicts are findings about the bug; a case with any other is inconclusive."),
      h("button", { type: "button", class: "tool", autofocus: true, on: { click: () => dialog.close() } }, "Close"),
    );
    dialog.showModal();
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const typing = event.target.closest("input, select, textarea, [contenteditable]");
    if (typing && event.key !== "Escape") return;
    if (dialog.open && event.key !== "?") return;
    const found = reprokit.keys().findLast((one) => one.name === event.key);
    if (found && found.f(event) !== false) event.preventDefault();
  });

  document.getElementById("help").addEventListener("click", help);
  key("?", "this help", help, { everywhere: true });
  key("g", "all cases", () => reprokit.go("#/"), { everywhere: true });
  document.getElementById("skip").addEventListener("click", (event) => {
    event.preventDefault(); // the hash is the page's address
    document.getElementById("main").focus();
  });
})();
