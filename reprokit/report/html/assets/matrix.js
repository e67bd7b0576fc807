// The matrix as a picture: a grid over two axes, in which arrow keys move; where several cells fall on one square, their mix.
"use strict";
(() => {
  const { h, KINDS, SURE, SHOWS, VERDICTS } = reprokit;
  const { many, verdictWords: words } = reprokit.parts;
  const TILES = 6, ON_PHONES = 3; // columns up to which squares have room for words
  const SMALL = 40; // columns or rows from which on squares are small
  const LISTED = 200;
  const FIRST = 2000, FURTHER = 1000; // squares that are made before the first paint, and between two frames after it
  const PAUSE = 80; // milliseconds that the first paint has for itself

  const glyph = (kind) => (kind === "not-run" ? "" : VERDICTS[kind].glyph);

  // Which cells fall on which square: values of the axes across and down, and the cells by square.
  const squares = (model, state) => {
    const values = (axis) => (axis ? [...axis.values.keys(), ...(axis.absent ? [-1] : [])] : [null]);
    const across = values(state.x), down = values(state.y);
    const column = new Map(across.map((value, at) => [value, at]));
    const row = new Map(down.map((value, at) => [value, at]));
    const cells = Array.from({ length: across.length * down.length }, () => []);
    for (const at of model.passing(state)) {
      const x = state.x ? column.get(state.x.at[at]) : 0, y = state.y ? row.get(state.y.at[at]) : 0;
      cells[y * across.length + x].push(at);
    }
    return { across, down, cells };
  };

  const name = (axis, value) => (axis ? (value < 0 ? "(absent)" : axis.words[value]) : "");

  // What a mix of cells says: in how many of those decided the failure showed, and what is beside them.
  const summary = (mix) => {
    const decided = SURE.reduce((sum, kind) => sum + (mix[kind] || 0), 0);
    const shows = SHOWS.reduce((sum, kind) => sum + (mix[kind] || 0), 0);
    const others = KINDS.filter((kind) => !SURE.includes(kind) && mix[kind]).map((kind) => `${mix[kind]} ${words(kind)}`);
    const said = decided ? [`${shows} of ${decided} reproduce${shows === 1 ? "s" : ""}`] : [];
    return { decided, shows, text: [...said, ...others, mix.departs ? `${mix.departs} not as expected` : ""].filter(Boolean).join(", ") };
  };

  // One square: the verdict of its one cell, or the mix of several, never one verdict for what has none.
  const draw = (model, cells, state, tiles, proto, labels) => {
    const element = proto.cloneNode(false);
    if (!cells.length) {
      element.className = "sq none";
      element.setAttribute("aria-label", "no cell");
      return element;
    }
    const faint = !cells.some((at) => model.shown(state, at));
    if (cells.length === 1) {
      const [at] = cells;
      const kind = model.kinds[at], fits = model.cells.fits[at];
      element.className = `sq v-${kind}${fits === 0 ? " off" : ""}${faint ? " faint" : ""}${SHOWS.includes(kind) ? " fails" : ""}`;
      const label = kind + fits;
      if (!labels.has(label)) labels.set(label, `${words(kind)}${fits === 0 ? ", not as expected" : ""}`);
      element.setAttribute("aria-label", labels.get(label));
      element.textContent = glyph(kind);
      if (tiles) element.append(h("span", { class: "said" }, words(kind)));
      return element;
    }
    const mix = model.mix(cells);
    const { decided, shows, text } = summary(mix);
    const kinds = KINDS.filter((kind) => mix[kind]);
    element.className = `sq mix${mix.departs ? " off" : ""}${faint ? " faint" : ""}${shows ? " fails" : ""}${kinds.length === 1 ? ` v-${kinds[0]}` : ""}`;
    element.setAttribute("aria-label", `${many(cells.length, "cell")}: ${text}`);
    if (kinds.length > 1) {
      let from = 0;
      const stops = kinds.map((kind) => {
        const start = from;
        from += (100 * mix[kind]) / cells.length;
        return `var(--v-${kind}) ${start.toFixed(1)}% ${from.toFixed(1)}%`;
      });
      element.style.background = `linear-gradient(90deg, ${stops.join(", ")})`;
    }
    const open = cells.length - decided; // whatever they are, they say nothing of the bug
    const short = decided ? `${shows}/${decided}` : `${glyph(kinds[0])}${cells.length}`;
    element.append(h("span", { class: "part-said" }, tiles ? (decided ? `${short} reproduce${open ? ` · ${open} ?` : ""}` : text) : short));
    return element;
  };

  // The grid. `open(cells, element)`: what Enter and a click do; `tell(cells, x, y, element)`: what hovering does, null: no more.
  const grid = (model, state, { open, tell }) => {
    const { across, down, cells } = squares(model, state);
    const room = window.innerWidth < 640 ? ON_PHONES : TILES;
    const size = across.length <= room && down.length <= SMALL ? "tiles" : Math.max(across.length, down.length) < SMALL ? "medium" : "small";
    const labels = new Map();
    const proto = document.createElement("span");
    proto.setAttribute("role", "gridcell");
    const longest = Math.max(...across.map((value) => name(state.x, value).length));
    const slanted = size === "small" ? longest > 2 : size === "medium" && longest > 4;
    const head = state.x && h("div", { role: "row", class: "row head" },
      h("span", { role: "columnheader", class: "corner" }, corner(state)),
      across.map((value) => h("span", { role: "columnheader", class: "col" }, h("span", null, name(state.x, value)))));
    const body = [];
    const make = () => {
      const y = body.length, value = down[y];
      const row = h("div", { role: "row", class: "row" }, h("span", { role: "rowheader", class: "side" }, state.y ? name(state.y, value) : h("span", { class: "hidden" }, "all")));
      for (let x = 0; x < across.length; x++) {
        row.append(draw(model, cells[y * across.length + x], state, size === "tiles", proto, labels));
      }
      body.push(row);
      element.append(row);
    };
    const fill = (until) => { while (body.length < Math.min(until, down.length)) make(); };
    const rest = () => {
      fill(body.length + Math.ceil(FURTHER / across.length));
      if (body.length < down.length && element.isConnected) setTimeout(rest);
    };
    const element = h("div", { role: "grid", class: `grid ${size}${slanted ? " slanted" : ""}${state.x ? "" : " alone"}`, "aria-label": title(state), "aria-readonly": "true", "aria-rowcount": down.length + (state.x ? 1 : 0), "aria-colcount": across.length + 1 }, head);
    fill(Math.ceil(FIRST / across.length));
    setTimeout(rest, PAUSE);
    element.style.setProperty("--columns", across.length);
    const most = String(Math.max(...cells.map((some) => some.length))).length;
    if (most > 1) element.style.setProperty("--mixed", `${13 * most + 16}px`); // room for 10/10
    element.style.setProperty("--side", `${Math.min(22, Math.max(5, ...down.map((value) => name(state.y, value).length), (state.y ? state.y.label.length : 0) + 2)) + 2}ch`);
    element.style.setProperty("--head", `${Math.min(20, longest) + 2}ch`);

    const square = (x, y) => {
      fill(y + 1);
      return body[y].children[x + 1];
    };
    const place = (target) => {
      const found = target.closest(".sq");
      if (!found) return null;
      return { x: [...found.parentElement.children].indexOf(found) - 1, y: body.indexOf(found.parentElement), found };
    };
    let current = square(0, 0);
    current.tabIndex = 0;
    const focus = (x, y) => {
      current.removeAttribute("tabindex");
      current = square(x, y);
      current.tabIndex = 0;
      current.focus();
      current.scrollIntoView({ block: "nearest", inline: "nearest" });
    };
    const at = (x, y) => cells[y * across.length + x];
    element.addEventListener("click", (event) => {
      const here = place(event.target);
      if (here) open(at(here.x, here.y), here.found, event);
    });
    element.addEventListener("auxclick", (event) => {
      const here = event.button === 1 && place(event.target);
      if (here) open(at(here.x, here.y), here.found, event);
    });
    for (const [kind, leave] of [["mouseover", "mouseleave"], ["focusin", "focusout"]]) {
      element.addEventListener(kind, (event) => {
        const here = place(event.target);
        if (here) tell(at(here.x, here.y), name(state.x, across[here.x]), name(state.y, down[here.y]), here.found);
        else tell(null);
      });
      element.addEventListener(leave, () => tell(null));
    }
    element.addEventListener("keydown", (event) => {
      const here = place(event.target);
      if (!here || event.altKey || event.metaKey) return;
      const last = { x: across.length - 1, y: down.length - 1 };
      const whole = event.ctrlKey;
      const moves = {
        ArrowRight: [here.x + 1, here.y], ArrowLeft: [here.x - 1, here.y], ArrowDown: [here.x, here.y + 1], ArrowUp: [here.x, here.y - 1],
        Home: [0, whole ? 0 : here.y], End: [last.x, whole ? last.y : here.y], PageDown: [here.x, here.y + 10], PageUp: [here.x, here.y - 10],
      };
      if (event.key in moves) {
        const [x, y] = moves[event.key];
        focus(Math.max(0, Math.min(last.x, x)), Math.max(0, Math.min(last.y, y)));
      } else if (event.key === "Enter" || event.key === " ") open(at(here.x, here.y), here.found, event);
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    return element;
  };

  const title = (state) => ["Cells", state.x && `${state.x.label} across`, state.y && `${state.y.label} down`].filter(Boolean).join(", ");
  const corner = (state) => [state.y && h("span", { class: "down" }, `${state.y.label} ↓`), state.x && h("span", { class: "across" }, `${state.x.label} →`)];

  // What the cells of one square are, beside the pointer or the focus.
  const tooltip = () => {
    const box = h("div", { class: "tip", role: "presentation", hidden: true });
    const show = (model, state, cells, x, y, target) => {
      if (!cells) { box.hidden = true; return; }
      const lines = [h("strong", null, [state.x && `${state.x.label} ${x}`, state.y && `${state.y.label} ${y}`].filter(Boolean).join(" · ") || "the only cell")];
      if (!cells.length) lines.push(h("span", null, "no such cell in the matrix"));
      else if (cells.length === 1) lines.push(...single(model, cells[0]));
      else lines.push(h("span", null, summary(model.mix(cells)).text), h("span", { class: "dim" }, `${many(cells.length, "cell")} here: Enter lists them`));
      box.replaceChildren(...lines);
      box.hidden = false;
      const area = target.getBoundingClientRect();
      const left = Math.max(8, Math.min(area.left, document.documentElement.clientWidth - box.offsetWidth - 8));
      const below = area.bottom + 6 + box.offsetHeight < window.innerHeight;
      box.style.left = `${left}px`;
      box.style.top = `${below ? area.bottom + 6 : Math.max(8, area.top - box.offsetHeight - 6)}px`;
    };
    return { box, show };
  };

  const single = (model, at) => {
    const fits = model.fits(at), kind = model.kinds[at];
    if (kind === "not-run") return [h("span", null, model.data.states[model.cells.state[at]] || "in the matrix, not run")];
    const expected = model.cells.expected[at];
    const reason = model.data.reasons[model.cells.reason[at]] || "";
    const state = model.data.states[model.cells.state[at]];
    return [
      h("span", null, reprokit.badge(kind, fits), fits === false ? ` expected: ${words(reprokit.overview.verdicts[expected])}` : fits ? " as expected" : ""),
      state && h("span", null, state),
      reason && h("span", { class: "dim" }, reason.length > 240 ? `${reason.slice(0, 240)} …` : reason),
    ].filter(Boolean);
  };

  // The cells of one square, as links.
  const list = (model, state, cells, close) => {
    const rest = model.telling.filter((axis) => axis !== state.x && axis !== state.y && !state.is.has(axis));
    const at = cells[0];
    const where = [state.x, state.y].filter(Boolean).map((axis) => `${axis.label} ${model.value(axis, at)}`).join(", ");
    const items = cells.slice(0, LISTED).map((one) => {
      const to = model.href(one), text = model.name(one, rest);
      return h("li", null, reprokit.badge(model.kinds[one] === "not-run" ? "undecided" : model.kinds[one], model.fits(one)), " ", to ? h("a", { href: to }, text) : text);
    });
    return h("div", { class: "listed", role: "group", "aria-label": `${many(cells.length, "cell")} of ${where}` },
      h("div", { class: "row-of" }, h("strong", null, `${many(cells.length, "cell")} of ${where}`), h("button", { class: "tool", type: "button", on: { click: close } }, "Close")),
      h("ul", null, items),
      cells.length > LISTED && h("p", { class: "dim" }, `and ${cells.length - LISTED} more: filter by another axis to see them`));
  };

  Object.assign(reprokit.parts, { grid, tooltip, list, summary, verdictGlyph: glyph });
})();
