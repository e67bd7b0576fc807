// The page of a run, and the list of all: of every run the report keeps what each cell came to, and why.
"use strict";
(() => {
  const { h, href, time, KINDS, SHOWS, SURE } = reprokit;
  const { section, fold, copyable, many, seconds, tally, growing, scrolled, table, runLink, cellHref, verdictWords: words } = reprokit.parts;
  const FEW = 20, ROWS = 100;

  // A run, with its place among all. Throws where the report has none of that id.
  const runOf = async (id) => {
    const ids = await reprokit.runIds();
    const at = ids.indexOf(id);
    if (at < 0) throw new Error(`run ${id} is not in this report`);
    const block = await reprokit.runBlock(Math.floor(at / reprokit.RUNS));
    return { run: block[at % reprokit.RUNS], before: ids[at - 1], after: ids[at + 1] };
  };
  reprokit.runOf = runOf;

  const counts = (cells) => {
    const found = new Map();
    for (const one of cells) found.set(one.verdict, (found.get(one.verdict) || 0) + 1);
    return KINDS.filter((kind) => found.has(kind)).map((kind) => [kind, found.get(kind)]);
  };
  const said = (cells) => counts(cells).map(([kind, count]) => `${count.toLocaleString("en")} ${words(kind)}`).join(", ");
  const departing = (cells) => cells.filter((one) => one.departs).length;
  const titleOf = (id) => (reprokit.overview.cases.find((one) => one.id === id) || { title: "" }).title || id;

  reprokit.view("/run/:run", async ({ params }) => {
    const { run, before, after } = await runOf(params.run);
    const cells = run.cases.flatMap((one) => one.cells);
    const departs = departing(cells);
    const took = (Date.parse(run.ended) - Date.parse(run.at)) / 1000; // not of a clock that was set back
    const step = (id, key, text, label) => {
      if (!id) return null;
      reprokit.key(key, label, () => reprokit.go(href(`/run/${id}`)));
      return h("a", { class: "tool", href: href(`/run/${id}`), "aria-label": `${label}: ${id}` }, text);
    };
    const node = h("div", { class: "run" },
      h("header", { class: "cell-head" },
        h("div", { class: "row-of" }, h("h1", null, `Run ${run.id}`),
          h("nav", { class: "steps", "aria-label": "Other runs" }, step(before, "p", "← before", "the run before"), step(after, "n", "after →", "the run after"), h("a", { class: "tool", href: "#/runs" }, "all runs"))),
        h("ul", { class: "line" },
          h("li", null, many(cells.length, "cell")),
          departs ? h("li", { class: "alarm" }, `${departs.toLocaleString("en")} not as expected`) : null,
          h("li", { class: "dim" }, "began ", time(run.at), " UTC"),
          h("li", { class: "dim" }, run.ended ? (took >= 0 ? `took ${seconds(took)}` : "finished") : "not finished"),
          run.engine ? h("li", { class: "dim" }, run.engine) : null,
          h("li", { class: "dim" }, `reprokit ${run.version}`),
          run.search ? h("li", null, `searched: ${run.search}`) : null),
        h("ul", { class: "line" }, counts(cells).map(([kind, count]) => h("li", null, reprokit.badge(kind, null), ` ${count.toLocaleString("en")}`))),
        copyable(`reprokit show ${run.id}`, "The line that shows the run in a terminal", true)),
      run.cases.map((one) => caseOf(run, one)));
    return { title: `Run ${run.id}`, crumbs: [["runs", "#/runs"], [run.id, ""]], node };
  });

  // What departs comes first, then what failed, then what could not be decided; what passed as expected is folded.
  const caseOf = (run, { id, cells }) => {
    const rank = (one) => (one.departs ? 0 : SHOWS.includes(one.verdict) ? 1 : SURE.includes(one.verdict) ? 2 : 3);
    const passed = cells.filter((one) => one.verdict === "not-reproduced" && !one.departs);
    const rest = cells.filter((one) => !passed.includes(one)).sort((one, other) => rank(one) - rank(other) || one.number - other.number);
    const telling = [...new Set(cells.flatMap((one) => Object.keys(one.cell)))].filter((axis) => new Set(cells.map((one) => one.cell[axis])).size > 1);
    const name = (one) => (telling.filter((axis) => Object.hasOwn(one.cell, axis)).map((axis) => `${axis}=${one.cell[axis]}`).join(" ") || `cell ${one.number}`) + (one.variant ? " [fix]" : "");
    const link = (one) => h("li", null, h("a", { href: cellHref(id, run.id, one.number) }, name(one)));
    const names = (some) => {
      const box = h("ul", { class: "names" });
      const button = growing(box, some, link, { first: FEW, more: ROWS, word: "cell" });
      return [box, button];
    };
    const alike = new Map();
    for (const one of rest) {
      const key = [one.verdict, one.departs, one.reason].join("\n");
      alike.set(key, [...(alike.get(key) || []), one]);
    }
    const list = h("ul", { class: "named" });
    const button = growing(list, [...alike.values()], (some) => h("li", null,
      h("p", null, reprokit.badge(some[0].verdict, some[0].departs ? false : null), " ", h("span", { class: "message" }, some[0].reason), some.length > 1 ? h("span", { class: "dim" }, ` · ${many(some.length, "cell")}`) : null),
      names(some)), { first: ROWS, more: ROWS, word: "reason" });
    const title = titleOf(id);
    return section(h("a", { href: href(`/case/${id}`), lang: reprokit.lang(title) }, title),
      h("p", { class: "dim" }, title === id ? null : [h("span", { class: "mono" }, id), ": "], said(cells)),
      list, button,
      passed.length ? fold(`${many(passed.length, "cell")} passed, as expected or with nothing expected`, () => h("div", null, names(passed))) : null);
  };

  // A cell of a run by its values, in which runs that numbered their cells otherwise agree.
  reprokit.view("/case/:id/in/:run/:variant", async ({ params, query }) => {
    const { run } = await runOf(params.run);
    const same = ({ cell, variant }) => String(variant) === params.variant && Object.keys(query).every((axis) => Object.hasOwn(cell, axis))
      && Object.entries(cell).every(([axis, value]) => (Object.hasOwn(query, axis) ? query[axis] : "") === value);
    const found = run.cases.filter((one) => one.id === params.id).flatMap((one) => one.cells).find(same);
    if (!found) throw new Error(`run ${run.id} has no such cell of ${params.id}`);
    history.replaceState(null, "", cellHref(params.id, run.id, found.number));
    return reprokit.pageHere();
  });

  reprokit.view("/runs", async () => {
    const ids = await reprokit.runIds();
    let block = Math.ceil(ids.length / reprokit.RUNS);
    const body = h("tbody");
    const button = h("button", { type: "button", class: "tool" }, "earlier runs");
    const row = (run) => {
      const cells = run.cases.flatMap((one) => one.cells);
      const departs = departing(cells);
      return h("tr", null, h("td", null, runLink(run.id), h("div", { class: "dim" }, time(run.at))),
        h("td", null, departs ? h("div", { class: "alarm" }, `${departs.toLocaleString("en")} not as expected`) : null, h("ul", { class: "tally" }, tally(counts(cells)))),
        h("td", null, run.cases.length > 3 ? many(run.cases.length, "case") : [...new Set(run.cases.map((one) => one.id))].map((id, at) => [at ? ", " : "", h("a", { href: href(`/case/${id}`) }, id)])),
        h("td", null, run.search || run.engine));
    };
    const add = async () => {
      if (block) body.append(...(await reprokit.runBlock(--block)).reverse().map(row));
      button.hidden = !block;
    };
    button.addEventListener("click", add);
    await add();
    const list = table(["run, began (UTC)", "found", "cases", "by"], []);
    list.lastChild.replaceWith(body);
    return { title: "Runs", crumbs: [["runs", ""]], node: h("div", { class: "run" }, h("h1", null, many(ids.length, "run")), scrolled("Runs", list), button) };
  });
})();
