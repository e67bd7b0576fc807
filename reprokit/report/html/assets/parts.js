// What the case page and the cell page share: sections, code to copy, prose, and text whose hidden characters show.
"use strict";
(() => {
  const { h } = reprokit;

  let made = 0;
  function section(title, ...children) {
    const id = "s" + ++made;
    return h("section", { class: "part", "aria-labelledby": id }, h("h2", { id }, title), ...children);
  }

  function fold(title, content, open) {
    const details = h("details", { class: "fold" }, h("summary", null, title));
    const fill = () => { if (details.childElementCount === 1) details.append(content()); };
    if (open) { details.open = true; fill(); }
    details.addEventListener("toggle", fill);
    return details;
  }

  // `wrap`: lines of commands, which are read rather than looked at.
  function copyable(text, label, wrap) {
    const words = label || "lines";
    const button = h("button", { class: "copy", type: "button", "aria-label": "Copy " + words }, "Copy");
    button.addEventListener("click", async () => {
      const done = await copied(text);
      button.textContent = done ? "Copied" : "Press Ctrl+C";
      reprokit.announce(done ? "Copied" : "The browser does not allow it: select the text and press Ctrl+C");
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    const code = h("pre", { tabindex: "0", role: "group", "aria-label": words }, h("code", null, text));
    return h("div", { class: wrap ? "copyable wraps" : "copyable" }, code, button);
  }

  // Pages opened from a disk may have no clipboard interface; the old way works there.
  async function copied(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const area = h("textarea", { class: "offscreen", "aria-hidden": "true" });
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      return done;
    }
  }

  // The little of Markdown that descriptions of cases use: paragraphs, list items, code.
  function prose(text) {
    const blocks = text.trim().split(/\n\s*\n/);
    return h("div", { class: "prose", lang: reprokit.lang(text) || undefined }, blocks.map((block) => {
      const lines = block.split("\n");
      if (lines.every((line, at) => /^\s*[-*] /.test(line) || (at && /^\s+/.test(line)))) {
        const items = block.replace(/\n\s+(?![-*] )/g, " ").split("\n");
        return h("ul", null, items.map((item) => h("li", null, inline(item.replace(/^\s*[-*] /, "")))));
      }
      return h("p", null, inline(lines.join(" ")));
    }));
  }

  function inline(text) {
    return text.split(/(`[^`]+`)/).map((part) =>
      /^`[^`]+`$/.test(part) ? h("code", null, part.slice(1, -1)) : part);
  }

  // An address that a case names: a link only where it leads to the web.
  function address(text) {
    let url = null;
    try { url = new URL(text); } catch { /* no address */ }
    return url && /^https?:$/.test(url.protocol)
      ? h("a", { href: url.href, rel: "noopener noreferrer nofollow" }, text) : h("span", null, text);
  }

  function facts(pairs) {
    return h("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null && value !== "").map(([name, value]) =>
      h("div", null, h("dt", null, name), h("dd", null, value))));
  }

  function seconds(value) {
    if (value === null || value === undefined) return "";
    if (value < 60) return value.toFixed(value < 1 ? 2 : 1) + " s";
    return Math.floor(value / 60) + " min " + String(Math.floor(value % 60)).padStart(2, "0") + " s";
  }

  // Fills `box` with what `make` gives for the first items; the button brings more.
  function growing(box, items, make, { first, more, word }) {
    const button = h("button", { class: "tool", type: "button" });
    let shown = 0;
    const add = (count) => {
      box.append(...items.slice(shown, shown + count).map(make));
      shown = Math.min(items.length, shown + count);
      const left = items.length - shown;
      button.textContent = left > more ? `${more} more of ${many(left, word)}` : many(left, `more ${word}`);
      button.hidden = shown >= items.length;
    };
    button.addEventListener("click", () => add(more));
    add(first);
    return button;
  }

  // A table that is wider than a phone scrolls by itself, and by keyboard.
  const scrolled = (label, table) => h("div", { class: "scrolled", role: "group", "aria-label": label, tabindex: "0" }, table);

  const table = (heads, rows) => h("table", { class: "cells" },
    h("thead", null, h("tr", null, heads.map((text) => h("th", { scope: "col" }, text)))), h("tbody", null, rows));

  const quoted = (text) => (/^[\w./@%+=:,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

  const runLink = (id, text) => h("a", { href: reprokit.href(`/run/${id}`), class: text ? null : "mono" }, text || id);
  const cellHref = (id, run, number) => reprokit.href(`/case/${id}/cell/${run}-${number}`);

  // How many cells came to which verdict, in as little room as there is.
  const tally = (counts) => counts.map(([kind, count]) => h("li", { class: `badge v-${kind}`, title: `${count} ${kind}` },
    h("span", { class: "glyph", "aria-hidden": "true" }, reprokit.VERDICTS[kind].glyph), count.toLocaleString("en"), h("span", { class: "hidden" }, ` ${kind}`)));

  const words = (kind) => kind.replaceAll("-", " ");

  const many = (count, word) => count.toLocaleString("en") + " " + word + (count === 1 ? "" : "s");

  reprokit.parts = { section, fold, copyable, prose, inline, address, facts, seconds, many, tally, growing, scrolled, table, quoted, runLink, cellHref, verdictWords: words };
})();
