// Where the time of a case went in its last run.
"use strict";
(() => {
  const { h, time } = reprokit;

  reprokit.parts.timing = (data) => {
    const one = data.timing;
    if (!one || !one.path.length) return null;
    const { section, seconds, fold, runLink } = reprokit.parts;
    const kinds = Object.entries(one.sum);
    const most = Math.max(...kinds.map(([, sum]) => sum), 0.001);
    return section("Where the time went",
      h("p", { class: "dim" }, `This case took ${seconds(one.seconds)} of run `, runLink(one.run), ", ", time(one.began), " UTC. In sum over all that ran side by side:"),
      h("table", { class: "timing" }, h("tbody", null, kinds.map(([kind, sum]) => h("tr", null,
        h("th", { scope: "row" }, kind), h("td", null, h("progress", { max: most, value: sum, "aria-label": kind })), h("td", { class: "mono" }, seconds(sum)))))),
      fold("What its end waited for", () => h("ol", { class: "timing-path" }, one.path.map(([kind, name, start, took, cell]) =>
        h("li", null, `${seconds(took)} ${kind}${name ? `, ${name}` : ""}${cell ? `, cell ${cell}` : ""}`, h("span", { class: "dim" }, ` from ${seconds(start)} on`))))));
  };
})();
