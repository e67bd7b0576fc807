"use strict";
reprokit.view("/case/:id", async ({ params }) => {
  const { h, href, badge } = reprokit;
  const row = reprokit.overview.cases.find((one) => one.id === params.id);
  if (!row) throw new Error(`there is no case ${params.id} in this report`);
  const data = await reprokit.load(`case/${row.name}`);
  const { cells } = data;
  const rows = cells.verdict.map((verdict, at) =>
    h("tr", null,
      h("td", null, h("a", { href: href(`/case/${data.id}/cell/${data.runs[cells.run[at]].id}-${cells.number[at]}`) }, `${cells.number[at]}`)),
      data.axes.map((axis, index) => h("td", null, data.values[index][cells.at[index][at]] ?? "")),
      h("td", null, badge(reprokit.overview.verdicts[verdict], cells.asExpected[at])),
    ));
  return {
    title: data.id,
    crumbs: [[data.id, ""]],
    node: h("div", null, h("h1", { lang: reprokit.lang(data.title) }, data.title || data.id), h("pre", null, data.explanation.join("\n")),
      h("table", null, h("thead", null, h("tr", null, h("th", null, "#"), data.axes.map((axis) => h("th", null, axis)), h("th", null, "verdict"))), h("tbody", null, rows))),
  };
});
