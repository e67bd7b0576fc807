// The page of a case.
"use strict";
(() => {
  const { h, KINDS, time } = reprokit;
  const { section, fold, copyable, prose, address, many, growing, scrolled, table, quoted, runLink, verdictWords: words } = reprokit.parts;
  const NAMED = 3; // cells, and ways of failing, that are named at the top
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
        h("div", { class: "main-column" }, statement(model), section("Matrix", picture.node), past, reprokit.parts.timing(data), runs(data)),
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
        h("li", { class: "dim" }, "last run ", h("a", { href: reprokit.href(`/run/${last.id}`) }, time(last.at)), " UTC", last.engine ? `, ${last.engine.split(" ")[0]}` : ""),
        data.report ? h("li", null, "reported at ", address(data.report)) : null));
  };

  // What is known of the bug: the statement, what was expected and seen, how it fails, and what the last run changed.
  const statement = (model) => {
    const { data } = model;
    const { lead, words: said, lines, decided, open, fix, commands } = data.explanation;
    return h("div", { class: "statement" },
      h("p", { class: "lead" }, h("span", { class: "dim" }, `${lead[0].toUpperCase()}${lead.slice(1)} `), h("strong", null, said)),
      h("p", { class: "dim" }, decided ? `From ${many(decided, "decided cell")}` : "Nothing is decided", open.length ? `; not decided: ${open.join("; ")}.` : "."),
      reprokit.parts.facts([
        ["Expected", `${{ all: "fails in all cells", none: "fails in no cell", unknown: "not stated where it fails" }[data.expected] || `fails where ${data.expected}`}`],
        ["Seen", seen(model)],
        ["How it fails", failures(model)],
        ["Last change", lastChange(model)],
        ["With the fix", fix ? fix.words : null],
      ]),
      commands.length ? h("div", null, h("p", null, "What would tell them apart:"), commands.map((one) => copyable(one.line, `Run ${one.cell}`, true))) : null,
      lines.length ? fold("The cells behind it", () => h("pre", { tabindex: "0" }, lines.join("\n"))) : null);
  };

  const cellLink = (model, at) => {
    const name = model.name(at) + (model.cells.variant[at] ? " [fix]" : "");
    return model.href(at) ? h("a", { href: model.href(at) }, name) : name;
  };
  const listed = (model, cells) => [cells.slice(0, NAMED).map((at, place) => [place ? ", " : "", cellLink(model, at)]), cells.length > NAMED ? ` and ${cells.length - NAMED} more` : ""];

  const seen = (model) => {
    const all = [...model.kinds.keys()];
    const mix = model.mix(all.filter((at) => !model.cells.variant[at]));
    const departing = all.filter((at) => model.cells.fits[at] === 0);
    const item = (at) => h("li", null, cellLink(model, at), `: ${words(model.kinds[at])}; ${words(reprokit.overview.verdicts[model.cells.expected[at]])} was expected`);
    return h("div", null, KINDS.filter((kind) => mix[kind]).map((kind) => `${mix[kind].toLocaleString("en")} ${words(kind)}`).join(", "),
      departing.length ? h("ul", { class: "named" }, departing.slice(0, NAMED).map(item), departing.length > NAMED ? h("li", null, `and ${departing.length - NAMED} more not as expected`) : null) : null);
  };

  const failures = (model) => {
    const { data } = model;
    const groups = data.failures.map((failure, at) => ({ ...failure, cells: [...data.cells.failure.keys()].filter((one) => data.cells.failure[one] === at) }));
    groups.sort((one, other) => Number(one.other) - Number(other.other) || other.cells.length - one.cells.length);
    const item = (one) => h("li", null, one.other ? [reprokit.badge("different-failure", null), " "] : null, one.known ? `known as ${one.known}: ` : null, h("span", { class: "mono message" }, one.title),
      h("div", { class: "dim" }, `${many(one.cells.length, "cell")}: `, listed(model, one.cells), ` · fingerprint ${one.id}`));
    if (!groups.length) return h("span", null, "not seen; the signature is ", signature(data));
    return h("div", null, h("ul", { class: "named" }, groups.slice(0, NAMED).map(item)),
      groups.length > NAMED ? fold(`${groups.length - NAMED} other ways`, () => h("ul", { class: "named" }, groups.slice(NAMED).map(item))) : null);
  };

  const signature = (data) => h("span", { class: "mono message" }, data.signature.map(([key, value]) => `${key}: ${value}`).join("\n"));
  reprokit.parts.signature = signature;

  const lastChange = (model) => {
    const { nights, runs } = model.data;
    if (nights.length < 2) return "one run so far: nothing to compare";
    const turned = [...model.kinds.keys()].map((at) => [at, model.turn(at)]).filter(([, turn]) => turn);
    const newest = Math.max(-1, ...turned.map(([, turn]) => turn.night));
    if (newest < 0) return `no cell in ${many(nights.length, "run")}`;
    const run = runs.find((one) => one.id === nights[newest]);
    const ways = new Map();
    for (const [at, { night, before, after }] of turned) {
      const way = `${words(before)} → ${words(after)}`;
      if (night === newest) ways.set(way, [...(ways.get(way) || []), at]);
    }
    const ago = nights.length - 1 - newest;
    return h("div", null, ago ? `${many(ago, "run")} ago, in ` : "by the last run, ", runLink(nights[newest], run ? run.at.slice(0, 16).replace("T", " ") : nights[newest]), ago ? "; none since" : null,
      h("ul", { class: "named" }, [...ways].map(([way, cells]) => h("li", null, h("strong", null, way), ": ", listed(model, cells)))));
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
      const scroll = h("div", { class: "scroll" }, grid);
      area.replaceChildren(scroll);
      // On a narrow screen the first column with a failure is in sight.
      requestAnimationFrame(() => {
        const failing = grid.querySelector(".sq.off") || grid.querySelector(".sq.fails");
        const beyond = failing ? failing.getBoundingClientRect().right - scroll.getBoundingClientRect().right : 0;
        if (beyond > 0) scroll.scrollLeft += beyond + 8;
      });
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
    const row = (at) => {
      const to = model.href(at), kind = model.kinds[at];
      const badge = kind === "not-run" ? "not run" : reprokit.badge(kind, model.fits(at));
      return h("tr", null, h("td", null, to ? h("a", { href: to }, badge) : badge), model.telling.map((axis) => h("td", null, model.value(axis, at))),
        h("td", { class: "reason" }, model.data.reasons[model.cells.reason[at]] || ""));
    };
    const list = table(["verdict", ...model.telling.map((axis) => axis.label), "reason"], []);
    list.prepend(h("caption", { class: "hidden" }, `${many(cells.length, "cell")}, each with its verdict`));
    const button = growing(list.tBodies[0], cells, row, { first: ROWS, more: ROWS, word: "cell" });
    return h("div", null, scrolled("Cells as a table", list), button);
  };

  const description = (data) => {
    const tags = data.tags.length ? h("p", { class: "dim" }, `Tags: ${data.tags.join(", ")}`) : null;
    const fix = data.fix !== null ? h("p", null, h("strong", null, "The fix: "), data.fix || "see the case file") : null;
    return data.description || fix ? section("What it is about", data.description ? prose(data.description) : null, fix, tags) : null;
  };

  const howTo = (data) => section("Run it", copyable([
    `reprokit run ${quoted(data.path)}${data.fix !== null ? " --fix" : ""}`,
    `reprokit show --why ${data.id}`,
  ].join("\n"), "Lines to run the case", true), h("p", { class: "dim" }, "Signature: ", signature(data)));

  const runs = (data) => {
    const list = data.runs.filter((run) => Object.keys(run.found).length).sort((one, other) => (one.at < other.at ? 1 : -1));
    const row = (run) => h("tr", null, h("td", null, time(run.at)), h("td", null, runLink(run.id)),
      h("td", null, KINDS.filter((kind) => run.found[kind]).map((kind, at) => `${at ? ", " : ""}${run.found[kind]} ${words(kind)}`).join("")),
      h("td", null, run.search || run.engine));
    return section("Runs", fold(many(list.length, "run"), () => scrolled("Runs", table(["began (UTC)", "run", "found", "by"], list.map(row))), list.length <= 5));
  };
})();
