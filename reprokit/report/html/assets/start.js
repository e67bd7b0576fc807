// The last script: everything is there, the first page can be shown.
"use strict";
(() => {
  const { h, time } = reprokit;
  const { version, newest } = reprokit.overview;
  document.getElementById("bottom").append(
    h("span", null, `reprokit ${version}`),
    newest ? h("span", null, "newest run ", time(newest), " UTC") : "nothing was run yet",
  );
  window.addEventListener("hashchange", reprokit.show);
  reprokit.show();
})();
