// The page: its charts, the event that was clicked, and the place in the address.

const FIELDS = ["op", "group", "shapes", "dtype", "reduce", "root", "peer", "tag", "splits", "strides", "path", "how", "site"];

function said(value) {
  return value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);
}

// One column a member, one line a field; a field in which members differ has ≠ and is bold.
function compared(chart, bar) {
  const members = chart.model.membersOf(bar.meeting).slice(0, 16).map((n) => chart.model.bar(n));
  const table = element("table", "compared");
  const head = element("tr", "", "", element("thead", "", "", table));
  for (const text of ["", ...members.map((one) => laneName(one.lane, chart.attempts))]) element("th", "", text, head);
  const body = element("tbody", "", "", table);
  const rows = FIELDS.map((name) => [name, members.map((one) => said(one.call[name]))]);
  rows.push(["began", members.map((one) => duration(one.start))]);
  rows.push(["took", members.map((one) => (one.ending === "never" ? "never completed" : duration(one.end - one.start)))]);
  for (const [name, values] of rows) {
    if (values.every((value) => !value)) continue;
    const apart = bar.differs && !["began", "took", "site"].includes(name) && new Set(values).size > 1;
    const row = element("tr", apart ? "apart" : "", "", body);
    element("th", "", apart ? `≠ ${name}` : name, row);
    for (const value of values) element("td", "", value, row);
  }
  const more = chart.model.membersOf(bar.meeting).length - members.length;
  if (more > 0) element("caption", "", `and ${more} more members`, table);
  return table;
}

function detail(chart, item) {
  const box = document.getElementById("event");
  box.replaceChildren();
  const one = item.bar !== undefined ? chart.model.bar(item.bar) : chart.model.mark(item.mark);
  element("p", "", chart.words(item), box);
  if (item.bar !== undefined && one.meeting >= 0) {
    if (one.differs) element("p", "apart", `≠ ${one.differs}`, box);
    box.append(compared(chart, one));
  }
  if (one.event) element("pre", "", JSON.stringify(one.event, null, 1), box);
  else element("p", "quiet", "This event is not on the page as a whole: it is in the run directory.", box);
  box.hidden = false;
  return box;
}

class Page {
  constructor(facts) {
    this.facts = facts;
  }

  async start() {
    this.chart = await this.make("data-run", document.getElementById("chart"));
    this.chart.root.addEventListener("moved", () => this.remember());
    window.addEventListener("hashchange", () => this.recall());
    this.tools();
    if (this.facts.turns && this.chart.model.turns) this.toTurns();
    else this.toHang();
    this.recall();
    for (const folded of document.querySelectorAll("details.control")) {
      folded.addEventListener("toggle", () => this.unfold(folded));
    }
    const { chart } = this;
    const { lanes, bars, marks, meetings, links } = chart.model;
    Object.assign(window.breakrank, { lanes, bars, marks, meetings, links, chart });
    Object.defineProperty(window.breakrank, "view", { get: () => ({ axis: chart.axis, ...chart.view }) });
    Object.defineProperty(window.breakrank, "drawn", { get: () => chart.drawn });
    this.chart.root.addEventListener("painted", () => document.documentElement.setAttribute("data-drawn", "yes"), { once: true });
    this.chart.draw();
  }

  async make(id, root) {
    const chart = new Chart(root, new Model(await unpack(id)), { blamed: this.facts.blamed });
    chart.open = (item) => detail(chart, item);
    chart.listen();
    return chart;
  }

  async unfold(folded) {
    if (!folded.open || folded.chart) return;
    folded.chart = this.make(folded.dataset.of, folded.querySelector(".chart"));
    (await folded.chart).draw();
  }

  tools() {
    const { chart } = this;
    const on = (id, does) => document.getElementById(id)?.addEventListener("click", does);
    on("zoom-in", () => chart.zoom(0.6));
    on("zoom-out", () => chart.zoom(1 / 0.6));
    on("zoom-all", () => chart.show(0, chart.size));
    on("odd", () => chart.nextOdd(1));
    const broken = document.getElementById("broken");
    broken.parentElement.hidden = !chart.scale.breaks.length;
    broken.addEventListener("change", () => {
      chart.rescale(broken.checked);
      chart.show(0, chart.size);
    });
    const turns = document.getElementById("turns");
    turns.parentElement.hidden = !chart.model.turns;
    turns.addEventListener("change", () => (turns.checked ? this.toTurns() : this.setAxis("time")));
  }

  setAxis(axis) {
    this.chart.setAxis(axis);
    document.body.classList.toggle("by-turns", axis === "turn");
  }

  // On the axis of turns the finding comes into the middle.
  toTurns() {
    const { chart } = this;
    document.getElementById("turns").checked = true;
    this.setAxis("turn");
    const link = chart.model.links.find(({ one, other }) => chart.model.turn[one] >= 0 && chart.model.turn[other] >= 0);
    if (!link) return;
    const [one, other] = [chart.model.turn[link.one], chart.model.turn[link.other]].sort((a, b) => a - b);
    chart.show(one - 4, other + 5);
  }

  // A call that never completed, at the end of a long run, would be a hair: the page begins with the end.
  toHang() {
    const { chart } = this;
    const { model, size } = { model: chart.model, size: chart.size };
    let first = Infinity;
    for (let n = 0; n < model.count; n++) {
      const type = model.types[model.type[n]];
      if (type.ending === "never" && KINDS_OF_CALLS.has(type.kind)) first = Math.min(first, chart.from[n]);
    }
    if (first < size && size - first < 0.15 * size) chart.show(first - 1.5 * (size - first), size);
  }

  remember() {
    clearTimeout(this.later);
    this.later = setTimeout(() => {
      const { chart } = this;
      const { from, to } = chart.view;
      const places = chart.axis === "time" ? [chart.scale.time(from), chart.scale.time(to)] : [from, to];
      const parts = [`${chart.axis === "time" ? "t" : "turn"}=${places.map((place) => place.toFixed(3)).join(",")}`];
      if (chart.focus?.bar !== undefined) parts.push(`bar=${chart.focus.bar}`);
      this.written = `#${parts.join("&")}`;
      history.replaceState(null, "", this.written);
    }, 150);
  }

  recall() {
    if (location.hash === this.written) return;
    const { chart } = this;
    const place = /[#&](t|turn)=(\d+(?:\.\d+)?),(\d+(?:\.\d+)?)/.exec(location.hash);
    if (place && (place[1] === "t" || chart.model.turns)) {
      const axis = place[1] === "t" ? "time" : "turn";
      document.getElementById("turns").checked = axis === "turn";
      if (chart.axis !== axis) this.setAxis(axis);
      const [from, to] = [Number(place[2]), Number(place[3])];
      if (to > from) chart.show(...(axis === "time" ? [chart.scale.place(from), chart.scale.place(to)] : [from, to]));
    }
    const bar = /[#&]bar=(\d+)/.exec(location.hash);
    if (bar && chart.axis === "time" && Number(bar[1]) < chart.model.count) {
      chart.focusOn({ bar: Number(bar[1]) }, false);
      chart.open(chart.focus);
    }
  }
}

window.breakrank = { errors: [] };
window.addEventListener("error", (event) => window.breakrank.errors.push(String(event.message)));
window.addEventListener("unhandledrejection", (event) => window.breakrank.errors.push(String(event.reason)));
if ("DecompressionStream" in window) {
  window.breakrank.page = new Page(JSON.parse(document.getElementById("facts").textContent));
  window.breakrank.ready = window.breakrank.page.start();
} else {
  document.getElementById("chart").textContent = "This browser is too old to draw the picture: it has no DecompressionStream.";
}
