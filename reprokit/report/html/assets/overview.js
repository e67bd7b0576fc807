// All cases: a row each, found by words and filters. What is chosen stands in the address.
"use strict";
(() => {
  const { h, href, lang, time, announce, key, setQuery } = reprokit;

  const STATUS = {
    "departs": { glyph: "✗", words: "Departs" },
    "inconclusive": { glyph: "?", words: "Inconclusive" },
    "as-expected": { glyph: "✓", words: "As expected" },
    "no-expectation": { glyph: "•", words: "Nothing expected" },
    "never-run": { glyph: "–", words: "Never run" },
  };
  const ORDER = Object.keys(STATUS);
  const SORTS = {
    "": { words: "Most pressing", by: (a, b) => ORDER.indexOf(a.status) - ORDER.indexOf(b.status) || compare(a.id, b.id) },
    case: { words: "Case", by: (a, b) => compare(a.id, b.id) },
    last: { words: "Last run", by: (a, b) => compare((b.last || { at: "" }).at, (a.last || { at: "" }).at) || compare(a.id, b.id) },
    cells: { words: "Most cells", by: (a, b) => b.cells - a.cells || compare(a.id, b.id) },
  };
  const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  const many = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
  const FIRST = 60; // rows that are made before anything is shown
  const MORE = 200; // rows that are made between two frames

  const status = (name, title) =>
    h("span", { class: `status s-${name}`, title: title || STATUS[name].words }, h("span", { "aria-hidden": "true" }, STATUS[name].glyph), h("span", { class: "hidden" }, STATUS[name].words));

  // ---- a row ----
  const tally = (one) => {
    const counts = Object.entries(one.tally).sort(([a], [b]) => reprokit.overview.verdicts.indexOf(a) - reprokit.overview.verdicts.indexOf(b));
    if (!counts.length) return h("span", { class: "muted" }, many(one.cells, "cell"));
    return h("ul", { class: "tally" },
      reprokit.parts.tally(counts),
      one.blind > 0 && h("li", { class: "note-of", title: "the newest run of these cells was inconclusive: what is shown was decided before" }, `${one.blind} inconclusive since`),
      one.fix && fix(one.fix));
  };

  const fix = ({ cells, gone, left, words: said }) => {
    const words = !cells ? "fix not judged" : left ? `fix fails in ${left}` : gone ? `fix holds in ${gone} of ${cells}` : "fix undecided";
    return h("li", { class: left ? "note-of left" : cells && gone === cells ? "note-of holds" : "note-of", title: `with the fix: ${said}` }, words);
  };

  const strip = (one) => {
    if (!one.strip.length) return null;
    const said = one.strip.map((square) => `${square.at.slice(0, 10)} ${STATUS[square.status].words.toLowerCase()}: ${square.words}`);
    return h("span", { class: "last-runs", role: "img", "aria-label": `Last ${many(one.strip.length, "run")}, the oldest first. ${said.join(". ")}` },
      one.strip.map((square, at) => h("span", { class: `square s-${square.status}${square.whole ? "" : " some"}`, title: said[at] }, STATUS[square.status].glyph)));
  };

  const why = (one) => {
    const { claim, words, trials } = one.flip;
    if (claim === "exact" || claim === "more-often") return h("span", { class: "when", title: words }, words, trials && h("span", { class: "muted" }, ` (${trials})`));
    if (claim === "one-of") return h("span", { class: "when" }, words, h("span", { class: "muted" }, " (other conditions fit as well)"));
    if (claim === "expected") return h("span", { class: "muted" }, `expected: ${words}`);
    return h("span", { class: "muted" }, words);
  };

  const word = (name, value) => h("a", { class: `facet ${name}`, href: href("/", { [name]: value }), title: `Cases with the ${name === "needs" ? "need" : name} ${value}` }, value);

  let opened = null; // the case that was looked at last: to come back is to come back to it

  const row = (one) =>
    h("tr", { role: "row", class: one.status === "departs" ? "pressing" : null },
      h("td", { role: "cell", class: "c-status" }, status(one.status)),
      h("td", { role: "cell", class: "c-case" },
        h("a", { class: "title", href: href(`/case/${one.id}`), lang: lang(one.title), on: { click: () => { opened = one; } } }, one.title || one.id),
        h("div", { class: "about" }, h("code", null, one.id), one.tags.map((tag) => word("tag", tag)), one.needs.map((need) => word("needs", need)),
          one.changed && h("span", { class: "muted" }, "edited since it ran"),
          one.elsewhere && h("span", { class: "muted" }, "not in the folder of cases"))),
      h("td", { role: "cell", class: "c-tally" }, tally(one)),
      h("td", { role: "cell", class: "c-strip" }, strip(one)),
      h("td", { role: "cell", class: "c-when" }, why(one)),
      h("td", { role: "cell", class: "c-last" }, one.last ? [h("a", { href: href(`/run/${one.last.run}`) }, h("time", { datetime: one.last.at, title: `${one.last.at}, run ${one.last.run}` }, one.last.at.slice(0, 10))), one.last.engine && h("div", { class: "muted" }, one.last.engine)] : h("span", { class: "muted" }, "never")));

  // ---- what is searched ----
  const textOf = (one) =>
    [one.id, one.title, ...one.tags, ...one.needs, ...one.frameworks, ...Object.keys(one.tally), STATUS[one.status].words, one.flip.words, ...one.failures, one.changed ? "edited" : ""].join("\n").toLowerCase();

  const values = (rows, of) => [...new Set(rows.flatMap(of))].sort();

  reprokit.view("/", async ({ query }) => {
    const { cases, newest, verdicts } = reprokit.overview;
    const texts = new Map(cases.map((one) => [one, textOf(one)]));
    const made = new Map();
    const element = (one) => {
      if (!made.has(one)) made.set(one, row(one));
      return made.get(one);
    };
    const state = { q: "", status: "", tag: "", framework: "", needs: "", verdict: "", sort: "", ...query };

    const fits = (one, without) => {
      const { q, tag, framework, needs, verdict } = state;
      return (without === "status" || !state.status || one.status === state.status)
        && (!tag || one.tags.includes(tag))
        && (!framework || one.frameworks.includes(framework))
        && (!needs || (needs === "nothing" ? !one.needs.length : one.needs.includes(needs)))
        && (!verdict || Object.hasOwn(one.tally, verdict))
        && q.toLowerCase().split(/\s+/).every((part) => texts.get(one).includes(part));
    };

    const body = h("tbody", { role: "rowgroup" });
    const count = h("span", { class: "count" });
    const chips = h("div", { class: "picks", role: "group", "aria-label": "Status" });
    const clear = h("button", { type: "button", class: "tool", on: { click: () => { reset(); box.focus(); } } }, "Clear");

    const chip = (name, words, cases_) =>
      h("button", { type: "button", class: "pick", "aria-pressed": String(state.status === name), on: { click: () => { state.status = name; update(); } } },
        name && h("span", { class: `status s-${name}`, "aria-hidden": "true" }, STATUS[name].glyph), words, h("span", { class: "number" }, String(cases_)));

    let filling = 0;
    const fill = (shown) => {
      const mine = ++filling;
      let at = Math.max(FIRST, shown.indexOf(opened) + 1);
      body.replaceChildren(...shown.slice(0, at).map(element));
      const more = () => {
        if (mine !== filling || at >= shown.length) return;
        body.append(...shown.slice(at, (at += MORE)).map(element));
        requestAnimationFrame(more);
      };
      if (at < shown.length) requestAnimationFrame(more);
    };

    const update = ({ quiet = false } = {}) => {
      const some = cases.filter((one) => fits(one, "status"));
      const shown = some.filter((one) => fits(one)).sort((SORTS[state.sort] || SORTS[""]).by);
      const pressed = document.activeElement && chips.contains(document.activeElement) ? [...chips.children].indexOf(document.activeElement) : -1;
      const of = (name) => some.filter((one) => one.status === name).length;
      chips.replaceChildren(chip("", "All", some.length), ...ORDER.filter((name) => name === state.status || cases.some((one) => one.status === name)).map((name) => chip(name, STATUS[name].words, of(name))));
      if (pressed >= 0) chips.children[pressed].focus();
      if (shown.length) fill(shown);
      else {
        filling++;
        body.replaceChildren(h("tr", { role: "row" }, h("td", { role: "cell", class: "none", colspan: "6" }, cases.length ? "No case fits." : "There is no case in this report.")));
      }
      const words = shown.length === cases.length ? many(cases.length, "case") : `${shown.length.toLocaleString("en")} of ${many(cases.length, "case")}`;
      count.textContent = words;
      clear.hidden = !Object.entries(state).some(([name, value]) => value && name !== "sort");
      if (!quiet) {
        announce(`${words} shown`);
        setQuery(state);
      }
    };

    const box = h("input", { type: "search", id: "search", placeholder: "Title, id, tag, failure, verdict", value: state.q, autocomplete: "off", spellcheck: "false", "aria-keyshortcuts": "/",
      on: {
        input: () => { state.q = box.value; update(); },
        keydown: (event) => {
          if (event.key === "Escape") { box.value = state.q = ""; update(); box.blur(); }
          if (event.key === "Enter") step(1);
        },
      } });

    const select = (name, words, options) => {
      const element_ = h("select", { id: `by-${name}`, on: { change: () => { state[name] = element_.value; update(); } } },
        options.map(([value, text]) => h("option", { value, selected: value === state[name] }, text)));
      return h("label", { class: "by", for: `by-${name}` }, h("span", null, words), element_);
    };
    const any = (words, found) => [["", words], ...found.map((value) => [value, value])];
    const selects = h("div", { class: "selects", id: "selects" },
      select("tag", "Tag", any("any", values(cases, (one) => one.tags))),
      select("framework", "Framework", any("any", values(cases, (one) => one.frameworks))),
      select("needs", "Needs", [...any("any", values(cases, (one) => one.needs)), ["nothing", "nothing"]]),
      select("verdict", "Verdict", any("any", verdicts.filter((verdict) => cases.some((one) => verdict in one.tally)))),
      select("sort", "Sort", Object.entries(SORTS).map(([value, { words }]) => [value, words])));

    const more = h("button", { type: "button", class: "tool more", "aria-expanded": "false", "aria-controls": "selects",
      on: { click: () => more.setAttribute("aria-expanded", String(more.getAttribute("aria-expanded") === "false")) } }, "Filters");

    const reset = () => {
      for (const name of Object.keys(state)) if (name !== "sort") state[name] = "";
      box.value = "";
      for (const one of selects.querySelectorAll("select")) one.value = state[one.id.slice(3)];
      update();
    };

    const step = (by) => {
      const links = [...body.querySelectorAll(".title")];
      const at = links.indexOf(document.activeElement);
      const next = links[at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + by))];
      if (next) next.focus();
    };
    key("/", "search", () => box.select());
    key("j", "next case", () => step(1));
    key("k", "case before", () => step(-1));
    key("Enter", "open the case", () => false);
    key("Escape", "clear the search and the filters", reset);

    const head = (name, words) => h("th", { role: "columnheader", scope: "col", class: name }, words);
    const node = h("div", { class: "overview" },
      h("div", { class: "head" }, h("h1", null, "Cases"), newest && h("p", { class: "muted" }, "newest run ", time(newest), " UTC · ", h("a", { href: "#/runs" }, "all runs"))),
      h("div", { class: "states" }, chips, h("div", { class: "end" }, count, clear)),
      h("form", { class: "filters", role: "search", on: { submit: (event) => event.preventDefault() } },
        h("label", { class: "find", for: "search" }, h("span", { class: "hidden" }, "Search the cases"), box, h("kbd", { "aria-hidden": "true" }, "/")),
        more, selects),
      h("table", { class: "cases", role: "table", "aria-label": "Cases" },
        h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, head("c-status", h("span", { class: "hidden" }, "Status")), head("c-case", "Case"), head("c-tally", "Now"), head("c-strip", "Last runs"), head("c-when", "Reproduces when"), head("c-last", "Last run"))),
        body));
    update({ quiet: true });
    const shown = () => {
      const link = opened && made.has(opened) && made.get(opened).querySelector(".title");
      if (!link || !link.isConnected) return;
      link.scrollIntoView({ block: "center" });
      link.focus({ preventScroll: true });
    };
    return { title: "", node, shown };
  });
})();
