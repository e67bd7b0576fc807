// The cells of a case out of their columns: which pass the filters, which lie nearest, what the address says of them.
"use strict";
(() => {
  // In the order in which a mix is drawn. A verdict that is sure is a finding about the bug.
  const SURE = ["reproduced", "flaky", "different-failure", "not-reproduced"];
  const SHOWS = ["reproduced", "flaky"];
  const KINDS = [...SURE, ...Object.keys(reprokit.VERDICTS).filter((verdict) => !SURE.includes(verdict)), "not-run"];
  const RESERVED = new Set(["x", "y", "variant", "show", "view", "night", "__proto__"]);
  const { visible } = reprokit;
  const keyOf = (axis) => (RESERVED.has(axis) || axis.startsWith("axis.") ? "axis." + axis : axis);

  const position = (axis, cell) => (Object.hasOwn(cell, axis.name) ? axis.values.indexOf(cell[axis.name]) : -1);

  class Model {
    constructor(data) {
      this.data = data;
      this.cells = data.cells;
      this.count = data.cells.verdict.length;
      // `words`: the values as they are shown; `label`: the name.
      this.axes = data.axes.map((axis) => ({ ...axis, at: data.cells.at[axis.name], words: axis.values.map(visible), label: visible(axis.name) }));
      this.byName = new Map(this.axes.map((axis) => [axis.name, axis]));
      // A cell that some axis is missing in tells them apart as a value does.
      for (const axis of this.axes) axis.absent = axis.at.includes(-1);
      this.telling = this.axes.filter((axis) => axis.values.length + axis.absent > 1);
      this.common = this.axes.filter((axis) => axis.values.length + axis.absent === 1);
      this.hasFix = data.cells.variant.includes(1);
      // The verdict of each cell; "not-run" where the matrix has it and no run had.
      this.kinds = data.cells.verdict.map((verdict) => (verdict < 0 ? "not-run" : reprokit.overview.verdicts[verdict]));
    }

    // true: as the case expects; false: it departs; null: nothing was expected, or it is inconclusive.
    fits(at) {
      return [null, false, true][this.cells.fits[at] + 1];
    }

    value(axis, at) {
      return this.word(axis, axis.at[at]);
    }

    word(axis, value) {
      return value < 0 ? "(absent)" : axis.words[value];
    }

    name(at, axes = this.telling) {
      const named = axes.filter((axis) => axis.at[at] >= 0).map((axis) => axis.label + "=" + axis.words[axis.at[at]]);
      return named.join(" ") || "the only cell";
    }

    href(at) {
      if (!this.cells.page[at]) return null;
      return reprokit.parts.cellHref(this.data.id, this.data.runs[this.cells.run[at]].id, this.cells.number[at]);
    }

    // Whether the report has all of that cell of that run, rather than its verdict alone.
    hasPage(run, number) {
      const at = this.find(run, number);
      return this.data.whole.includes(run) || (at >= 0 && this.cells.page[at] === 1);
    }

    // The newest of the nights in which the verdict of a cell became another: {night, before, after}; null: in none.
    turn(at) {
      const letters = this.cells.strip[at].toUpperCase();
      let first = -1;
      for (let night = letters.length - 1; night >= 0; night--) {
        if (letters[night] === " ") continue;
        if (first >= 0 && letters[night] !== letters[first]) return { night: first, before: reprokit.kindOf(letters[night]), after: reprokit.kindOf(letters[first]) };
        first = night;
      }
      return null;
    }

    // What changed last comes first, then what departs, then what reproduces, then by the axes.
    pressing(cells, axes) {
      const rank = (at) => {
        const turn = this.turn(at);
        return turn ? -1 - turn.night : this.cells.fits[at] === 0 ? 0 : SHOWS.includes(this.kinds[at]) ? 1 : 2;
      };
      const ranks = new Map(cells.map((at) => [at, rank(at)]));
      const byAxes = (one, other) => axes.reduce((found, axis) => found || axis.at[one] - axis.at[other], 0);
      return [...cells].sort((one, other) => ranks.get(one) - ranks.get(other) || byAxes(one, other) || one - other);
    }

    find(run, number) {
      const position = this.data.runs.findIndex((one) => one.id === run);
      if (position < 0) return -1;
      for (let at = 0; at < this.count; at++) {
        if (this.cells.run[at] === position && this.cells.number[at] === number) return at;
      }
      return -1;
    }

    // The same combination in the other variant, or -1.
    locate(cell, variant) {
      const wanted = this.axes.map((axis) => position(axis, cell));
      for (let at = 0; at < this.count; at++) {
        if (this.cells.variant[at] === variant && this.axes.every((axis, i) => axis.at[at] === wanted[i])) return at;
      }
      return -1;
    }

    // The cells of the same variant with the least axes between, of which `wanted` holds.
    nearest(cell, variant, wanted) {
      const own = this.axes.map((axis) => position(axis, cell));
      let best = -1, least = Infinity;
      for (let at = 0; at < this.count; at++) {
        if (this.cells.variant[at] !== variant || !wanted(at)) continue;
        let apart = 0;
        for (let i = 0; i < own.length && apart < least; i++) {
          // Of two that differ in as many axes, the one whose values are next in order.
          if (this.axes[i].at[at] !== own[i]) apart += 1 + Math.min(Math.abs(this.axes[i].at[at] - own[i]), 999) / 1e6;
        }
        if (apart > 0 && apart < least) { least = apart; best = at; }
      }
      return best;
    }

    // The state of the page out of an address, with what it does not say filled in.
    state(query) {
      const [x, y] = this.#defaults();
      const named = (name) => this.telling.find((axis) => axis.name === name);
      const state = {
        x: named(query.x) || x || null,
        y: named(query.y) || y || null,
        variant: query.variant === "fix" && this.hasFix ? 1 : 0,
        show: query.show === "departs" || KINDS.includes(query.show) ? query.show : "",
        view: query.view === "table" ? "table" : "picture",
        is: new Map(),
      };
      if (state.x === state.y) state.y = this.telling.find((axis) => axis !== state.x) || null;
      for (const axis of this.telling) {
        const value = query[keyOf(axis.name)];
        const position = value === "" && axis.absent ? -1 : axis.values.indexOf(value);
        if (axis !== state.x && axis !== state.y && value !== undefined && (position >= 0 || value === "")) {
          state.is.set(axis, position);
        }
      }
      return state;
    }

    // What the address has to say of a state.
    query(state) {
      const [x, y] = this.#defaults();
      const query = {};
      if (state.x && (state.x !== x || state.y !== y)) query.x = state.x.name;
      if (state.y && (state.x !== x || state.y !== y)) query.y = state.y.name;
      if (state.variant) query.variant = "fix";
      if (state.show) query.show = state.show;
      if (state.view === "table") query.view = "table";
      for (const [axis, value] of state.is) query[keyOf(axis.name)] = value < 0 ? "" : axis.values[value];
      return query;
    }

    // The axes of the explanation, else those with most values; many values go down the page rather than across it.
    #defaults() {
      const named = (this.data.explanation ? this.data.explanation.axes : []).map((name) => this.byName.get(name));
      const bySize = [...this.telling].sort((one, other) => other.values.length - one.values.length);
      const [first, second] = [...new Set([...named.filter((axis) => this.telling.includes(axis)), ...bySize])];
      if (!second) return [first, null];
      const [few, more] = first.values.length <= second.values.length ? [first, second] : [second, first];
      return more.values.length > 12 && few.values.length < more.values.length ? [few, more] : [more, few];
    }

    // Positions of the cells that pass. `but`: an axis that is left out, to count its values.
    passing(state, but) {
      const filters = [...state.is].filter(([axis]) => axis !== but).map(([axis, value]) => [axis.at, value]);
      const found = [];
      const { variant } = this.cells;
      for (let at = 0; at < this.count; at++) {
        if (variant[at] === state.variant && filters.every(([values, value]) => values[at] === value)) found.push(at);
      }
      return found;
    }

    shown(state, at) {
      return !state.show || (state.show === "departs" ? this.cells.fits[at] === 0 : this.kinds[at] === state.show);
    }

    // How many of these cells there are of each kind; `departs` beside them.
    mix(cells) {
      const found = { departs: 0 };
      for (const at of cells) {
        found[this.kinds[at]] = (found[this.kinds[at]] || 0) + 1;
        if (this.cells.fits[at] === 0) found.departs += 1;
      }
      return found;
    }
  }

  Object.assign(reprokit, { Model, KINDS, SURE, SHOWS });
})();
