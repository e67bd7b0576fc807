// A case over time: verdicts of every night together, strips of single cells, and what changed in words.
"use strict";
(() => {
  const { h, KINDS, VERDICTS, time, kindOf, departs } = reprokit;
  const { many, section, fold, growing, scrolled, cellHref, verdictWords: words } = reprokit.parts;
  const FIRST = 20, MORE = 100; // strips shown at first, and at each further click
  const ENOUGH = 4; // nights from which on a column for each says more than the strips
  const STRIP = 14; // nights that a strip of the case has
  const LINES = 6; // facts of a change that are shown unfolded

  // The newest last. One element a night; what it says stands in its title, and it leads to the cell in that run.
  const strip = (model, at, most = Infinity) => {
    const { data } = model;
    const letters = data.cells.strip[at];
    const from = Math.max(0, data.nights.length - most);
    const cell = Object.fromEntries(model.axes.filter((axis) => axis.at[at] >= 0).map((axis) => [axis.name, axis.values[axis.at[at]]]));
    const squares = data.nights.slice(from).map((run, place) => {
      const letter = letters[from + place] || " ";
      const kind = kindOf(letter);
      const off = kind && departs(letter);
      const said = `${dayOf(data, run)}: ${kind ? words(kind) : "not run"}${off ? ", not as expected" : ""}`;
      if (!kind) return h("span", { class: "night blank", title: said });
      const to = reprokit.href(`/case/${data.id}/in/${run}/${data.cells.variant[at]}`, cell);
      return h("a", { class: `night v-${kind}${off ? " off" : ""}`, title: said, href: to, "aria-label": said, tabindex: "-1" }, VERDICTS[kind].glyph);
    });
    return h("span", { class: "nights" }, squares);
  };

  const dayOf = (data, id) => {
    const run = data.runs.find((one) => one.id === id);
    return run ? run.at.slice(0, 16).replace("T", " ") : id;
  };

  // Of each night how many cells came to what, as a column. `cells`: positions.
  const together = (data, cells) => {
    const columns = data.nights.map((run, night) => {
      const found = {};
      let off = 0, all = 0;
      for (const at of cells) {
        const letter = data.cells.strip[at][night] || " ";
        const kind = kindOf(letter);
        if (!kind) continue;
        all += 1;
        found[kind] = (found[kind] || 0) + 1;
        if (departs(letter)) off += 1;
      }
      const kinds = KINDS.filter((kind) => found[kind]);
      const some = all < cells.length ? `${all.toLocaleString("en")} of ${many(cells.length, "cell")}: ` : "";
      const text = all ? some + kinds.map((kind) => `${found[kind]} ${words(kind)}`).join(", ") : "not run";
      const bars = kinds.map((kind) => {
        const bar = h("span", { class: `part-of v-${kind}` });
        bar.style.flexGrow = found[kind];
        return bar;
      });
      if (all < cells.length) { // a night of which a part ran has a lower column
        const rest = h("span", { class: "part-of" });
        rest.style.flexGrow = cells.length - all;
        bars.push(rest);
      }
      const said = `${dayOf(data, run)}: ${text}${off ? `; ${off} not as expected` : ""}`;
      return h("li", { class: `night-of${off ? " off" : ""}`, title: said }, h("span", { class: "hidden" }, said), h("span", { class: "stack", "aria-hidden": "true" }, bars));
    });
    const ends = [data.nights[0], data.nights.at(-1)].map((run) => dayOf(data, run).slice(0, 10));
    return h("figure", { class: "together" },
      h("ol", { class: "columns" }, columns),
      h("figcaption", null, h("span", null, ends[0]), h("span", null, many(data.nights.length, "run"), ", all cells that pass the filters"), h("span", null, ends[1])));
  };

  const strips = (model, cells, order) => {
    const { data } = model;
    const box = h("div", { class: "courses", role: "list" });
    const row = (at) => {
      const to = model.href(at), name = model.name(at, order);
      return h("div", { class: "course", role: "listitem" },
        h("span", { class: "cell-name" }, to ? h("a", { href: to, title: model.name(at) }, name) : name),
        strip(model, at, STRIP), h("span", { class: "state" }, data.states[data.cells.state[at]] || "not run"));
    };
    const button = growing(box, model.pressing(cells, order), row, { first: FIRST, more: MORE, word: "cell" });
    return h("div", null, box, button);
  };

  const cellLink = (data, record) => h("a", { class: "mono", href: cellHref(data.id, record.run, record.number) }, `${record.run}:${record.number}`);

  const change = (data, one) => {
    const rows = one.changed.map((fact) => h("tr", null, h("td", null, fact.concern), h("th", { scope: "row" }, fact.name),
      h("td", null, side(fact.before, "del")), h("td", null, side(fact.after, "ins"))));
    const table = (some) => h("table", { class: "differences" },
      h("thead", null, h("tr", null, ["what", "name", "before", "after"].map((text) => h("th", { scope: "col" }, text)))), h("tbody", null, some));
    const count = one.confirmed ? "" : h("p", { class: "dim" }, `Seen ${one.seen === 1 ? "once" : `${one.seen} times`}: it does not count yet.`);
    return h("li", { class: `change${one.confirmed ? "" : " open"}` },
      h("h3", null, time(one.after.at), " ", one.words.replace("->", "→")),
      h("p", null, one.cells.length === 1 ? one.cells[0] : `${many(one.count, "cell")}: ${one.cells.join(", ")}${one.count > one.cells.length ? " …" : ""}`),
      count,
      h("p", { class: "dim" }, `${one.trials}.`),
      h("p", { class: "dim" }, "run ", cellLink(data, one.before), " → ", cellLink(data, one.after)),
      rows.length ? scrolled("What changed around it", table(rows.slice(0, LINES))) : h("p", { class: "dim" }, "Nothing that is recorded changed around it."),
      rows.length > LINES ? fold(`${rows.length - LINES} more that changed`, () => scrolled("More that changed", table(rows.slice(LINES)))) : null);
  };

  const side = (value, tag) => (value === null ? h("span", { class: "dim" }, "(none)") : h(tag, null, value));

  // `order`: the axes, as they are named of a cell.
  const history = (model, cells, order) => {
    const { data } = model;
    if (!data.nights.length) return null;
    const changes = data.changes.length
      ? h("ol", { class: "changes" }, data.changes.map((one) => change(data, one)))
      : h("p", { class: "dim" }, data.nights.length > 1 ? "No cell has changed." : "One run so far: nothing to compare.");
    return section("History", data.nights.length >= ENOUGH ? together(data, cells) : null,
      data.nights.length > STRIP ? h("p", { class: "dim" }, `Of each cell the last ${STRIP} runs; its page has all.`) : null, strips(model, cells, order),
      data.former ? h("p", { class: "dim" }, `${many(data.former, "more cell")} ${data.former === 1 ? "was" : "were"} run when the case was another: reprokit history ${data.id}`) : null,
      h("h3", { class: "sub" }, "Changes"), changes);
  };

  Object.assign(reprokit.parts, { history, strip, side });
})();
