"use strict";
reprokit.view("/case/:id/cell/:cell", async ({ params }) => {
  const { h, href, badge } = reprokit;
  const [, run, number] = params.cell.match(/^(.*)-(\d+)$/) || [];
  const data = await reprokit.load(`cell/${run}/${number}`);
  return {
    title: `${data.case} ${run}-${number}`,
    crumbs: [[data.case, href(`/case/${data.case}`)], [`${run}-${number}`, ""]],
    node: h("div", null,
      h("h1", null, Object.entries(data.cell).map(([name, value]) => `${name}=${value}`).join(" ")),
      h("p", null, badge(data.verdict, data.asExpected), " ", data.reason),
      data.trials.map((trial) => h("pre", null, trial.log.join("\n"))),
      h("pre", null, data.dockerfile)),
  };
});
