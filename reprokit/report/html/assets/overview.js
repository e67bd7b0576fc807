"use strict";
reprokit.view("/", async () => {
  const { h, href } = reprokit;
  const rows = reprokit.overview.cases.map((one) => h("li", null, h("a", { href: href(`/case/${one.id}`) }, one.title || one.id), ` ${one.status} ${one.flip.words}`));
  return { title: "", node: h("div", null, h("h1", null, "Cases"), h("ul", null, rows)) };
});
