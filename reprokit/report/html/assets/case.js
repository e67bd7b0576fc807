// The page of a case.
"use strict";
(() => {
  const { h, KINDS, href, time } = reprokit;
  const { section, fold, copyable, prose, address, many, verdictWords: words } = reprokit.parts;
  const ROWS = 200;
  const WIDE = 20; // values across from which on the matrix has the page's width to itself

  const models = new Map();
  const modelOf = async (id) => {
    if (!models.has(id)) {
      const row = reprokit.overview.cases.find((one) => one.id === id);
      if (!row) throw new Error(`there is no case ${id} in this report`);
      models.set(id, new reprokit.Model(await reprokit.load(`case/${row.name}`)));
    }
    return models.get(id);
  };
  reprokit.modelOf = modelOf;

  reprokit.view("/case/:id", async ({ params, query }) => {
    const row = reprokit.overview.cases.find((one) => one.id === params.id);
    if (row && row.status === "never-run") return neverRun(row);
    const model = await modelOf(params.id);
    const { data } = model;
    const picture = pictureOf(model, query);
    const past = h("div");
    const renewHistory = () => past.replaceChildren(reprokit.parts.history(model, picture.cells(), picture.order()) || "");
    picture.onChange(renewHistory);
    const node = h("div", { class: "case" },
      head(model),
      h("div", { class: picture.wide ? "columns-of wide" : "columns-of" },
        h("div", { class: "main-column" }, explanation(data), section("Matrix", picture.node), past, failures(model), reprokit.parts.timing(data), runs(data)),
        h("div", { class: "side-column" }, description(data), howTo(data),
          data.text ? section("The case file", fold(`${data.path}, ${many(data.text.trimEnd().split("\n").length, "line")}`, () => copyable(data.text, "The case file"))) : null)));
    // What is below the fold can wait until the matrix is painted.
    return { title: data.title || data.id, crumbs: [[data.id, ""]], node, shown: () => requestAnimationFrame(() => setTimeout(renewHistory)) };
  });

  const neverRun = (row) => ({
    title: row.title || row.id,
    crumbs: [[row.id, ""]],
    node: h("div", { class: "case" },
      h("h1", { lang: reprokit.lang(row.title) }, row.title || row.id),
      h("p", null, `No run of this case is recorded. It has ${many(row.cells, "cell")}`, row.flip.words ? `, and should fail with: ${row.flip.words}.` : ".")),
  });

  const head = (model) => {
    const { data } = model;
    const current = [...data.cells.verdict.keys()].filter((at) => data.cells.variant[at] === 0);
    const mix = model.mix(current);
    const last = data.runs.find((one) => one.id === data.nights.at(-1)) || data.runs[0];
    return h("header", { class: "case-head" },
      h("h1", { lang: reprokit.lang(data.title) }, data.title || data.id),
      h("ul", { class: "line" },
        h("li", { class: "mono" }, data.id),
        h("li", null, many(current.length, "cell")),
        mix.departs ? h("li", { class: "alarm" }, `${mix.departs.toLocaleString("en")} not as expected`) : null,
        data.blind ? h("li", null, `${many(data.blind, "cell")} inconclusive since`) : null,
        h("li", { class: "dim" }, "last run ", time(last.at), " UTC", last.engine ? `, ${last.engine.split(" ")[0]}` : ""),
        data.report ? h("li", null, "reported at ", address(data.report)) : null));
  };

  const explanation = (data) => {
    const { lead, words: said, lines, decided, open, fix, commands } = data.explanation;
    return h("div", { class: "statement" },
      h("p", { class: "lead" }, h("span", { class: "dim" }, `${lead[0].toUpperCase()}${lead.slice(1)} `), h("strong", null, said)),
      h("p", { class: "dim" }, decided ? `From ${many(decided, "decided cell")}` : "Nothing is decided", open.length ? `; not decided: ${open.join("; ")}.` : "."),
      fix ? h("p", null, h("span", { class: "dim" }, "With the fix: "), fix.words) : null,
      commands.length ? h("div", null, h("p", null, "What would tell them apart:"), commands.map((one) => copyable(one.line, `Run ${one.cell}`, true))) : null,
      lines.length ? fold("The cells behind it", () => h("pre", { tabindex: "0" }, lines.join("\n"))) : null);
  };

  // Controls, and the picture or the table below them. `onChange(f)`: f is called when other cells pass the filters.
  const pictureOf = (model, query) => {
    const state = model.state(query);
    const area = h("div", { class: "area" });
    const controls = h("div", { class: "controls" });
    const tip = reprokit.parts.tooltip();
    const more = h("div");
    const watchers = [];
    const cells = () => model.passing(state).filter((at) => model.shown(state, at));

    const draw = () => {
      tip.box.hidden = true;
      more.replaceChildren();
      if (state.view === "table") { area.replaceChildren(tableOf(model, cells())); return; }
      const grid = reprokit.parts.grid(model, state, {
        tell: (some, x, y, element) => tip.show(model, state, some, x, y, element),
        open: (some, element, event) => {
          const to = some.length === 1 ? model.href(some[0]) : null;
          if (to && (event.ctrlKey || event.metaKey || event.button === 1)) window.open(to);
          else if (to) reprokit.go(to);
          else if (some.length) {
            tip.box.hidden = true;
            more.replaceChildren(reprokit.parts.list(model, state, some, () => { more.replaceChildren(); element.focus(); }));
            (more.querySelector("a") || more.querySelector("button")).focus();
          }
        },
      });
      area.replaceChildren(h("div", { class: "scroll" }, grid));
    };
    const changed = (change) => {
      change();
      for (const axis of state.is.keys()) if (axis === state.x || axis === state.y) state.is.delete(axis);
      reprokit.setQuery(model.query(state));
      const focused = document.activeElement && document.activeElement.dataset.control;
      fill();
      draw();
      const again = focused && [...controls.querySelectorAll("[data-control]")].find((one) => one.dataset.control === focused);
      if (again) again.focus();
      reprokit.announce(`${many(cells().length, "cell")} shown`);
      requestAnimationFrame(() => setTimeout(() => watchers.forEach((f) => f())));
    };

    const choose = (label, control, options, value, f) => {
      const select = h("select", { data: { control }, "aria-label": label }, options.map(([key, text]) => h("option", { value: key, selected: key === value }, text)));
      select.addEventListener("change", () => changed(() => f(select.value)));
      return h("label", { class: "choice" }, h("span", null, label), select);
    };
    const toggle = (text, control, on, f, extra) => h("button", { type: "button", class: `chip-button${extra || ""}`, "aria-pressed": String(on), data: { control }, on: { click: () => changed(f) } }, text);

    const axisChoice = (label, which, other) => choose(label, which, model.telling.map((axis) => [axis.name, axis.label]), state[which].name, (name) => {
      const axis = model.byName.get(name);
      if (axis === state[other]) state[other] = state[which];
      state[which] = axis;
    });
    const filterOf = (axis) => {
      const counts = new Map();
      for (const at of model.passing(state, axis)) counts.set(axis.at[at], (counts.get(axis.at[at]) || 0) + 1);
      const values = [...axis.values.keys(), ...(axis.absent ? [-1] : [])].map((value) => [String(value), `${model.word(axis, value)} (${counts.get(value) || 0})`]);
      return choose(axis.label, `is ${axis.name}`, [["", `all ${axis.values.length + axis.absent}`], ...values], state.is.has(axis) ? String(state.is.get(axis)) : "", (value) => {
        if (value === "") state.is.delete(axis);
        else state.is.set(axis, Number(value));
      });
    };
    const legend = () => {
      const mix = model.mix(model.passing(state));
      const kinds = KINDS.filter((kind) => mix[kind]);
      const one = (key, text, count, look) => toggle([look, `${text} `, h("span", { class: "count" }, count.toLocaleString("en"))], `show ${key}`, state.show === key, () => { state.show = state.show === key ? "" : key; });
      return h("div", { class: "legend", role: "group", "aria-label": "Verdicts: choose one to see its cells alone" },
        kinds.map((kind) => one(kind, words(kind), mix[kind], h("span", { class: `sq key v-${kind}`, "aria-hidden": "true" }, reprokit.parts.verdictGlyph(kind)))),
        mix.departs ? one("departs", "not as expected", mix.departs, h("span", { class: "sq key off", "aria-hidden": "true" })) : null);
    };
    const fill = () => {
      const others = model.telling.filter((axis) => axis !== state.x && axis !== state.y);
      const axes = model.telling.length > 1 ? [axisChoice("across", "x", "y"), axisChoice("down", "y", "x"),
        h("button", { type: "button", class: "tool", data: { control: "swap" }, "aria-label": "Swap the axes", title: "Swap the axes", on: { click: () => changed(() => { [state.x, state.y] = [state.y, state.x]; }) } }, "⇄")] : [];
      controls.replaceChildren(
        h("div", { class: "row-of" }, axes, others.map(filterOf),
          model.hasFix ? h("div", { class: "segments", role: "group", "aria-label": "Variant" },
            toggle("case", "case", state.variant === 0, () => { state.variant = 0; }), toggle("with the fix", "fix", state.variant === 1, () => { state.variant = 1; })) : null,
          h("div", { class: "segments", role: "group", "aria-label": "View" },
            toggle("picture", "picture", state.view === "picture", () => { state.view = "picture"; }), toggle("table", "table", state.view === "table", () => { state.view = "table"; }))),
        legend(),
        model.common.length ? h("p", { class: "dim" }, `In all: ${model.common.map((axis) => `${axis.label}=${axis.words[0]}`).join(" ")}`) : "");
    };
    fill();
    draw();
    return { node: h("div", { class: "picture" }, controls, area, more, tip.box), cells, wide: Boolean(state.x) && state.x.values.length > WIDE, order: () => [...new Set([state.x, state.y, ...model.telling])].filter(Boolean), onChange: (f) => watchers.push(f) };
  };

  // The same as text, for reading and for screen readers; the first rows, more at a click.
  const tableOf = (model, cells) => {
    const body = h("tbody");
    const button = h("button", { class: "tool", type: "button" });
    let shown = 0;
    const add = () => {
      for (const at of cells.slice(shown, shown + ROWS)) {
        const to = model.href(at), kind = model.kinds[at];
        const reason = model.data.reasons[model.cells.reason[at]] || "";
        body.append(h("tr", null,
          model.telling.map((axis) => h("td", null, model.value(axis, at))),
          h("td", null, kind === "not-run" ? "not run" : to ? h("a", { href: to }, reprokit.badge(kind, model.fits(at))) : reprokit.badge(kind, model.fits(at))),
          h("td", { class: "reason" }, reason)));
      }
      shown = Math.min(cells.length, shown + ROWS);
      button.textContent = `${Math.min(ROWS, cells.length - shown)} more of ${(cells.length - shown).toLocaleString("en")}`;
      button.hidden = shown >= cells.length;
    };
    button.addEventListener("click", add);
    add();
    const table = h("table", { class: "cells" },
      h("caption", { class: "hidden" }, `${many(cells.length, "cell")}, each with its verdict`),
      h("thead", null, h("tr", null, model.telling.map((axis) => h("th", { scope: "col" }, axis.label)), h("th", { scope: "col" }, "verdict"), h("th", { scope: "col" }, "reason"))),
      body);
    return h("div", null, reprokit.parts.scrolled("Cells as a table", table), button);
  };

  const failures = (model) => {
    const { data } = model;
    if (!data.failures.length) return null;
    const groups = data.failures.map((failure, at) => ({ ...failure, cells: [...data.cells.failure.keys()].filter((one) => data.cells.failure[one] === at) }));
    groups.sort((one, other) => Number(other.other) - Number(one.other) || other.cells.length - one.cells.length);
    const item = (one) => h("li", null,
      h("p", null, one.other ? reprokit.badge("different-failure", null) : h("span", { class: "badge v-reproduced" }, "the signature"), one.known ? ` known as ${one.known}: ` : " ", h("span", { class: "mono" }, one.title)),
      h("p", { class: "dim" }, `${many(one.cells.length, "cell")}${one.cells.length > 3 ? ", such as" : ":"} `,
        one.cells.slice(0, 3).map((at, place) => [place ? ", " : "", model.href(at) ? h("a", { href: model.href(at) }, cellName(model, at)) : cellName(model, at)]), ` · fingerprint ${one.id}`));
    return section("How it fails", h("ul", { class: "failures" }, groups.map(item)));
  };
  const cellName = (model, at) => model.name(at) + (model.cells.variant[at] ? " [fix]" : "");

  const description = (data) => {
    const tags = data.tags.length ? h("p", { class: "dim" }, `Tags: ${data.tags.join(", ")}`) : null;
    const fix = data.fix !== null ? h("p", null, h("strong", null, "The fix: "), data.fix || "see the case file") : null;
    return data.description || fix ? section("What it is about", data.description ? prose(data.description) : null, fix, tags) : null;
  };

  const howTo = (data) => section("Run it", copyable([
    `reprokit run ${quoted(data.path)}${data.fix !== null ? " --fix" : ""}`,
    `reprokit show --why ${data.id}`,
  ].join("\n"), "Lines to run the case", true));
  const quoted = (text) => (/^[\w./@%+=:,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
  reprokit.parts.quoted = quoted;

  const runs = (data) => {
    const list = data.runs.filter((run) => Object.keys(run.found).length).sort((one, other) => (one.at < other.at ? 1 : -1));
    const row = (run) => h("tr", null, h("td", null, time(run.at)), h("td", { class: "mono" }, run.id),
      h("td", null, KINDS.filter((kind) => run.found[kind]).map((kind, at) => `${at ? ", " : ""}${run.found[kind]} ${words(kind)}`).join("")),
      h("td", null, run.search || run.engine));
    return section("Runs", fold(many(list.length, "run"), () => reprokit.parts.scrolled("Runs", h("table", { class: "cells" },
      h("thead", null, h("tr", null, ["began (UTC)", "run", "found", "by"].map((text) => h("th", { scope: "col" }, text)))), h("tbody", null, list.map(row)))), list.length <= 5));
  };
})();
