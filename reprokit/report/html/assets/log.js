// A log: what was judged and the lines around it, the rest folded; lines can be named in the address.
"use strict";
(() => {
  const { h, visible } = reprokit;
  const CONTEXT = 8; // lines around what was judged
  const WHOLE = 60; // lines up to which nothing is folded
  const STEP = 40; // lines that a click unfolds
  const CUT = 2000, FURTHER = 20000; // characters of a line that are shown, and that a click adds
  const BLOCK = 200; // lines that are laid out together once they come into view

  // `excerpt`: {lines, parts}. `trial`: {lines, exception}. `wanted`: a line that the address names, or 0.
  // `to(line)`: the address that names a line; `on(line)`: a line was chosen.
  const logView = (excerpt, trial, { wanted, to, on, label }) => {
    const texts = new Map();
    // The number of a line of the log's file in the whole output, of which the file may lack parts.
    const whole = (line) => line + (excerpt.cuts.findLast(([cut]) => cut < line) || [0, 0])[1];
    for (const [first, text] of excerpt.parts) text.split("\n").forEach((line, at) => texts.set(first + at, line));
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

    const lineOf = (number) => {
      const text = texts.get(number);
      const body = h(judged.has(number) ? "mark" : "span", { class: "text" }, text.slice(0, CUT));
      let shown = CUT;
      const row = h("div", { class: `l${inTraceback(number) ? " tb" : ""}${judged.has(number) ? " hit" : ""}${number === chosen ? " chosen" : ""}`, data: { line: number } },
        h("a", { class: "no", href: to(number), "aria-label": `Line ${whole(number)}${judged.has(number) ? ", matched" : ""}` }, String(whole(number))), body);
      if (text.length > shown) {
        const button = h("button", { type: "button", class: "tool rest" }, `${(text.length - shown).toLocaleString("en")} more characters`);
        button.addEventListener("click", () => {
          body.append(visible(text.slice(shown, shown + FURTHER)));
          shown += FURTHER;
          if (shown >= text.length) button.remove();
          else button.textContent = `${(text.length - shown).toLocaleString("en")} more characters`;
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
      const button = (text, said, start, end) => h("button", { type: "button", class: "tool", "aria-label": said, on: { click: () => { unfold(start, end); draw(); (find(start) || box).focus({ preventScroll: true }); } } }, text);
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

    box.addEventListener("click", (event) => {
      const number = event.target.closest(".no");
      if (!number || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      const line = Number(number.parentElement.dataset.line);
      choose(line);
      on(line);
    });

    begin();
    draw();
    if (!excerpt.lines) box.append(h("p", { class: "dim" }, "(no output)"));
    const text = excerpt.parts.map((part) => part[1]).join("\n");
    const language = reprokit.lang(text.slice(0, 50000));
    if (language) box.lang = language;
    const show = () => {
      const row = wanted ? find(wanted) : box.querySelector(".hit .no");
      if (!row) return;
      if (wanted) row.scrollIntoView({ block: "center" });
      else box.scrollTop = row.offsetTop - box.clientHeight / 3;
    };
    return { node: box, lines: whole(excerpt.lines), show, all: () => { unfold(1, excerpt.lines); draw(); } };
  };

  reprokit.parts.logView = logView;
})();
