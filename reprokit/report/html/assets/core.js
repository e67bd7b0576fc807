// What every page needs: data that are scripts, elements without HTML, addresses in the hash, verdicts.
"use strict";
const reprokit = (() => {
  const values = new Map(); // key -> value, once its script has run
  const asked = new Map(); // key -> promise
  const views = [];

  // ---- data ----
  const data = (key, value) => values.set(key, value);

  const script = (key) =>
    new Promise((resolve, reject) => {
      if (values.has(key)) return resolve(values.get(key));
      const element = document.createElement("script");
      element.src = `data/${key.split("/").map(encodeURIComponent).join("/")}.js`;
      element.onload = () => (values.has(key) ? resolve(values.get(key)) : reject(new Error(`data/${key}.js holds nothing`)));
      element.onerror = () => {
        asked.delete(key);
        element.remove();
        reject(new Error(`data/${key}.js is not in this report`));
      };
      document.head.append(element);
    });

  const CELLS = 100; // of a run in one file, by their numbers

  // The cell of that number out of its file, in which each value of its cells stands once.
  const cell = async (key) => {
    const [, folder, number] = key.match(/^cell\/(.*)\/(\d+)$/);
    const { cells, columns, values } = await load(`cells/${folder}/${Math.floor(number / CELLS)}`);
    const row = cells.indexOf(Number(number));
    if (row < 0) throw new Error(`cell ${number} of ${folder} is not in this report`);
    const found = {};
    for (const [name, column] of Object.entries(columns)) {
      const at = Array.isArray(column) ? column[row] : column;
      const value = at < 0 ? undefined : values[at];
      if (at >= 0) found[name] = value && value.$shared ? await load(`shared/${value.$shared}`) : value;
    }
    return found;
  };

  const load = (key) => {
    if (!asked.has(key)) asked.set(key, key.startsWith("cell/") ? cell(key) : script(key));
    return asked.get(key);
  };

  const RUNS = 100; // in one file

  // The ids of all runs, the oldest first.
  const runIds = async () => (await load("runs")).run.split(" ").filter(Boolean);

  // The runs of a block, each with its cells by case: [{id, cells: [{number, variant, cell, verdict, departs, reason}]}].
  const runBlock = async (at) => {
    const { layouts, reasons, runs } = await load(`runs/${at}`);
    const cells = ({ layout, verdict, reasons: given }) => {
      const { case: id, numbers, fix, axes } = layouts[layout];
      const why = new Map(given.flatMap(([reason, some]) => some.map((number) => [number, reasons[reason]])));
      return { id, cells: numbers.map((number, row) => ({
        number, variant: fix[row], verdict: kindOf(verdict[row]), departs: departs(verdict[row]), reason: why.get(number) || "",
        cell: Object.fromEntries(axes.flatMap(({ name, values, at: places }) => (places[row] < 0 ? [] : [[name, values[places[row]]]]))),
      })) };
    };
    return runs.map((run) => ({ ...run, cases: run.cases.map(cells) }));
  };

  // ---- elements ----
  // Characters that reorder, hide or end what stands beside them are shown by their number: no text of a log or a case
  // can pass for another.
  const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u202a-\u202e\u2028\u2029\u2060-\u2069\ufeff]/g;
  const visible = (text) => text.replace(HIDDEN, (one) => `⟨U+${one.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);

  const h = (tag, properties, ...children) => {
    const element = tag === "svg" || tag.startsWith("svg:")
      ? document.createElementNS("http://www.w3.org/2000/svg", tag.replace("svg:", ""))
      : document.createElement(tag);
    for (const [name, value] of Object.entries(properties || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name === "on") for (const [event, f] of Object.entries(value)) element.addEventListener(event, f);
      else if (name === "data") Object.assign(element.dataset, value);
      else if (name === "href" && !/^(#|data\/|https?:\/\/)/.test(value)) continue; // such as javascript:
      else element.setAttribute(name, value === true ? "" : value);
    }
    const some = children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false);
    element.append(...some.map((one) => (typeof one === "string" ? visible(one) : one)));
    return element;
  };

  const HAN = /\p{Script=Han}/u;
  const KANA = /[\p{Script=Hiragana}\p{Script=Katakana}]/u;
  // The language of a text as far as its letters tell: it chooses the font, and the voice of a screen reader.
  const lang = (text) => (KANA.test(text) ? "ja" : HAN.test(text) ? "zh-Hans" : null);

  const time = (text) => h("time", { datetime: text, title: text }, text.slice(0, 16).replace("T", " "));

  const announce = (text) => {
    document.getElementById("live").textContent = text;
  };

  // ---- verdicts ----
  const VERDICTS = {
    "reproduced": { glyph: "R", words: "every trial failed with the signature" },
    "flaky": { glyph: "F", words: "some trials failed with the signature, others did not" },
    "not-reproduced": { glyph: "·", words: "every trial passed" },
    "different-failure": { glyph: "x", words: "something failed, but not with the signature" },
    "timed-out": { glyph: "T", words: "a time limit stopped the trials" },
    "out-of-memory": { glyph: "M", words: "the trials ran out of memory" },
    "inconclusive": { glyph: "I", words: "the trials decide nothing" },
    "build-failed": { glyph: "B", words: "the image could not be built" },
    "environment-mismatch": { glyph: "E", words: "the image is not what the cell asks" },
    "unsupported": { glyph: "U", words: "the host could not serve the cell" },
    "engine-error": { glyph: "!", words: "the engine failed" },
    "cancelled": { glyph: "C", words: "the run was stopped" },
    "undecided": { glyph: "?", words: "not decided" },
  };

  // Of a letter in a strip of runs: its verdict, null for a blank, and whether that is not as expected.
  const kindOf = (letter) => (letter === " " ? null : values.get("overview").verdicts["RFNXTMIBEU!C?".indexOf(letter.toUpperCase())]);
  const departs = (letter) => letter !== letter.toUpperCase();

  const badge = (verdict, asExpected) =>
    h(
      "span",
      { class: `badge v-${verdict}`, title: (VERDICTS[verdict] || {}).words },
      h("span", { class: "glyph", "aria-hidden": "true" }, (VERDICTS[verdict] || { glyph: "?" }).glyph),
      verdict,
      asExpected === false && h("span", { class: "departs" }, "departs"),
    );

  // ---- addresses ----
  const href = (path, query) => {
    const text = new URLSearchParams(Object.entries(query || {}).filter(([, value]) => value !== "" && value !== null && value !== undefined && value !== false)).toString();
    return `#${path.split("/").map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
  };

  const view = (pattern, show) => views.push({ parts: pattern.split("/"), show });

  const address = () => {
    const [path, ...query] = location.hash.replace(/^#/, "").split("?");
    const parts = (path || "/").split("/").map((part) => {
      try {
        return decodeURIComponent(part);
      } catch {
        return part; // a literal percent sign
      }
    });
    return { parts, query: Object.fromEntries(new URLSearchParams(query.join("?"))) };
  };

  const found = ({ parts }) => {
    for (const { parts: pattern, show } of views) {
      if (pattern.length !== parts.length) continue;
      if (pattern.every((part, at) => part.startsWith(":") || part === parts[at])) {
        const named = pattern.flatMap((part, at) => (part.startsWith(":") ? [[part.slice(1), parts[at]]] : []));
        return { show, params: Object.fromEntries(named) };
      }
    }
    return null;
  };

  const go = (to, { replace = false } = {}) => {
    if (replace) {
      history.replaceState(null, "", to);
      show();
    } else location.hash = to;
  };

  // The state of the page that is shown: no new view is made of it, and no step back either.
  const setQuery = (query) => {
    const { parts } = address();
    history.replaceState(null, "", href(parts.join("/"), query));
  };

  const crumbs = (trail) => {
    const list = document.getElementById("crumbs");
    list.replaceChildren(
      ...trail.map(([text, to], at) =>
        h("li", null, to && at < trail.length - 1 ? h("a", { href: to }, text) : h("span", { "aria-current": "page" }, text)),
      ),
    );
  };

  // The page that the address names; a view that only finds another asks for it again.
  const pageHere = async () => {
    const here = address();
    const match = found(here);
    if (!match) throw new Error("there is no such page in this report");
    return match.show({ params: match.params, query: here.query });
  };

  let turn = 0;
  let started = false;
  const show = async () => {
    const mine = ++turn;
    const main = document.getElementById("main");
    forgetKeys();
    let page;
    try {
      main.setAttribute("aria-busy", "true");
      page = await pageHere();
    } catch (error) {
      page = { title: "Not found", node: h("div", { class: "note" }, h("h1", null, "Not found"), h("p", null, error.message), h("p", null, h("a", { href: "#/" }, "All cases"))) };
    }
    if (mine !== turn) return; // the reader went on meanwhile
    main.removeAttribute("aria-busy");
    document.title = page.title ? `${page.title} · reprokit` : "reprokit report";
    crumbs(page.crumbs || []);
    main.replaceChildren(page.node);
    if (started) {
      // What a browser does for a new document; the first is focused as the reader likes.
      main.focus({ preventScroll: true });
      window.scrollTo(0, 0);
    }
    started = true;
    if (page.shown) page.shown();
  };

  // ---- keys ----
  let keys = [];
  const key = (name, words, f, { everywhere = false } = {}) => {
    const one = { name, words, f, everywhere };
    keys.push(one);
    return () => {
      keys = keys.filter((each) => each !== one);
    };
  };
  const forgetKeys = () => {
    keys = keys.filter((one) => one.everywhere);
  };

  return {
    data, load, runIds, runBlock, RUNS, kindOf, departs, h, visible, lang, time, announce, VERDICTS, badge, href, view, go, setQuery, key, show, pageHere, address,
    keys: () => keys,
    get overview() {
      return values.get("overview");
    },
  };
})();
