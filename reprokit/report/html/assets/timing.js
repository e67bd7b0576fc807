// Where the time of a run went: a row for each worker, in parts that are as many for ten thousand cells as for ten.
"use strict";
(() => {
  const { h, time } = reprokit;
  const HIGH = 14;

  const row = ([, parts], at) => parts.map(([from, count, kind]) =>
    h("svg:rect", { x: from, y: at * HIGH + 1, width: count, height: HIGH - 2, class: `t-${kind}` }, h("svg:title", null, kind)));

  reprokit.parts.timing = (data) => {
    const one = data.timing;
    if (!one) return null;
    const { section, seconds, fold } = reprokit.parts;
    const kinds = Object.entries(one.sum);
    const words = `${one.rows.length} workers in ${seconds(one.seconds)}: ${kinds.map(([kind, sum]) => `${kind} ${seconds(sum)}`).join(", ")}`;
    const shown = new Set(one.rows.flatMap(([, parts]) => parts.map(([, , kind]) => kind)));
    return section("Where the time went",
      h("p", { class: "dim" }, "Run ", h("span", { class: "mono" }, one.run), ", ", time(one.began), ` UTC, ${seconds(one.seconds)}`),
      h("div", { class: "timing" },
        h("ol", { class: "timing-names mono" }, one.rows.map(([name]) => h("li", null, name))),
        h("svg", { class: "timing-rows", viewBox: `0 0 ${one.bins} ${one.rows.length * HIGH}`, height: one.rows.length * HIGH, preserveAspectRatio: "none", role: "img", "aria-label": words }, one.rows.map(row))),
      one.more ? h("p", { class: "dim" }, `and ${one.more} more workers, which did less`) : null,
      h("ul", { class: "timing-legend" }, kinds.map(([kind, sum]) => h("li", null,
        shown.has(kind) ? h("svg", { width: 12, height: 12, "aria-hidden": "true" }, h("svg:rect", { width: 12, height: 12, class: `t-${kind}` })) : null,
        `${kind} ${seconds(sum)}`))),
      fold("What the end of the run waited for", () => h("ol", { class: "timing-path" }, one.path.map(([kind, name, start, took, cell]) =>
        h("li", null, `${seconds(took)} ${kind}${name ? `, ${name}` : ""}${cell ? `, cell ${cell}` : ""}`, h("span", { class: "dim" }, ` from ${seconds(start)} on`))))));
  };
})();
