// The chart's input: wheel and keys zoom, drags move, arrows go from bar to bar, a click shows the event.

Object.assign(Chart.prototype, {
  listen() {
    const { stage } = this;
    stage.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    stage.addEventListener("pointerdown", (event) => this.press(event));
    stage.addEventListener("pointermove", (event) => this.move(event));
    stage.addEventListener("pointerup", (event) => this.release(event));
    stage.addEventListener("pointerleave", () => (this.tip.hidden = true));
    stage.addEventListener("dblclick", () => this.show(0, this.size));
    stage.addEventListener("keydown", (event) => this.key(event));
    this.spot.addEventListener("click", (event) => {
      event.stopPropagation();
      this.open(this.focus);
    });
  },

  show(from, to) {
    const least = this.axis === "time" ? 0.002 : 2;
    const wide = Math.min(this.size, Math.max(least, to - from));
    const left = Math.min(Math.max(0, from), this.size - wide);
    this.view = { from: left, to: left + wide };
    this.draw();
    this.root.dispatchEvent(new CustomEvent("moved"));
  },

  zoom(factor, place = (this.view.from + this.view.to) / 2) {
    this.show(place - (place - this.view.from) * factor, place + (this.view.to - place) * factor);
  },

  pan(share) {
    const by = (this.view.to - this.view.from) * share;
    this.show(this.view.from + by, this.view.to + by);
  },

  wheel(event) {
    // With Shift the wheel is left to the page, which may be longer than the window.
    if (event.shiftKey) return;
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan(event.deltaX / this.width);
    else this.zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 400))), this.placeAt(this.inside(event).x));
  },

  inside(event) {
    const box = this.stage.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  },

  press(event) {
    if (event.button !== 0 || event.target === this.spot) return;
    this.grip = { x: event.clientX, view: this.view, moved: false };
    this.stage.setPointerCapture(event.pointerId);
  },

  move(event) {
    if (this.grip) {
      const by = event.clientX - this.grip.x;
      this.grip.moved ||= Math.abs(by) > 3;
      const shift = (-by / this.width) * (this.grip.view.to - this.grip.view.from);
      if (this.grip.moved) this.show(this.grip.view.from + shift, this.grip.view.to + shift);
      return;
    }
    const found = event.target === this.spot ? this.focus : this.hit(this.inside(event));
    this.tip.hidden = !found;
    if (!found) return;
    this.tip.textContent = this.words(found);
    const box = this.root.getBoundingClientRect();
    const x = event.clientX - box.left;
    this.tip.style.left = `${Math.min(x + 14, box.width - Math.min(420, this.tip.offsetWidth) - 8)}px`;
    this.tip.style.top = `${event.clientY - box.top + 18}px`;
  },

  release(event) {
    const grip = this.grip;
    this.grip = null;
    if (!grip || grip.moved) return;
    const found = this.hit(this.inside(event));
    if (found) {
      this.focusOn(found, false);
      this.open(found);
    }
  },

  // What lies at a place of the stage: a bar, else a mark close by.
  hit({ x, y }) {
    if (x < GUTTER) return null;
    const lane = this.places.findIndex((place) => y >= place.top - 2 && y <= place.bottom + 2);
    if (lane < 0) return null;
    if (this.axis === "turn") return this.hitTurn(lane, this.placeAt(x));
    const { model } = this;
    let [best, least] = [null, 4];
    for (let n = 0; n < model.markCount; n++) {
      const away = Math.abs(this.x(this.at[n]) - x);
      if (model.markLane[n] === lane && away < least) [best, least] = [{ mark: n }, away];
    }
    const bar = this.hitBar(lane, x, y);
    if (bar !== null && !(best && y > this.places[lane].mark)) return { bar };
    return best;
  },

  hitBar(lane, x, y) {
    const { model } = this;
    let [found, widest] = [null, -1];
    for (let n = model.firstOf[lane]; n < model.firstOf[lane + 1]; n++) {
      const type = model.types[model.type[n]];
      const [left, right] = [this.x(this.from[n]), this.x(this.to[n])];
      if (left > x + 2) break;
      const [top, high] = this.rowOf(type.kind, this.places[lane]);
      if (right < x - 2 || y < top - 1 || y > top + high + 1 || type.kind === "strike") continue;
      const wide = right - left;
      // Of bars below a pixel the longest, else the one that began last, which lies on top.
      if (wide >= 2 || wide > widest) [found, widest] = [n, wide >= 2 ? -1 : wide];
    }
    return found;
  },

  hitTurn(lane, turn) {
    const { model } = this;
    for (let n = 0; n < model.markCount; n++) {
      if (model.markLane[n] === lane && model.turn[n] === Math.floor(turn)) return { mark: n };
    }
    return null;
  },

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const does = {
      "+": () => this.zoom(0.6),
      "=": () => this.zoom(0.6),
      "-": () => this.zoom(1 / 0.6),
      0: () => this.show(0, this.size),
      a: () => this.pan(-0.25),
      d: () => this.pan(0.25),
      n: () => this.nextOdd(1),
      p: () => this.nextOdd(-1),
      ArrowRight: () => this.step(1),
      ArrowLeft: () => this.step(-1),
      ArrowDown: () => this.change(1),
      ArrowUp: () => this.change(-1),
      Home: () => this.focusOn(this.axis === "time" && this.model.count ? { bar: 0 } : null),
      Enter: () => this.focus && this.open(this.focus),
      Escape: () => this.focusOn(null),
    }[event.key];
    if (!does) return;
    event.preventDefault();
    does();
  },

  // The items that arrows go through: bars on the axis of time, accesses on that of turns.
  items() {
    if (this.axis === "time") return Array.from({ length: this.model.count }, (_, n) => ({ bar: n }));
    const turns = [];
    for (let n = 0; n < this.model.markCount; n++) if (this.model.turn[n] >= 0) turns.push({ mark: n });
    return turns;
  },

  laneOf(item) {
    return item.bar !== undefined ? this.model.lane[item.bar] : this.model.markLane[item.mark];
  },

  middleOf(item) {
    if (item.bar !== undefined) return (this.from[item.bar] + this.to[item.bar]) / 2;
    return this.axis === "turn" ? this.model.turn[item.mark] + 0.5 : this.at[item.mark];
  },

  step(by) {
    const items = this.items();
    if (!this.focus) return this.focusOn(this.firstVisible(items));
    const now = items.findIndex((item) => item.bar === this.focus.bar && item.mark === this.focus.mark);
    const next = items[now + by];
    if (next && this.laneOf(next) === this.laneOf(this.focus)) this.focusOn(next);
  },

  firstVisible(items) {
    return items.find((item) => this.middleOf(item) >= this.view.from && this.middleOf(item) <= this.view.to) || items[0];
  },

  // To the closest item of the next lane that has any.
  change(by) {
    const items = this.items();
    if (!this.focus) return this.focusOn(this.firstVisible(items));
    const at = this.middleOf(this.focus);
    for (let lane = this.laneOf(this.focus) + by; lane >= 0 && lane < this.model.lanes.length; lane += by) {
      let best = null;
      for (const item of items) {
        if (this.laneOf(item) !== lane) continue;
        if (!best || Math.abs(this.middleOf(item) - at) < Math.abs(this.middleOf(best) - at)) best = item;
      }
      if (best) return this.focusOn(best);
    }
    return null;
  },

  // Through all that stands out: calls that never completed or differ, strikes, exceptions.
  nextOdd(by) {
    const { model } = this;
    const odd = [];
    for (let n = 0; n < model.count; n++) {
      const ending = model.types[model.type[n]].ending;
      if (ending === "never" || ending === "failed" || model.meetings.differs[model.meet[n]]) odd.push({ bar: n });
    }
    for (let n = 0; n < model.markCount; n++) {
      if (IMPORTANCE.includes(model.markTypes[model.markType[n]].kind)) odd.push({ mark: n });
    }
    if (!odd.length || this.axis !== "time") return;
    odd.sort((one, other) => this.middleOf(one) - this.middleOf(other));
    this.odd = ((this.odd ?? (by > 0 ? -1 : 0)) + by + odd.length) % odd.length;
    this.focusOn(odd[this.odd]);
  },

  focusOn(item, look = true) {
    this.focus = item;
    if (item && look) {
      const at = this.middleOf(item);
      const half = (this.view.to - this.view.from) / 2;
      if (at < this.view.from || at > this.view.to) this.show(at - half, at + half);
    }
    this.draw();
    this.root.dispatchEvent(new CustomEvent("moved"));
    if (item) {
      this.placeSpot();
      this.spot.focus({ preventScroll: !look });
    } else {
      this.stage.focus({ preventScroll: true });
    }
  },
});
