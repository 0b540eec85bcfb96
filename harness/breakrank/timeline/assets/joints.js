// What joins lanes: collectives and messages, who waits for whom, the accesses of a finding; then marks, turns and heat.

const IMPORTANCE = ["strike", "exit", "report", "crash", "raised"];

Object.assign(Chart.prototype, {
  // A thin line joins members that agree; a thick dashed one with ≠ those that differ.
  paintMeetings() {
    const { model } = this;
    const seen = new Set();
    for (let lane = 0; lane < model.lanes.length && seen.size <= MOST_LINES; lane++) {
      for (let n = model.firstOf[lane]; n < model.firstOf[lane + 1]; n++) {
        if (this.from[n] > this.view.to || seen.size > MOST_LINES) break;
        if (model.meet[n] >= 0 && this.to[n] >= this.view.from) seen.add(model.meet[n]);
      }
    }
    const few = seen.size <= Math.max(60, this.width / 6) && seen.size * model.lanes.length < MOST_LINES;
    for (const meeting of seen) {
      const differs = Boolean(model.meetings.differs[meeting]);
      if (few || differs) this.paintMeeting(meeting, differs);
    }
    for (const n of Object.keys(model.waits)) this.paintWait(Number(n));
    if (!few) for (const meeting of Object.keys(model.meetings.differs)) this.paintMeeting(Number(meeting), true);
  },

  paintMeeting(meeting, differs) {
    const { pen, model } = this;
    const members = model.membersOf(meeting);
    pen.strokeStyle = differs ? this.colour.bad : this.colour.line;
    pen.lineWidth = differs ? 2.5 : 1;
    pen.setLineDash(differs ? [6, 4] : []);
    for (let n = 1; n < members.length; n++) {
      const [one, other] = [members[n - 1], members[n]];
      const [upper, lower] = [this.places[model.lane[one]], this.places[model.lane[other]]];
      const [x1, y1] = [this.x(this.from[one]) + 1, upper.call + upper.rows.call];
      const [x2, y2] = [this.x(this.from[other]) + 1, lower.call];
      pen.beginPath();
      pen.moveTo(x1, y1);
      pen.lineTo(x2, y2);
      pen.stroke();
      if (differs && n === 1) this.notEqual((x1 + x2) / 2, (y1 + y2) / 2, meeting);
    }
    pen.setLineDash([]);
  },

  notEqual(x, y, meeting) {
    const words = this.model.meetings.differs[meeting].split(":")[0];
    const text = this.places[0].rows.step ? `≠ ${words}` : "≠";
    this.wanted.push({ text, x: x - 9, y: y - 9, wide: 9 * text.length, high: 18, weight: 2e6, kind: "differs" });
  },

  // An arrow leads from a call that never completed to the lane that it waits for.
  paintWait(n) {
    const { pen, model } = this;
    const lane = model.lanes[model.lane[n]];
    const peers = model.waits[n];
    if (peers.length > 4 || this.to[n] < this.view.from || this.from[n] > this.view.to) return;
    const [left, right] = [Math.max(GUTTER, this.x(this.from[n])), Math.min(GUTTER + this.width, this.x(this.to[n]))];
    for (const peer of peers) {
      const goal = model.lanes.findIndex((one) => one.attempt === lane.attempt && one.rank === peer && one.thread === "main");
      if (goal < 0) continue;
      const down = goal > lane.index;
      const [own, its] = [this.places[lane.index], this.places[goal]];
      const x = right - Math.min((right - left) * 0.6, down ? 215 : 190);
      const y1 = down ? own.call + own.rows.call : own.call;
      const y2 = down ? its.call - 2 : its.call + its.rows.call + 2;
      pen.strokeStyle = pen.fillStyle = this.colour.bad;
      pen.lineWidth = 2;
      pen.beginPath();
      pen.moveTo(x, y1);
      pen.lineTo(x, y2);
      pen.stroke();
      const tip = down ? -8 : 8;
      pen.beginPath();
      pen.moveTo(x, y2);
      pen.lineTo(x - 5, y2 + tip);
      pen.lineTo(x + 5, y2 + tip);
      pen.fill();
    }
  },

  paintMarks() {
    const { model, pen } = this;
    const shown = [];
    for (let n = 0; n < model.markCount; n++) {
      if (this.at[n] < this.view.from || this.at[n] > this.view.to) continue;
      const kind = model.markTypes[model.markType[n]].kind;
      if (kind === "access" || kind === "sync" || kind === "turn") this.paintTick(n, kind);
      else shown.push(n);
    }
    const order = (n) => {
      const { kind, name } = model.markTypes[model.markType[n]];
      const at = IMPORTANCE.indexOf(kind);
      // Output is placed last: a chatty rank would leave no room for anything else.
      if (kind === "output") return IMPORTANCE.length + 1;
      return at < 0 || name.endsWith(" armed") ? IMPORTANCE.length : at;
    };
    shown.sort((one, other) => order(one) - order(other) || one - other);
    const taken = new Map();
    for (const n of shown.slice(0, 4000)) {
      const type = model.markTypes[model.markType[n]];
      const place = this.places[model.markLane[n]];
      const x = this.x(this.at[n]);
      pen.fillStyle = type.kind === "strike" ? this.colour.strike : this.colour.text;
      pen.fillRect(x - 1, place.phase - 2, 2, place.mark - place.phase + (place.rows.mark ? 6 : 0));
      if (place.rows.mark) this.markLabel(n, type, x, place, taken);
    }
  },

  markLabel(n, type, x, place, taken) {
    const sign = { strike: "⚡ ", exit: "■ ", report: "✗ ", raised: "! ", crash: "✗ ", output: "› " }[type.kind] || "";
    const text = sign + type.name;
    const wide = 7 * text.length + 8;
    const left = x + wide > GUTTER + this.width ? x - wide : x + 3;
    // Labels of one lane have two rows; one that fits into neither is left to the hover.
    for (let row = 0; row < (place.rows.mark > 20 ? 2 : 1); row++) {
      const key = `${this.model.markLane[n]}/${row}`;
      const spans = taken.get(key) || [];
      if (spans.some(([from, to]) => left < to && left + wide > from)) continue;
      taken.set(key, [...spans, [left, left + wide]]);
      const y = place.mark + 1 + 14 * row;
      this.wanted.push({ text, x: left, y, wide, high: 14, weight: 1e5, kind: `mark ${type.kind}` });
      return;
    }
  },

  // A read is a low tick, a write a high one.
  paintTick(n, kind) {
    const place = this.places[this.model.markLane[n]];
    const writes = kind === "access" && !this.model.markTypes[this.model.markType[n]].name.startsWith("reads");
    const high = place.rows.call * (kind !== "access" ? 0.25 : writes ? 1 : 0.5);
    this.pen.fillStyle = writes ? this.colour.strike : this.colour.message;
    this.pen.fillRect(this.x(this.at[n]) - 1, place.call + place.rows.call - high, 2, high);
  },

  paintTurns() {
    const { model, pen } = this;
    for (let n = 0; n < model.markCount; n++) {
      const turn = model.turn[n];
      if (turn < 0 || turn + 1 < this.view.from || turn > this.view.to) continue;
      const type = model.markTypes[model.markType[n]];
      const place = this.places[model.markLane[n]];
      const [left, right] = [this.x(turn) + 1, this.x(turn + 1) - 1];
      const reads = type.name.startsWith("reads");
      const access = type.kind === "access";
      pen.fillStyle = pen.strokeStyle = access ? (reads ? this.colour.message : this.colour.strike) : this.colour.other;
      pen.lineWidth = 1.5;
      const wide = Math.max(1, right - left);
      if (access && !reads) pen.globalAlpha = 0.35;
      if (access && reads) pen.strokeRect(left + 1, place.call + 1, Math.max(1, wide - 2), place.rows.call - 2);
      else pen.fillRect(left, place.call + (access ? 0 : 8), wide, access ? place.rows.call : place.rows.call - 16);
      pen.globalAlpha = 1;
      this.drawn.bars++;
      if (access && wide > 40) {
        this.wanted.push({ text: type.name, x: left, y: place.call, wide, high: place.rows.call, weight: wide, kind: "turn" });
      }
    }
  },

  // The two accesses of a finding that nothing orders.
  paintLinks() {
    const { model, pen } = this;
    for (const link of model.links) {
      const [one, other] = [link.one, link.other].map((n) => {
        const place = this.places[model.markLane[n]];
        const x = this.axis === "turn" ? this.x(model.turn[n] + 0.5) : this.x(this.at[n]);
        return { x, y: place.call + place.rows.call / 2, high: place.rows.call, turn: model.turn[n], top: place.call };
      });
      if (this.axis === "turn" && (one.turn < 0 || other.turn < 0)) continue;
      pen.strokeStyle = this.colour.bad;
      pen.lineWidth = 2.5;
      for (const end of [one, other]) {
        const half = this.axis === "turn" ? Math.max(3, (this.width / (this.view.to - this.view.from)) / 2 - 1) : 4;
        pen.strokeRect(end.x - half, end.top - 1, 2 * half, end.high + 2);
      }
      pen.setLineDash([6, 4]);
      pen.beginPath();
      pen.moveTo(one.x, one.y + (other.y > one.y ? one.high / 2 : -one.high / 2));
      pen.lineTo(other.x, other.y + (other.y > one.y ? -other.high / 2 : other.high / 2));
      pen.stroke();
      pen.setLineDash([]);
      const text = "≠ not ordered";
      this.wanted.push({ text, x: (one.x + other.x) / 2 - 45, y: (one.y + other.y) / 2 - 9, wide: 110, high: 18, weight: 2e6, kind: "differs" });
    }
  },

  paintHeat() {
    const { model, pen } = this;
    if (!model.heat) return;
    const { top, bottom } = this.heatPlace;
    const count = model.heat.running.length;
    const high = (bottom - top) / Math.max(1, model.heat.ranks);
    for (const [values, colour, alpha] of [[model.heat.running, this.colour.other, 0.35], [model.heat.calling, this.colour.collective, 0.9]]) {
      pen.fillStyle = colour;
      pen.globalAlpha = alpha;
      values.forEach((value, n) => {
        const left = this.x(this.scale.place((model.last * n) / count));
        const right = this.x(this.scale.place((model.last * (n + 1)) / count));
        pen.fillRect(left, bottom - value * high, Math.max(1, right - left), value * high);
      });
    }
    pen.globalAlpha = 1;
  },

  placeLabels() {
    this.wanted.sort((one, other) => other.weight - one.weight);
    const made = this.wanted.slice(0, MOST_LABELS).map((one) => {
      const label = element("span", one.kind || "call", one.text);
      const left = Math.max(one.x, GUTTER);
      if (one.high < 12) label.classList.add("small");
      label.style.left = `${left}px`;
      label.style.top = `${one.y}px`;
      if (one.kind !== "differs") label.style.width = `${Math.max(0, one.x + one.wide - left)}px`;
      label.style.height = label.style.lineHeight = `${one.high}px`;
      return label;
    });
    this.labels.replaceChildren(...made);
  },

  placeSpot() {
    this.spot.hidden = !this.focus;
    if (!this.focus) return;
    const { left, right, y, high } = this.boxOf(this.focus);
    this.spot.style.left = `${Math.max(GUTTER - 4, left)}px`;
    this.spot.style.top = `${y - 2}px`;
    this.spot.style.width = `${Math.max(4, Math.min(right, GUTTER + this.width) - Math.max(GUTTER - 4, left))}px`;
    this.spot.style.height = `${high + 4}px`;
    this.spot.setAttribute("aria-label", this.words(this.focus));
    this.spot.classList.toggle("away", right < GUTTER || left > GUTTER + this.width);
  },

  boxOf({ bar, mark }) {
    const { model } = this;
    if (bar !== undefined) {
      const place = this.places[model.lane[bar]];
      const [y, high] = this.rowOf(model.types[model.type[bar]].kind, place);
      return { left: this.x(this.from[bar]), right: this.x(this.to[bar]), y, high };
    }
    const place = this.places[model.markLane[mark]];
    if (this.axis === "turn") {
      return { left: this.x(model.turn[mark]), right: this.x(model.turn[mark] + 1), y: place.call, high: place.rows.call };
    }
    return { left: this.x(this.at[mark]) - 3, right: this.x(this.at[mark]) + 3, y: place.phase, high: place.bottom - place.phase };
  },

  words({ bar, mark }) {
    return bar !== undefined ? barWords(this.model.bar(bar), this.attempts) : markWords(this.model.mark(mark), this.attempts);
  },
});
