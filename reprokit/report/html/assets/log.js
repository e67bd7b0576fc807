// A log: what was judged and the lines around it, the rest folded; lines can be searched, and named in the address.
"use strict";
(() => {
  const { h } = reprokit;
  const CONTEXT = 8; // lines around what was judged
  const WHOLE = 60; // lines up to which nothing is folded
  const STEP = 40; // lines that a click unfolds
  const CUT = 2000, FURTHER = 20000; // characters of a line that are shown, and that a click adds
  const BLOCK = 200; // lines that are laid out together once they come into view
  const SGR = /\x1b\[([0-9;:]*)m/g; // what chooses a colour: nothing else of a terminal's language is in the data

  // The look after such a sequence. What would hide a text, such as a background of its colour, is left out.
  const painted = (before, codes) => {
    let look = { ...before };
    const given = codes.split(/[;:]/).map(Number);
    for (let at = 0; at < given.length; at++) {
      const code = given[at];
      if (code === 0) look = {};
      else if (code === 38 || code === 48) {
        const [kind, colour] = given.slice(at + 1);
        if (code === 38) look.colour = kind === 5 && colour < 16 ? colour : undefined;
        at += kind === 5 ? 2 : 4;
      } else if (code >= 30 && code <= 37) look.colour = code - 30;
      else if (code >= 90 && code <= 97) look.colour = code - 82;
      else if (code === 39) look.colour = undefined;
      else if (code === 22) look.bold = false;
      else if ([1, 3, 4, 23, 24].includes(code)) look[{ 1: "bold", 3: "italic", 4: "underlined" }[code % 20]] = code < 20;
    }
    return look;
  };

  // A line as [text, class], and the look that the next one begins with.
  const pieces = (text, look) => {
    const found = [];
    let at = 0;
    const add = (until) => {
      const names = [look.colour === undefined ? "" : `ansi-${look.colour % 8}`, look.bold && "bold", look.italic && "italic", look.underlined && "underlined"];
      if (until > at) found.push([text.slice(at, until), names.filter(Boolean).join(" ")]);
    };
    for (const one of text.matchAll(SGR)) {
      add(one.index);
      at = one.index + one[0].length;
      look = painted(look, one[1]);
    }
    add(text.length);
    return [found, look];
  };

  // `excerpt`: {lines, parts}. `trial`: {lines, exception}. `wanted`: a line that the address names, or 0.
  // `on(line)`: a line was chosen, by a click on its number or by the search, which needs no pointer.
  const logView = (excerpt, trial, { wanted, on, label }) => {
    const texts = new Map();
    // The number of a line of the log's file in the whole output, of which the file may lack parts.
    const whole = (line) => line + (excerpt.cuts.findLast(([cut]) => cut < line) || [0, 0])[1];
    for (const [first, text] of excerpt.parts) {
      let look = {}, found;
      text.split("\n").forEach((line, at) => {
        [found, look] = pieces(line, look);
        texts.set(first + at, found);
      });
    }
    const said = (line) => texts.get(line).map(([text]) => text).join("");
    const judged = new Set(trial.lines);
    const seen = trial.exception;
    const inTraceback = (line) => seen && line >= seen.line && line <= seen.end_line;
    const box = h("div", { class: "log", role: "region", "aria-label": label, tabindex: "0" });
    box.style.setProperty("--digits", String(whole(excerpt.lines)).length);
    let open = [];
    let chosen = wanted;

    const unfold = (from, until) => {
      const all = [...open, [Math.max(1, from), Math.min(excerpt.lines, until)]].sort((one, other) => one[0] - other[0]);
      open = [];
      for (const [start, end] of all) {
        const last = open.at(-1);
        if (last && start <= last[1] + 1) last[1] = Math.max(last[1], end);
        else open.push([start, end]);
      }
    };

    const begin = () => {
      const interesting = [...judged];
      if (seen) for (let line = seen.line; line <= seen.end_line; line++) interesting.push(line);
      if (wanted) interesting.push(wanted);
      if (excerpt.lines <= WHOLE) unfold(1, excerpt.lines);
      else if (!interesting.length) unfold(excerpt.lines - WHOLE / 2, excerpt.lines);
      else for (const line of interesting) unfold(line - CONTEXT, line + CONTEXT);
    };

    // The characters of a line from one on until another, as elements.
    const part = (number, from, until) => {
      let at = 0;
      return texts.get(number).flatMap(([text, look]) => {
        const some = text.slice(Math.max(0, from - at), Math.max(0, until - at));
        at += text.length;
        return some ? [look ? h("span", { class: look }, some) : some] : [];
      });
    };

    const lineOf = (number) => {
      const size = texts.get(number).reduce((sum, [text]) => sum + text.length, 0);
      const body = h(judged.has(number) ? "mark" : "span", { class: "text" }, part(number, 0, CUT));
      let shown = CUT;
      const row = h("div", { class: `l${inTraceback(number) ? " tb" : ""}${judged.has(number) ? " hit" : ""}${number === chosen ? " chosen" : ""}`, data: { line: number } },
        h("span", { class: "no" }, String(whole(number))), body);
      if (size > shown) {
        const button = h("button", { type: "button", class: "tool rest" }, `${(size - shown).toLocaleString("en")} more characters`);
        button.addEventListener("click", () => {
          body.append(h("span", null, part(number, shown, shown + FURTHER)));
          shown += FURTHER;
          if (shown >= size) button.remove();
          else button.textContent = `${(size - shown).toLocaleString("en")} more characters`;
        });
        row.append(button);
      }
      return row;
    };

    const gap = (from, until) => {
      let here = 0;
      for (let line = from; line <= until && here < 1; line++) here += texts.has(line);
      const count = until - from + 1;
      const words = `${count.toLocaleString("en")} line${count === 1 ? "" : "s"}`;
      if (!here) return h("div", { class: "gap" }, `${words} not in this page`);
      const button = (text, said, start, end) => h("button", { type: "button", class: "tool", "aria-label": said, on: { click: () => { unfold(start, end); draw(); box.focus({ preventScroll: true }); } } }, text);
      return h("div", { class: "gap" },
        from > 1 && count > STEP ? button(`↓ ${STEP}`, `Show ${STEP} lines below line ${whole(from - 1)}`, from, from + STEP - 1) : null,
        button(words, `Show the ${words} from ${whole(from)} to ${whole(until)}`, from, until),
        until < excerpt.lines && count > STEP ? button(`↑ ${STEP}`, `Show ${STEP} lines above line ${whole(until + 1)}`, until - STEP + 1, until) : null);
    };

    const find = (line) => box.querySelector(`[data-line="${line}"] .no`);

    const draw = () => {
      const content = [];
      let before = 0;
      let missing = 0; // the first of a run of lines that this page does not have
      for (const [from, until] of [...open, [excerpt.lines + 1, excerpt.lines]]) {
        if (from > before + 1) content.push(gap(before + 1, from - 1));
        let block = null;
        for (let line = from; line <= until; line++) {
          if (!texts.has(line)) { missing = missing || line; block = null; }
          else {
            if (missing) content.push(gap(missing, line - 1));
            missing = 0;
            if (!block || block.childElementCount >= BLOCK) content.push(block = h("div", { class: "lines" }));
            block.append(lineOf(line));
          }
        }
        if (missing) content.push(gap(missing, until));
        missing = 0;
        before = until;
      }
      box.replaceChildren(...content);
    };

    const choose = (line) => {
      chosen = line;
      for (const one of box.querySelectorAll(".chosen")) one.classList.remove("chosen");
      const row = find(line);
      if (row) row.parentElement.classList.add("chosen");
    };

    const into = (line) => {
      const row = find(line);
      if (row) box.scrollTop = row.offsetTop - box.clientHeight / 3;
    };

    // The next line, or the one before, that has these words; what is said of it. `keep`: it is chosen.
    let asked = "", hits = [], current = -1;
    const search = (query, by, keep) => {
      const wanted = query.toLowerCase();
      if (wanted !== asked) {
        asked = wanted;
        hits = wanted ? [...texts.keys()].filter((line) => said(line).toLowerCase().includes(wanted)) : [];
        current = by < 0 ? 0 : -1;
      }
      if (!hits.length) return wanted ? "not found" : "";
      current = (current + by + hits.length) % hits.length;
      unfold(hits[current] - CONTEXT, hits[current] + CONTEXT);
      draw();
      choose(hits[current]);
      into(hits[current]);
      if (keep) on(hits[current]);
      return `${current + 1} of ${hits.length}`;
    };

    box.addEventListener("click", (event) => {
      const number = event.target.closest(".no");
      if (!number) return;
      const line = Number(number.parentElement.dataset.line);
      choose(line);
      on(line);
    });

    begin();
    draw();
    if (!excerpt.lines) box.append(h("p", { class: "dim" }, "(no output)"));
    const text = excerpt.parts.map((one) => one[1]).join("\n");
    const language = reprokit.lang(text.slice(0, 50000));
    if (language) box.lang = language;
    const show = () => {
      if (wanted && find(wanted)) find(wanted).scrollIntoView({ block: "center" });
      else if (judged.size) into(Math.min(...judged));
    };
    return { node: box, lines: whole(excerpt.lines), show, search, text: text.replace(SGR, ""), all: () => { unfold(1, excerpt.lines); draw(); } };
  };

  reprokit.parts.logView = logView;
})();
