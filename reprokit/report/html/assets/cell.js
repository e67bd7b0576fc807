// The page of one cell of one run.
"use strict";
(() => {
  const { h, href, time, SHOWS, SURE } = reprokit;
  const { section, fold, copyable, facts, seconds, many, scrolled, quoted, runLink, side, signature, verdictWords: words } = reprokit.parts;
  const LINES = 12; // differences that are shown unfolded

  reprokit.view("/case/:id/cell/:cell", async ({ params, query }) => {
    const [, run, number] = params.cell.match(/^(.*)-(\d+)$/) || [];
    if (!run) throw new Error(`${params.cell} names no cell: expected a run and a number`);
    const model = await reprokit.modelOf(params.id);
    if (!model.hasPage(run, Number(number))) return outline(model, run, Number(number));
    const cell = await reprokit.load(`cell/${run}/${model.data.name}/${number}`);
    const here = model.locate(cell.cell, cell.variant === "fix" ? 1 : 0);
    const name = nameOf(model, cell);
    const trials = trialsOf(cell, query);
    const apart = h("div");
    const node = h("div", { class: "cell" },
      head(model, cell, here, name),
      build(cell),
      comparison(cell),
      trials.node,
      apart,
      h("div", { class: "beside" }, environment(cell), image(cell)),
      repeat(model, cell, here),
      past(model, here));
    const shown = () => {
      if (trials.show) trials.show();
      differences(model, cell).then((found) => { if (found) apart.replaceChildren(found); });
    };
    return { title: `${name} · ${cell.case}`, crumbs: [[cell.case, href(`/case/${cell.case}`)], [name, ""]], node, shown };
  });

  // Of a cell of an older run: what the report keeps of every run, and how to see the rest.
  const outline = async (model, id, number) => {
    const { run } = await reprokit.runOf(id);
    const cell = run.cases.filter((one) => one.id === model.data.id).flatMap((one) => one.cells).find((one) => one.number === number);
    if (!cell) throw new Error(`run ${id} has no cell ${number} of ${model.data.id}`);
    const here = model.locate(cell.cell, cell.variant);
    const name = nameOf(model, { ...cell, variant: cell.variant ? "fix" : "case" });
    const node = h("div", { class: "cell" },
      h("header", { class: "cell-head" },
        titleOf(model),
        h("h1", null, name),
        h("p", { class: "verdict" }, reprokit.badge(cell.verdict, cell.departs ? false : null)),
        cell.reason ? h("p", { class: "reason-why" }, cell.reason) : null,
        newer(model, here),
        facts([["run", runLink(id)], ["began", h("span", null, time(run.at), " UTC")], ["by", run.engine], ["in all cells", common(model, cell)], ["signature", signature(model.data)]]),
        h("p", { class: "dim" }, "Of a run of this age the report keeps verdicts and reasons. The store has the log and the environment for as long as it keeps the run:"),
        copyable([`reprokit show ${id} ${number}`, `reprokit shell ${id}:${number}`, `reprokit report ${id} -o site/`].join("\n"), "Lines that show the cell", true)),
      past(model, here));
    return { title: `${name} · ${model.data.id}`, crumbs: [[model.data.id, href(`/case/${model.data.id}`)], [name, ""]], node };
  };

  const titleOf = (model) => h("p", { class: "of-case" }, h("a", { href: href(`/case/${model.data.id}`), lang: reprokit.lang(model.data.title) }, model.data.title || model.data.id));
  const common = (model, cell) => model.common.filter((axis) => Object.hasOwn(cell.cell, axis.name)).map((axis) => `${axis.name}=${cell.cell[axis.name]}`).join(" ");
  const newer = (model, here) => here >= 0 && model.href(here)
    ? h("p", { class: "notice" }, "What counts for this cell now is of another run: ", h("a", { href: model.href(here) }, words(model.kinds[here])), ", ", time(model.data.runs[model.cells.run[here]].at), " UTC.") : null;

  const nameOf = (model, cell) => {
    const telling = model.telling.filter((axis) => Object.hasOwn(cell.cell, axis.name)).map((axis) => `${axis.name}=${cell.cell[axis.name]}`);
    return (telling.join(" ") || "the only cell") + (cell.variant === "fix" ? " [fix]" : "");
  };

  const head = (model, cell, here, name) => {
    const own = model.find(cell.run, cell.number) === here;
    const command = (cell.facts.command || {}).command;
    return h("header", { class: "cell-head" },
      titleOf(model),
      h("div", { class: "row-of" }, h("h1", null, name), neighbours(model, here, cell)),
      h("p", { class: "verdict" }, reprokit.badge(cell.verdict, cell.as_expected), " ",
        h("span", { class: cell.as_expected === false ? "alarm" : "dim" }, expectation(cell))),
      h("p", { class: "reason-why" }, cell.reason || "not decided: the run was stopped, or was still going when this was written"),
      own ? null : newer(model, here),
      cell.rejudged.map((again) => h("p", { class: "dim" }, "Judged again ", time(again.at), `; before, by rules ${again.rules}: ${words(again.verdict)}.`)),
      facts([
        ["signature", signature(model.data)],
        ["command", command ? h("span", { class: "mono message" }, command) : null],
        ["run", h("span", { class: "mono" }, runLink(cell.run), `:${cell.number}`)],
        ["began", h("span", null, time(cell.at), " UTC")],
        ["by", cell.engine],
        ["in all cells", common(model, cell)],
        ["took", seconds(cell.seconds)],
        ["tried", cell.tried ? cell.tried : null],
        ["failure", cell.failures.length > 1 || cell.failures.some((one) => one.known) ? h("span", null, cell.failures.map((one, at) => [at ? "; " : "", one.title || one.id, one.known ? ` (known as ${one.known})` : "", one.trials ? `, trials ${one.trials.join(", ")}` : ""])) : null],
      ]),
      copyable(`reprokit shell ${cell.run}:${cell.number}`, "The line that opens a shell in the cell", true));
  };

  const expectation = (cell) => {
    if (cell.as_expected === true) return "as expected";
    if (!cell.expected) return "nothing was expected";
    return cell.as_expected === false ? `${words(cell.expected)} was expected` : `inconclusive; ${words(cell.expected)} was expected`;
  };

  const neighbours = (model, here, cell) => {
    const order = [...model.cells.verdict.keys()].filter((at) => model.cells.variant[at] === (cell.variant === "fix" ? 1 : 0) && model.href(at));
    const place = order.indexOf(here);
    const step = (by, key, text, label) => {
      const at = place < 0 ? undefined : order[place + by];
      if (at === undefined) return h("span", { class: "tool off-duty", "aria-hidden": "true" }, text);
      const to = model.href(at);
      reprokit.key(key, label, () => reprokit.go(to));
      return h("a", { class: "tool", href: to, title: model.name(at), "aria-label": `${label}: ${model.name(at)}` }, text);
    };
    const other = model.locate(cell.cell, cell.variant === "fix" ? 0 : 1);
    const twin = other >= 0 && model.href(other);
    if (twin) reprokit.key("x", "this cell with, or without, the fix", () => reprokit.go(twin));
    reprokit.key("m", "the matrix", () => reprokit.go(href(`/case/${cell.case}`)));
    return h("nav", { class: "steps", "aria-label": "Other cells" },
      twin ? h("a", { class: "tool", href: twin }, cell.variant === "fix" ? "without the fix" : "with the fix") : null,
      step(-1, "p", "← previous", "the previous cell"), step(1, "n", "next →", "the next cell"));
  };

  const build = (cell) => cell.build
    ? section("The build failed", h("p", null, "Step: ", h("code", null, String(cell.build.step))), copyable((cell.build.tail || []).join("\n"), "The end of the build's output"))
    : null;

  const comparison = (cell) => {
    const seen = cell.comparison;
    if (!seen) return null;
    const tensor = (one) => {
      const most = Math.max(...one.bars.map((bar) => bar[1]), 1);
      return h("div", null,
        h("p", null, h("code", null, one.name), `: ${one.words}`),
        one.bars.length ? h("table", null,
          h("caption", { class: "dim" }, "How far the numbers that are not equal are apart"),
          h("tbody", null, one.bars.map(([words, count]) => h("tr", null,
            h("th", { scope: "row", class: "mono" }, words),
            h("td", null, h("progress", { max: most, value: count, "aria-label": `${words}: ${count}` })),
            h("td", { class: "mono" }, String(count)))))) : null);
    };
    return section("Outputs",
      h("p", null, seen.reference ? `Compared with ${seen.reference}.` : "This cell is the reference."),
      seen.tensors.map(tensor),
      seen.more > 0 ? h("p", { class: "dim" }, `${many(seen.more, "tensor")} more`) : null);
  };

  const trialsOf = (cell, query) => {
    if (!cell.trials.length) return { node: null };
    const first = cell.trials.find((trial) => trial.outcome === cell.verdict) || cell.trials.find((trial) => trial.lines.length) || cell.trials[0];
    let trial = cell.trials.find((one) => String(one.number) === query.trial) || first;
    let line = Number((/^L(\d+)$/.exec(query.at || "") || [])[1] || 0);
    const state = () => ({ trial: trial === first ? "" : trial.number, at: line ? `L${line}` : "" });
    const body = h("div");
    const bar = h("div", { class: "trials", role: "group", "aria-label": "Trials" });
    let view = null, search = null;
    reprokit.key("/", "find in the log", () => { if (search.isConnected) search.select(); });

    const draw = () => {
      bar.replaceChildren(...cell.trials.map((one) => h("button", { type: "button", class: "trial", "aria-pressed": String(one === trial), on: { click: () => { trial = one; line = 0; reprokit.setQuery(state()); draw(); bar.querySelector("[aria-pressed=true]").focus(); view.show(); } } },
        h("span", { class: `sq key v-${looks(one.outcome)}`, "aria-hidden": "true" }, reprokit.parts.verdictGlyph(looks(one.outcome))), ` ${one.number} `,
        h("span", { class: "dim" }, `${words(one.outcome)} · ${ending(one)} · ${seconds(one.seconds)}`))));
      const excerpt = cell[`log${trial.number}`] || { lines: 0, parts: [], cuts: [] };
      const gone = !excerpt.lines && !trial.file;
      view = reprokit.parts.logView(excerpt, trial, {
        wanted: line,
        on: (number) => { line = number; reprokit.setQuery(state()); reprokit.announce("The line is in the address"); },
        label: `Log of trial ${trial.number}`,
      });
      const wrap = h("button", { type: "button", class: "chip-button", "aria-pressed": String(wrapped()) }, "wrap lines");
      const setWrap = (on) => { view.node.classList.toggle("wrap", on); wrap.setAttribute("aria-pressed", String(on)); };
      wrap.addEventListener("click", () => { wraps = !wrapped(); setWrap(wraps); });
      setWrap(wrapped());
      const found = h("span", { class: "dim", role: "status" });
      const look = (by, keep) => { found.textContent = view.search(box.value, by, keep); };
      const box = h("input", { type: "search", class: "find-in", placeholder: "Find in the log", "aria-label": "Find in the log", spellcheck: "false", autocomplete: "off", on: {
        input: () => look(1),
        keydown: (event) => { if (event.key === "Enter") look(event.shiftKey ? -1 : 1, true); },
      } });
      search = box;
      body.replaceChildren(
        trial.reason === cell.reason ? "" : h("p", { class: "reason-why" }, trial.reason),
        trial.used ? h("p", { class: "dim" }, trial.used) : "",
        h("div", { class: "row-of log-bar" },
          gone ? null : h("span", { class: "dim" }, excerpt.lines ? `${many(view.lines, "line")}${trial.lines.length ? `, ${trial.lines.length} matched` : ""}` : "no output"),
          excerpt.lines > 60 ? h("button", { type: "button", class: "chip-button", on: { click: () => view.all() } }, "unfold all") : null,
          excerpt.lines ? wrap : null,
          excerpt.lines > 1 ? [box, found] : null,
          trial.file ? h("a", { href: `data/${trial.file}` }, trial.note ? "what the report has of it" : "the whole log") : null,
          trial.file || trial.note || !excerpt.lines ? null : h("button", { type: "button", class: "chip-button", on: { click: () => save(view.text, `${cell.case}-${cell.number}-${trial.number}.log`) } }, "save the log"),
          trial.note ? h("span", { class: "dim" }, trial.note) : null),
        gone ? "" : view.node,
        gone ? "" : copyable(`reprokit show ${cell.run} ${cell.number} --log${trial.number > 1 ? ` --trial ${trial.number}` : ""}`, "The line that prints the whole log", true),
        exception(trial) || "", stacks(trial) || "");
    };
    draw();
    if (cell.trials.length > 1) {
      reprokit.key("t", "the next trial", () => {
        trial = cell.trials[(cell.trials.indexOf(trial) + 1) % cell.trials.length];
        line = 0;
        reprokit.setQuery(state());
        draw();
        view.show();
      });
    }
    return { node: section(many(cell.trials.length, "trial"), bar, body), show: () => view.show() };
  };

  // A log that the page has whole has no file of its own.
  const save = (text, name) => {
    const link = h("a", { download: name });
    link.href = URL.createObjectURL(new Blob([`${text}\n`], { type: "text/plain" }));
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  };

  let wraps = null; // until the reader chooses: on a phone
  const wrapped = () => (wraps === null ? window.innerWidth < 640 : wraps);

  const looks = (outcome) => (outcome === "passed" ? "not-reproduced" : outcome);
  const ending = (trial) => [trial.timed_out ? "time limit" : trial.exit_code === null ? "no exit status" : `exit ${trial.exit_code}`, trial.oom ? "out of memory" : ""].filter(Boolean).join(", ");

  const exception = (trial) => {
    const seen = trial.exception;
    if (!seen) return null;
    const frames = seen.frames || [];
    return h("div", { class: "exception" },
      h("h3", { class: "sub" }, "Exception"),
      h("p", { class: "mono" }, h("strong", null, seen.type), seen.message ? `: ${seen.message}` : ""),
      frames.length ? h("ol", { class: "frames" }, frames.map((frame) => h("li", null, h("span", { class: "mono" }, frame.function), h("span", { class: "dim mono" }, ` ${frame.file}:${frame.line}`)))) : null);
  };

  const stacks = (trial) => {
    const seen = trial.stacks;
    if (!seen) return null;
    const thread = (one) => h("div", { class: "thread" },
      h("h3", { class: "sub" }, one.name),
      h("ol", { class: "frames", start: 0 }, one.frames.map(([call, place]) => h("li", null, h("span", { class: "mono" }, call), h("span", { class: "dim mono" }, ` ${place}`)))));
    return fold(seen.title, () => h("div", { class: "stacks" },
      seen.missing ? h("p", null, seen.missing) : null,
      seen.threads.map(thread),
      seen.more ? h("p", { class: "dim" }, `${many(seen.more, "thread")} more in the log`) : null));
  };

  // What differs between two cells, as `reprokit diff` tells it.
  const compare = (data, one, other) => {
    const sides = [one, other].map((cell) => ({ ...cell.facts, ...cell.packages }));
    const known = [...data.concerns, ...[...new Set(sides.flatMap(Object.keys))].filter((concern) => !data.concerns.includes(concern)).sort()];
    const both = one.measured && other.measured;
    const FIRST = ["libc6", "libstdc++6", "libgcc-s1", "libgomp1"];
    const found = [];
    for (const concern of known) {
      if (!both && !data.unmeasured.includes(concern)) continue;
      const [before, after] = sides.map((facts) => facts[concern] || {});
      const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
      names.sort((a, b) => FIRST.includes(b) - FIRST.includes(a) || (a < b ? -1 : 1));
      for (const name of names) {
        if (before[name] !== after[name]) found.push({ concern, name, before: before[name] ?? null, after: after[name] ?? null });
      }
    }
    return found;
  };
  reprokit.compare = compare;

  const differences = async (model, cell) => {
    const shows = SHOWS.includes(cell.verdict), sure = SURE.includes(cell.verdict);
    const variant = cell.variant === "fix" ? 1 : 0;
    const at = model.nearest(cell.cell, variant, (one) => SURE.includes(model.kinds[one]) && model.href(one) && (!sure || SHOWS.includes(model.kinds[one]) !== shows));
    if (at < 0) return null;
    let other;
    try {
      other = await reprokit.load(`cell/${model.data.runs[model.cells.run[at]].id}/${model.data.name}/${model.cells.number[at]}`);
    } catch {
      return null;
    }
    const found = compare(model.data, cell, other);
    const of = (one, axis) => (Object.hasOwn(one.cell, axis) ? one.cell[axis] : "(absent)");
    const axes = Object.keys({ ...cell.cell, ...other.cell }).filter((axis) => of(cell, axis) !== of(other, axis));
    const rows = found.map((one) => h("tr", null, h("td", null, one.concern), h("th", { scope: "row" }, one.name), h("td", null, side(one.before, "del")), h("td", null, side(one.after, "ins"))));
    const table = (some) => h("table", { class: "differences" },
      h("thead", null, h("tr", null, ["what", "name", "here", "there"].map((text) => h("th", { scope: "col" }, text)))), h("tbody", null, some));
    return section(sure ? "What is different where the verdict is another" : "The nearest cell that was decided",
      h("p", null, "Nearest: ", h("a", { href: model.href(at) }, nameOf(model, other)), " ", reprokit.badge(other.verdict, other.as_expected),
        h("span", { class: "dim" }, ` ${axes.length === 1 ? "one axis" : `${axes.length} axes`} away: ${axes.map((axis) => `${axis} ${of(cell, axis)} → ${of(other, axis)}`).join(", ")}`)),
      cell.measured && other.measured ? null : h("p", { class: "dim" }, "One of them has no image that was measured: only what was asked for is compared."),
      rows.length ? scrolled("Differences", table(rows.slice(0, LINES))) : h("p", { class: "dim" }, "The environments are the same, as far as they were measured."),
      rows.length > LINES ? fold(`${rows.length - LINES} more differences`, () => scrolled("More differences", table(rows.slice(LINES)))) : null);
  };

  const environment = (cell) => {
    const rows = cell.asked.map((one) => h("tr", { class: one.differs ? "differs" : null },
      h("th", { scope: "row" }, one.axis), h("td", null, one.asked),
      h("td", null, one.measured === null || one.measured === undefined ? h("span", { class: "dim" }, "–") : String(one.measured),
        one.differs ? h("div", { class: "alarm" }, one.differs) : one.measured ? h("span", { class: "dim" }, " as asked") : null)));
    const group = (facts) => Object.entries(facts).map(([concern, values]) => Object.entries(values).map(([name, value], at) =>
      h("tr", null, h("td", null, at ? "" : concern), h("th", { scope: "row" }, name), h("td", null, value))));
    const table = (facts) => scrolled("Facts", h("table", { class: "cells facts-table" }, h("tbody", null, group(facts))));
    const count = Object.values(cell.packages).reduce((sum, values) => sum + Object.keys(values).length, 0);
    return section("Environment",
      rows.length ? scrolled("Asked and measured", h("table", { class: "cells" },
        h("thead", null, h("tr", null, ["axis", "asked", "measured in the image"].map((text) => h("th", { scope: "col" }, text)))), h("tbody", null, rows))) : null,
      cell.measured ? null : h("p", { class: "dim" }, "No image was measured."),
      fold("Everything that was asked for and measured", () => table(cell.facts)),
      count ? fold(many(count, "package"), () => table(cell.packages)) : null);
  };

  const image = (cell) => {
    if (!cell.image && !cell.dockerfile) return null;
    const found = cell.image || {};
    const script = cell.dockerfile.startsWith("#!");
    return section("Image",
      facts([
        ["tag", found.tag ? h("span", { class: "mono" }, found.tag) : null],
        ["id", found.id ? h("span", { class: "mono" }, String(found.id).slice(0, 19)) : null],
        ["size", found.size ? `${Math.round(found.size / 1e6).toLocaleString("en")} MB` : null],
        ["built", found.built ? `in ${seconds(found.seconds)}` : found.tag ? "before; reused" : null],
        ["base", found.base || null],
        ...Object.entries(found.served_by || {}),
        ...Object.entries(found.sources || {}).map(([name, commit]) => [`source ${name}`, commit]),
        ...cell.notes.map((note) => ["note", note]),
      ]),
      cell.dockerfile ? fold(`${script ? "Build script" : "Dockerfile"}, ${many(cell.dockerfile.trimEnd().split("\n").length, "line")}`, () => copyable(cell.dockerfile.trimEnd(), script ? "Build script" : "Dockerfile")) : null);
  };

  const repeat = (model, cell, here) => {
    const only = Object.entries(cell.cell).map(([axis, value]) => `${axis}=${value}`);
    const line = ["reprokit run", quoted(model.data.path), only.length ? `--only ${quoted(only.join(","))}` : "", cell.variant === "fix" ? "--fix" : ""];
    const parts = [];
    if (here >= 0 && !only.some((text) => text.includes(","))) parts.push(copyable(line.filter(Boolean).join(" "), "The line that runs the cell again", true));
    if (cell.repeat) parts.push(fold("One trial as it ran, on the machine that ran it", () => copyable(cell.repeat, "The line that repeats a trial where it ran", true), !parts.length));
    return parts.length ? section("Repeat it", parts) : null;
  };

  const past = (model, here) => here >= 0 && model.data.nights.length > 1
    ? section("History", h("p", null, model.data.states[model.cells.state[here]] || ""), reprokit.parts.strip(model, here),
      h("p", null, h("a", { href: href(`/case/${model.data.id}`) }, "All cells of the case")))
    : null;
})();
