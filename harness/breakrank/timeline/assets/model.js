// The picture of a run as data: columns are unpacked into typed arrays, and looked at as bars, marks and lanes.

const KINDS_OF_CALLS = new Set(["collective", "message", "meeting"]);

async function unpack(id) {
  const text = document.getElementById(id).textContent.trim();
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function summed(differences, Kind, scale = 1) {
  const values = new Kind(differences.length);
  let total = 0;
  for (let n = 0; n < differences.length; n++) {
    total += differences[n];
    values[n] = total * scale;
  }
  return values;
}

// Rows of columns, each row an object that is made when somebody asks for it.
class Rows {
  constructor(length, make) {
    this.length = length;
    this.at = make;
  }
  *[Symbol.iterator]() {
    for (let n = 0; n < this.length; n++) yield this.at(n);
  }
  filter(wanted) {
    const found = [];
    for (const row of this) if (wanted(row)) found.push(row);
    return found;
  }
}

class Model {
  constructor(data) {
    this.lanes = data.lanes.map(([attempt, rank, thread, end], index) => ({ index, attempt, rank, thread, end }));
    this.calls = data.calls;
    this.meetings = data.meetings;
    this.links = data.links.map(([one, other, words]) => ({ one, other, words }));
    this.waits = data.waits;
    this.heat = data.heat;
    this.last = data.last / 1000;
    this.readBars(data.bars);
    this.readMarks(data.marks);
    this.bars = new Rows(this.count, (n) => this.bar(n));
    this.marks = new Rows(this.markCount, (n) => this.mark(n));
    this.joinMembers();
  }

  readBars(columns) {
    this.count = columns.t.length;
    this.lane = summed(columns.lane, Int32Array);
    this.start = summed(columns.t, Float64Array, 1 / 1000);
    this.end = Float64Array.from(columns.d, (duration, n) => this.start[n] + duration / 1000);
    this.type = Int32Array.from(columns.type);
    this.step = summed(columns.step, Int32Array);
    this.meet = summed(columns.meet, Int32Array);
    this.types = columns.types.map(([kind, name, ending, call]) => ({ kind, name, ending, call }));
    this.barEvents = columns.events;
    this.firstOf = new Int32Array(this.lanes.length + 1).fill(this.count);
    for (let n = this.count - 1; n >= 0; n--) this.firstOf[this.lane[n]] = n;
    for (let n = this.lanes.length - 1; n >= 0; n--) {
      this.firstOf[n] = Math.min(this.firstOf[n], this.firstOf[n + 1]);
    }
  }

  readMarks(columns) {
    this.markCount = columns.t.length;
    this.markLane = summed(columns.lane, Int32Array);
    this.markTime = summed(columns.t, Float64Array, 1 / 1000);
    this.markType = Int32Array.from(columns.type);
    this.markStep = columns.step;
    this.turn = columns.turn;
    this.markTypes = columns.types.map(([kind, name, call]) => ({ kind, name, call }));
    this.markEvents = columns.events;
    this.turns = this.turn.some((turn) => turn >= 0);
    this.lastTurn = this.turn.reduce((most, turn) => Math.max(most, turn), 0);
  }

  // The bars of each meeting, one after the other: those of meeting m are members[from[m]] to members[from[m + 1]].
  joinMembers() {
    this.from = new Int32Array(this.meetings.number.length + 1);
    for (let n = 0; n < this.count; n++) if (this.meet[n] >= 0) this.from[this.meet[n] + 1]++;
    for (let m = 0; m < this.from.length - 1; m++) this.from[m + 1] += this.from[m];
    this.members = new Int32Array(this.from[this.from.length - 1]);
    const next = Int32Array.from(this.from);
    for (let n = 0; n < this.count; n++) if (this.meet[n] >= 0) this.members[next[this.meet[n]]++] = n;
  }

  membersOf(meeting) {
    return meeting < 0 ? [] : Array.from(this.members.subarray(this.from[meeting], this.from[meeting + 1]));
  }

  bar(n) {
    const type = this.types[this.type[n]];
    return {
      index: n,
      lane: this.lanes[this.lane[n]],
      start: this.start[n],
      end: this.end[n],
      step: this.step[n],
      meeting: this.meet[n],
      number: this.meet[n] >= 0 ? this.meetings.number[this.meet[n]] : null,
      kind: type.kind,
      name: type.name,
      ending: type.ending,
      call: type.call >= 0 ? this.calls[type.call] : {},
      differs: this.meetings.differs[this.meet[n]] || "",
      absent: this.meetings.absent[this.meet[n]] || [],
      waits: this.waits[n] || [],
      event: this.barEvents[n] || null,
    };
  }

  mark(n) {
    const type = this.markTypes[this.markType[n]];
    return {
      index: n,
      lane: this.lanes[this.markLane[n]],
      time: this.markTime[n],
      step: this.markStep[n],
      turn: this.turn[n],
      kind: type.kind,
      name: type.name,
      call: type.call >= 0 ? this.calls[type.call] : {},
      event: this.markEvents[n] || null,
    };
  }
}

// Time on the page: where for long nothing begins or ends on any lane, the scale is broken.
class Scale {
  constructor(model, broken) {
    const times = new Float64Array(2 * model.count + model.markCount + 2);
    times.set(model.start, 0);
    times.set(model.end, model.count);
    times.set(model.markTime, 2 * model.count);
    times[times.length - 1] = model.last;
    times.sort();
    this.breaks = broken ? Scale.gaps(times, model.last) : [];
    const cut = this.breaks.reduce((sum, gap) => sum + gap.to - gap.from, 0);
    const left = model.last - cut;
    // A break in which a call hangs is wide enough for its words.
    const hung = model.types.some((type) => type.ending === "never" && KINDS_OF_CALLS.has(type.kind));
    const share = (gap) => (hung && gap.to > 0.7 * model.last ? 0.45 : 0.07);
    this.places = [[0, 0]];
    for (const gap of this.breaks) {
      const [time, place] = this.places[this.places.length - 1];
      const from = place + gap.from - time;
      this.places.push([gap.from, from], [gap.to, from + left * share(gap)]);
    }
    const [time, place] = this.places[this.places.length - 1];
    this.size = place + Math.max(model.last - time, 0.001);
    this.places.push([Math.max(model.last, time + 0.001), this.size]);
  }

  static gaps(times, last) {
    const gaps = [];
    for (let n = 1; n < times.length; n++) {
      const size = times[n] - times[n - 1];
      if (size > 0.2 * last && size > 1) gaps.push({ from: times[n - 1] + size * 0.02, to: times[n] - size * 0.02, size });
    }
    return gaps;
  }

  place(time) {
    return this.between(time, 0, 1);
  }

  time(place) {
    return this.between(place, 1, 0);
  }

  between(value, from, to) {
    const known = this.places;
    let n = 1;
    while (n < known.length - 1 && known[n][from] < value) n++;
    const [low, high] = [known[n - 1], known[n]];
    const share = (value - low[from]) / (high[from] - low[from] || 1);
    return low[to] + share * (high[to] - low[to]);
  }
}

function duration(ms) {
  if (ms >= 120000) return `${(ms / 60000).toFixed(1)} min`;
  if (ms >= 1000) return `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
  return ms >= 10 ? `${ms.toFixed(1)} ms` : `${ms.toFixed(3)} ms`;
}

function tickWords(value, step) {
  if (step >= 1000) return `${value / 1000} s`;
  const digits = step >= 1 ? 0 : Math.min(3, Math.ceil(-Math.log10(step)));
  return value >= 10000 && step >= 10 ? `${(value / 1000).toFixed(2)} s` : `${value.toFixed(digits)} ms`;
}

function laneName(lane, attempts) {
  const thread = lane.thread === "main" ? "" : ` ${lane.thread}`;
  return `${attempts > 1 ? `attempt ${lane.attempt}, ` : ""}rank ${lane.rank}${thread}`;
}

const ENDINGS = {
  done: "",
  next: "its end is not on record: drawn to the next point",
  failed: "it raised",
  never: "it never completed",
  unknown: "its end is not on record",
};

function callWords(bar) {
  const number = bar.number === null ? "" : ` ${bar.number}`;
  return `${bar.name}${number}${bar.call.site ? ` (${bar.call.site})` : ""}`;
}

function ranksNamed(ranks) {
  const shown = ranks.slice(0, 6).join(", ");
  return `rank${ranks.length > 1 ? "s" : ""} ${shown}${ranks.length > 6 ? ` and ${ranks.length - 6} more` : ""}`;
}

function barWords(bar, attempts) {
  const parts = [
    `${laneName(bar.lane, attempts)}, step ${bar.step}: ${callWords(bar)}`,
    `from ${duration(bar.start)} for ${duration(bar.end - bar.start)}`,
  ];
  if (bar.waits.length) parts.push(`it waits for ${ranksNamed(bar.waits)}`);
  const phase = bar.ending === "never" && !KINDS_OF_CALLS.has(bar.kind);
  if (ENDINGS[bar.ending]) parts.push(phase ? "the rank got no further" : ENDINGS[bar.ending]);
  if (bar.differs) parts.push(`its members differ: ${bar.differs}`);
  if (bar.absent.length && bar.ending === "never") parts.push(`${ranksNamed(bar.absent)} never came`);
  return parts.join("; ");
}

function markWords(mark, attempts) {
  const turn = mark.turn >= 0 ? `, turn ${mark.turn}` : "";
  const site = mark.call.site ? ` (${mark.call.site})` : "";
  const step = mark.step ? `, step ${mark.step}` : "";
  return `${laneName(mark.lane, attempts)}${step}${turn}: ${mark.name}${site} at ${duration(mark.time)}`;
}
