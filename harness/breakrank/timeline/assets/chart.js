// The chart: lanes of bars on a canvas, with labels in the document.

const GUTTER = 172;
const ROWS = {
  roomy: { step: 12, phase: 17, call: 21, mark: 31, gap: 10 },
  middle: { step: 0, phase: 12, call: 14, mark: 13, gap: 6 },
  dense: { step: 0, phase: 7, call: 11, mark: 0, gap: 3 },
  thread: { step: 0, phase: 8, call: 12, mark: 0, gap: 4 },
  turns: { step: 0, phase: 0, call: 30, mark: 0, gap: 26 },
  manyTurns: { step: 0, phase: 0, call: 20, mark: 0, gap: 6 },
};
const MOST_LABELS = 400;
const MOST_LINES = 3000;
const PHASES = ["load", "forward", "backward", "optimize", "step", "save", "restore", "write", "start", "end"];

function element(name, className, text, parent) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

class Chart {
  constructor(root, model, { blamed = [] } = {}) {
    this.root = root;
    this.model = model;
    this.blamed = new Set(blamed);
    this.attempts = new Set(model.lanes.map((lane) => lane.attempt)).size;
    this.axis = "time";
    this.drawn = { bars: 0, merged: 0 };
    this.focus = null;
    this.axisBox = element("div", "axis", "", root);
    this.stage = element("div", "stage", "", root);
    this.stage.tabIndex = 0;
    this.stage.setAttribute("role", "application");
    this.stage.setAttribute("aria-label", "Lanes of the ranks. Arrows move between bars, + and - zoom, Enter shows one.");
    this.canvas = element("canvas", "", "", this.stage);
    this.names = element("div", "names", "", this.stage);
    this.labels = element("div", "labels", "", this.stage);
    this.spot = element("button", "focus", "", this.stage);
    this.spot.hidden = true;
    this.tip = element("div", "tip", "", root);
    this.tip.hidden = true;
    this.rescale(true);
    this.view = { from: 0, to: this.scale.size };
    this.measure();
    this.lay();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.stage);
  }

  rescale(broken) {
    this.broken = broken;
    this.scale = new Scale(this.model, broken);
    const place = (times) => Float64Array.from(times, (time) => this.scale.place(time));
    this.from = place(this.model.start);
    this.to = place(this.model.end);
    this.at = place(this.model.markTime);
  }

  get size() {
    return this.axis === "time" ? this.scale.size : this.model.lastTurn + 1;
  }

  setAxis(axis) {
    this.axis = axis;
    this.focus = null;
    this.view = { from: 0, to: this.size };
    this.lay();
    this.draw();
  }

  // Gives each lane its place; the lanes of each attempt are below a heading if there are several.
  lay() {
    const lanes = this.model.lanes;
    const rows = lanes.length <= 10 ? ROWS.roomy : lanes.length <= 28 ? ROWS.middle : ROWS.dense;
    const turns = lanes.length <= 10 ? ROWS.turns : ROWS.manyTurns;
    let y = 8;
    let attempt = null;
    this.places = [];
    this.headings = [];
    for (const lane of lanes) {
      if (this.attempts > 1 && lane.attempt !== attempt) {
        this.headings.push({ y: y + 2, text: `attempt ${lane.attempt}` });
        y += 22;
      }
      attempt = lane.attempt;
      const own = this.axis === "turn" ? turns : lane.thread === "main" ? rows : ROWS.thread;
      const phase = y + own.step;
      const call = phase + own.phase + (own.phase ? 2 : 0);
      const mark = call + own.call + 1;
      const bottom = mark + own.mark;
      this.places.push({ top: y, phase, call, mark, bottom, rows: own });
      y = bottom + own.gap;
    }
    if (this.model.heat && this.axis === "time") {
      this.heatPlace = { top: y + 4, bottom: y + 64 };
      y += 72;
    }
    this.height = y + 4;
    this.layNames();
  }

  layNames() {
    this.names.replaceChildren();
    for (const heading of this.headings) {
      element("h3", "", heading.text, this.names).style.top = `${heading.y}px`;
    }
    this.model.lanes.forEach((lane, n) => {
      const place = this.places[n];
      const blamed = this.blamed.has(lane.rank) && lane.thread === "main";
      const box = element("div", `name${blamed ? " blamed" : ""}${place.rows.call < 12 ? " small" : ""}`, "", this.names);
      box.style.top = `${place.top}px`;
      box.style.height = `${place.bottom - place.top}px`;
      element("b", "", lane.thread === "main" ? `rank ${lane.rank}` : `${lane.rank} · ${lane.thread}`, box);
      if (blamed) element("em", "", "⚑ blamed", box);
      if (lane.end && place.rows.call > 12 && this.axis === "time") element("span", "", lane.end, box);
      box.title = `${laneName(lane, this.attempts)}${lane.end ? `: ${lane.end}` : ""}`;
    });
    if (this.heatPlace && this.axis === "time") {
      const box = element("div", "name", "", this.names);
      box.style.top = `${this.heatPlace.top}px`;
      element("b", "", `${this.model.heat.ranks} more ranks`, box);
      element("span", "", "filled: how many are in a call", box);
    }
  }

  x(place) {
    return GUTTER + ((place - this.view.from) / (this.view.to - this.view.from)) * this.width;
  }

  placeAt(x) {
    return this.view.from + ((x - GUTTER) / this.width) * (this.view.to - this.view.from);
  }

  // To ask the document for a width is slow, and each bar needs it.
  measure() {
    this.width = Math.max(60, this.stage.clientWidth - GUTTER - 8);
  }

  draw() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.paint();
    });
  }

  colours() {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(`--${name}`).trim();
    this.colour = Object.fromEntries(
      [...PHASES, "other", "collective", "message", "meeting", "bad", "strike", "line", "grid", "text", "back", "band"].map(
        (name) => [name, of(name)],
      ),
    );
  }

  paint() {
    const ratio = window.devicePixelRatio || 1;
    const [wide, high] = [this.stage.clientWidth, this.height];
    this.measure();
    this.stage.style.height = `${high}px`;
    this.canvas.width = Math.round(wide * ratio);
    this.canvas.height = Math.round(high * ratio);
    this.canvas.style.width = `${wide}px`;
    this.canvas.style.height = `${high}px`;
    const pen = (this.pen = this.canvas.getContext("2d"));
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.colours();
    this.drawn = { bars: 0, merged: 0 };
    this.wanted = [];
    pen.save();
    pen.beginPath();
    pen.rect(GUTTER, 0, this.width + 8, high);
    pen.clip();
    this.paintGrid();
    if (this.axis === "time") {
      this.model.lanes.forEach((_, lane) => this.paintLane(lane));
      this.paintMeetings();
      this.paintMarks();
      this.paintHeat();
    } else {
      this.paintTurns();
    }
    this.paintLinks();
    pen.restore();
    this.placeLabels();
    this.placeSpot();
    this.root.dispatchEvent(new CustomEvent("painted"));
  }

  paintGrid() {
    const { pen, view } = this;
    this.axisBox.replaceChildren();
    const [low, high] = this.axis === "time" ? [this.scale.time(view.from), this.scale.time(view.to)] : [view.from, view.to];
    const inside = this.axis === "time" ? this.scale.breaks.filter((gap) => gap.to > low && gap.from < high) : [];
    const cut = inside.reduce((sum, gap) => sum + Math.min(gap.to, high) - Math.max(gap.from, low), 0);
    const rough = Math.max((high - low - cut) / Math.max(2, this.width / 110), 1e-4);
    const unit = 10 ** Math.floor(Math.log10(rough));
    let step = [1, 2, 5, 10].map((n) => n * unit).find((n) => n >= rough);
    if (this.axis === "turn") step = Math.max(1, Math.round(step));
    pen.strokeStyle = this.colour.grid;
    pen.lineWidth = 1;
    for (let n = Math.ceil(low / step); n * step <= high && n - low / step < 400; n++) {
      const value = n * step;
      const gap = inside.find((one) => value >= one.from && value <= one.to);
      if (gap) {
        n = Math.max(n, Math.ceil(gap.to / step) - 1);
        continue;
      }
      const x = Math.round(this.x(this.axis === "time" ? this.scale.place(value) : value)) + 0.5;
      pen.beginPath();
      pen.moveTo(x, 0);
      pen.lineTo(x, this.height);
      pen.stroke();
      const text = this.axis === "turn" ? `turn ${value}` : tickWords(value, step);
      if (x < GUTTER + this.width - 40) element("span", "", text, this.axisBox).style.left = `${x + 3}px`;
    }
    for (const gap of inside) this.paintBreak(gap);
  }

  // A break of the scale is a band with a zigzag, and says how much time it stands for.
  paintBreak(gap) {
    const { pen } = this;
    const [left, right] = [this.x(this.scale.place(gap.from)), this.x(this.scale.place(gap.to))];
    pen.fillStyle = this.colour.band;
    pen.fillRect(left, 0, right - left, this.height);
    const note = element("span", "break", `… ${duration(gap.to - gap.from)} …`, this.axisBox);
    // In the middle of what is in view of it: a break may begin long before.
    const middle = (Math.max(left, GUTTER) + Math.min(right, GUTTER + this.width)) / 2;
    note.style.left = `${Math.min(Math.max(middle, GUTTER + 45), GUTTER + this.width - 45)}px`;
    note.title = "the scale is broken here: nothing begins or ends in this time";
  }

  rowOf(kind, place) {
    if (KINDS_OF_CALLS.has(kind)) return [place.call, place.rows.call];
    if (kind === "inner") return [place.phase + place.rows.phase / 2, place.rows.phase / 2];
    return [place.phase, place.rows.phase];
  }

  paintLane(lane) {
    const { model, pen } = this;
    const place = this.places[lane];
    const [from, to] = [model.firstOf[lane], model.firstOf[lane + 1]];
    this.paintSteps(lane, place);
    const runs = { phase: null, call: null };
    const special = [];
    for (let n = from; n < to; n++) {
      if (this.from[n] > this.view.to) break;
      if (this.to[n] < this.view.from) continue;
      const type = model.types[model.type[n]];
      const [left, right] = [this.x(this.from[n]), this.x(this.to[n])];
      if (type.kind === "strike" || type.ending === "never" || type.ending === "failed" || model.meetings.differs[model.meet[n]]) {
        special.push(n);
        continue;
      }
      const row = KINDS_OF_CALLS.has(type.kind) ? "call" : "phase";
      if (right - left < 1) {
        this.merge(runs, row, left, right, type, place);
        continue;
      }
      this.flush(runs, row, place);
      this.paintBar(n, type, left, right, place);
    }
    this.flush(runs, "phase", place);
    this.flush(runs, "call", place);
    for (const n of special) {
      const type = model.types[model.type[n]];
      const [left, right] = [this.x(this.from[n]), this.x(this.to[n])];
      if (type.kind === "strike") this.paintStrike(left, right, place);
      else this.paintBar(n, type, left, Math.max(right, left + 3), place);
    }
    pen.globalAlpha = 1;
  }

  // Bars of less than a pixel that touch each other are one rectangle, in the colour of the longest of them.
  merge(runs, row, left, right, type, place) {
    const run = runs[row];
    this.drawn.merged++;
    if (run && left <= run.right + 1) {
      run.right = Math.max(run.right, right);
      if (right - left > run.longest) [run.longest, run.type] = [right - left, type];
    } else {
      this.flush(runs, row, place);
      runs[row] = { left, right, longest: right - left, type };
    }
  }

  flush(runs, row, place) {
    const run = runs[row];
    if (!run) return;
    const [y, high] = this.rowOf(run.type.kind, place);
    this.pen.globalAlpha = 0.75;
    this.pen.fillStyle = this.colourOf(run.type);
    this.pen.fillRect(run.left, y, Math.max(1, run.right - run.left), high);
    this.pen.globalAlpha = 1;
    this.drawn.bars++;
    runs[row] = null;
  }

  colourOf(type) {
    if (KINDS_OF_CALLS.has(type.kind)) return this.colour[type.kind];
    return this.colour[PHASES.includes(type.name) ? type.name : "other"];
  }

  paintBar(n, type, left, right, place) {
    const { pen, model } = this;
    const [y, high] = this.rowOf(type.kind, place);
    const [x, wide] = [Math.max(left, GUTTER - 2), Math.min(right, GUTTER + this.width + 10) - Math.max(left, GUTTER - 2)];
    const bad = type.ending === "never" || type.ending === "failed";
    const differs = Boolean(model.meetings.differs[model.meet[n]]);
    pen.globalAlpha = type.ending === "never" ? 0.3 : type.kind === "left_out" ? 0.35 : type.ending === "unknown" ? 0.55 : 1;
    pen.fillStyle = type.ending === "never" ? this.colour.bad : this.colourOf(type);
    pen.fillRect(x, y, wide, high);
    pen.globalAlpha = 1;
    if (type.ending === "never") this.hatch(x, y, wide, high);
    if (bad || differs) {
      pen.strokeStyle = this.colour.bad;
      pen.lineWidth = 2;
      pen.setLineDash(type.ending === "failed" ? [] : [5, 3]);
      pen.strokeRect(x + 1, y + 1, Math.max(1, wide - 2), high - 2);
      pen.setLineDash([]);
    } else if (wide > 3) {
      pen.fillStyle = this.colour.back;
      pen.fillRect(x + wide - 1, y, 1, high);
    }
    if (type.ending === "failed" && high > 9) {
      pen.strokeStyle = this.colour.bad;
      pen.beginPath();
      pen.moveTo(right - 3, y + 2);
      pen.lineTo(right - 3 - high + 4, y + high - 2);
      pen.moveTo(right - 3 - high + 4, y + 2);
      pen.lineTo(right - 3, y + high - 2);
      pen.stroke();
    }
    this.drawn.bars++;
    if (wide > 24 && high > 10) this.label(n, type, x, y, wide, high);
  }

  hatch(x, y, wide, high) {
    const { pen } = this;
    pen.save();
    pen.beginPath();
    pen.rect(x, y, wide, high);
    pen.clip();
    pen.strokeStyle = this.colour.bad;
    pen.lineWidth = 1.5;
    pen.beginPath();
    for (let at = x - high - ((x - high) % 8); at < x + wide; at += 8) {
      pen.moveTo(at, y + high);
      pen.lineTo(at + high, y);
    }
    pen.stroke();
    pen.restore();
  }

  label(n, type, x, y, wide, high) {
    const { model } = this;
    const number = model.meet[n] >= 0 ? ` ${model.meetings.number[model.meet[n]]}` : "";
    const waits = this.model.waits[n];
    let text = `${type.name}${number}`;
    if (type.ending === "never") text += waits ? ` · waits for ${ranksNamed(waits)} · never completed` : KINDS_OF_CALLS.has(type.kind) ? " · never completed" : " · got no further";
    this.wanted.push({ text, x, y, wide, high, weight: type.ending === "never" ? 1e6 : wide, kind: type.ending === "never" ? "bad" : KINDS_OF_CALLS.has(type.kind) ? "call" : "phase" });
  }

  paintStrike(left, right, place) {
    const { pen } = this;
    pen.fillStyle = this.colour.strike;
    pen.globalAlpha = 0.16;
    pen.fillRect(left, place.top - 2, Math.max(2, right - left), place.bottom - place.top + 4);
    pen.globalAlpha = 1;
  }

  // Steps are a strip above the phases: each step from its first bar on to that of the next one.
  paintSteps(lane, place) {
    const { model, pen } = this;
    if (!place.rows.step) return;
    const [from, to] = [model.firstOf[lane], model.firstOf[lane + 1]];
    let begun = from;
    for (let n = from; n <= to; n++) {
      if (n < to && model.step[n] === model.step[begun]) continue;
      if (begun < to && model.step[begun] > 0) {
        const left = this.x(this.from[begun]);
        const right = n < to ? this.x(this.from[n]) : this.x(this.to[n - 1]);
        if (right > GUTTER && left < GUTTER + this.width && right - left > 2) {
          pen.fillStyle = this.colour.grid;
          if (model.step[begun] % 2) pen.fillRect(left, place.top, right - left, place.rows.step - 2);
          const [x, y] = [Math.max(left, GUTTER), place.top];
          const wide = Math.min(right, GUTTER + this.width) - x;
          if (wide > 30) this.wanted.push({ text: `step ${model.step[begun]}`, x, y, wide, high: 10, weight: 50, kind: "step" });
        }
      }
      begun = n;
    }
  }
}
