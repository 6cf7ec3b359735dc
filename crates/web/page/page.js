// Follows a running suimon: each event is its state. Rows are made only for what is in view, so that
// thousands of classes scroll without a pause.
"use strict";

const SECONDS = 60;          // what the charts show
const STACKED = 8;           // classes with a colour of their own; the others are one
const HOSTS = 200;           // those that were offered most
const QUOTAS = 200;          // those of which the greatest part is used
const ROW = 28;              // as in page.css
const COLOURS = ["#3b7dbd", "#e08e2b", "#3f9c6b", "#b5568c", "#8a6bc1", "#c9b23a", "#4bb3c4", "#a86a45"];
const OTHERS = "#8b98a3";

const rate = bits => scaled(bits ?? 0, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"]);
const bytes = count => scaled(count ?? 0, ["B", "kB", "MB", "GB", "TB"]);
const time = nanos => nanos == null ? "" : scaled(nanos, ["ns", "µs", "ms", "s"]);

function scaled(value, units) {
  let step = 0;
  while (value >= 1000 && step < units.length - 1) { value /= 1000; step += 1; }
  const digits = value >= 100 || step === 0 ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${units[step]}`;
}

/** A moment in milliseconds since 1970, as a person's clock has it. */
const moment = at => new Date(at - new Date(at).getTimezoneOffset() * 60000).toISOString().slice(0, 16).replace("T", " ");

const share = quota => quota.used_bytes / quota.volume_bytes;
const percent = part => `${(part * 100).toFixed(part < 0.1 ? 1 : 0)} %`;

const clock = seconds => new Date(seconds * 1000).toTimeString().slice(0, 8);

const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** One managed interface: its charts and its table. */
class View {
  constructor(name) {
    const part = document.getElementById("interface").content.cloneNode(true);
    this.root = part.querySelector("section");
    this.root.querySelector("h2").textContent = name;
    this.points = [];          // {at, all, rates: Map, delays: Map}
    this.sums = new Map();     // of the rates in view, kept as points come and go
    this.rows = [];
    this.search = this.root.querySelector("input");
    this.table = this.root.querySelector(".table");
    this.search.addEventListener("input", () => this.showRows());
    this.table.addEventListener("scroll", () => this.showRows());
    this.whatIf = new WhatIf(name, this.root.querySelector(".what-if"));
    document.getElementById("interfaces").append(this.root);
    this.shown = "";
  }

  show(state, at) {
    const bad = state.state !== "enabled" || state.not_enforced;
    const badge = this.root.querySelector(".badge");
    badge.textContent = state.state !== "enabled" ? state.state : bad ? "not enforced" : "enforced";
    badge.classList.toggle("bad", Boolean(bad));
    const why = this.root.querySelector(".why");
    const complaints = [state.not_enforced, ...state.missed.map(of => `missed: ${of}`)].filter(Boolean);
    why.hidden = !complaints.length;
    why.textContent = complaints.join("\n");
    this.root.querySelector(".facts").textContent =
      `${state.discipline}, ${rate(state.got_bps)} of ${rate(state.autorate?.rate_bps ?? state.bandwidth_bps)}` +
      (state.autorate ? ` (autorate, ${state.autorate.state})` : "");
    const classes = state.classes.length ? state.classes : [{ ...state, name: state.name, leaf: true, depth: 0 }];
    this.rows = classes;
    this.bandwidth = state.bandwidth_bps;
    this.remember(classes.filter(of => of.leaf), at);
    this.draw();
    this.showRows();
    this.showQuotas(classes);
    this.showHosts(state.hosts ?? []);
    this.whatIf.offer(state);
  }

  showQuotas(classes) {
    const part = this.root.querySelector(".quotas");
    const all = classes.filter(of => of.quota).map(({ name, quota }) => ({ name, ...quota }));
    this.root.classList.toggle("has-quotas", all.length > 0);
    part.hidden = !all.length;
    if (!all.length) return;
    const full = all.filter(of => of.used_up).length;
    part.querySelector("summary").textContent = `${all.length} quotas` + (full ? `, ${full} used up` : "");
    if (!part.open) return;
    const row = of => {
      const made = document.createElement("tr");
      const then = Object.entries(of.then ?? {}).map(([key, value]) => `${key} = ${value}`).join(", ");
      for (const text of [of.name, bytes(of.used_bytes), null, `${bytes(of.volume_bytes)} per ${of.per}`,
                          moment(of.ends_ms), then || "it is told"]) made.append(cell(text));
      made.cells[2].className = "bar";
      made.cells[2].append(bar(share(of)));
      made.classList.toggle("used-up", of.used_up);
      return made;
    };
    const first = all.sort((a, b) => share(b) - share(a)).slice(0, QUOTAS);
    part.querySelector("tbody").replaceChildren(...first.map(row));
  }

  showHosts(hosts) {
    const part = this.root.querySelector(".hosts");
    part.hidden = !hosts.length;
    part.querySelector("summary").textContent = `${hosts.length} hosts`;
    if (!part.open) return;
    const row = of => {
      const made = document.createElement("tr");
      for (const text of [of.address, time(of.whole?.p50_ns), time(of.whole?.p99_ns), time(of.ahead?.p50_ns),
                          of.loss ? `${(of.loss * 100).toFixed(2)} %` : "", of.rpm, of.quality?.call, of.quality?.game,
                          of.quality?.page]) made.append(cell(text));
      return made;
    };
    part.querySelector("tbody").replaceChildren(...hosts.slice(0, HOSTS).map(row));
  }

  remember(leaves, at) {
    const rates = new Map(leaves.filter(of => of.got_bps).map(of => [of.name, of.got_bps]));
    const delays = new Map(leaves.filter(of => of.delay).map(of => [of.name, of.delay.p99_ns / 1e6]));
    let all = 0;
    for (const bits of rates.values()) all += bits / 1e6;
    this.points.push({ at, all, rates, delays });
    this.count(rates, 1);
    while (this.points[0].at < at - SECONDS) this.count(this.points.shift().rates, -1);
  }

  count(rates, sign) {
    for (const [name, bits] of rates) {
      const sum = (this.sums.get(name) ?? 0) + sign * bits;
      if (sum > 0) this.sums.set(name, sum); else this.sums.delete(name);
    }
  }

  /** The classes with the most traffic in view. */
  largest() {
    return [...this.sums].sort((a, b) => b[1] - a[1]).slice(0, STACKED).map(([name]) => name).sort();
  }

  draw() {
    const names = this.largest();
    const key = JSON.stringify(names);
    if (key !== this.shown) this.rebuild(names, key);
    const at = this.points.map(point => point.at);
    // The highest sum is drawn first, and each lower one over it.
    const sums = this.points.map(point => {
      const named = names.map(name => (point.rates.get(name) ?? 0) / 1e6);
      let sum = 0;
      return [...named.map(mbit => (sum += mbit)), Math.max(point.all, sum)];
    });
    const series = [...names.keys(), names.length].reverse().map(index => sums.map(point => point[index]));
    this.stack.setData([at, ...series]);
    this.lines.setData([at, ...names.map(name => this.points.map(point => point.delays.get(name) ?? null))]);
  }

  rebuild(names, key) {
    this.shown = key;
    for (const chart of [this.stack, this.lines]) chart?.destroy();
    const [ink, line] = [colour("--faint"), colour("--line")];
    const axis = label => ({ stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line }, size: 84,
                             values: (_, ticks) => ticks.map(label) });
    const times = { ...axis(clock), size: 30, space: 70 };
    const chart = (place, label, series) => {
      const host = this.root.querySelector(place);
      const options = { width: Math.max(host.clientWidth, 240), height: 190, legend: { show: false }, cursor: { y: false },
                        scales: { x: { range: (_, low, high) => [high - SECONDS, high] }, y: { range: (_, low, high) => [0, Math.max(high * 1.05, 0.01)] } },
                        axes: [times, axis(label)], series: [{}, ...series] };
      return new uPlot(options, [[], ...series.map(() => [])], host);
    };
    const filled = stroke => ({ stroke, fill: stroke, width: 0, points: { show: false } });
    this.stack = chart(".bandwidth", mbit => rate(mbit * 1e6), [filled(OTHERS), ...names.map((_, index) => filled(COLOURS[index])).reverse()]);
    this.lines = chart(".delay", ms => time(ms * 1e6), names.map((_, index) => ({ stroke: COLOURS[index], width: 2, points: { show: false } })));
    const legend = this.root.querySelector(".legend");
    legend.replaceChildren(...names.map((name, index) => entry(name, COLOURS[index])));
    if (this.rows.filter(of => of.leaf).length > names.length) legend.append(entry("all others", OTHERS));
  }

  resize() {
    for (const [chart, place] of [[this.stack, ".bandwidth"], [this.lines, ".delay"]])
      chart?.setSize({ width: Math.max(this.root.querySelector(place).clientWidth, 240), height: 190 });
  }

  showRows() {
    const wanted = this.search.value.trim().toLowerCase();
    const found = wanted ? this.rows.filter(of => of.name.toLowerCase().includes(wanted)) : this.rows;
    this.root.querySelector(".count").textContent =
      wanted ? `${found.length} of ${this.rows.length} classes` : `${this.rows.length} classes`;
    const first = Math.max(0, Math.min(Math.floor(this.table.scrollTop / ROW) - 5, found.length - 1));
    const last = Math.min(found.length, first + Math.ceil(innerHeight / ROW) + 10);
    const rows = found.slice(first, last).map(of => this.row(of, Boolean(wanted)));
    this.table.querySelector("tbody").replaceChildren(pad(first), ...rows, pad(found.length - last));
  }

  row(of, flat) {
    const used = (of.got_bps ?? 0) / (of.asked_bps || this.bandwidth || 1);
    const drops = Object.entries(of.drops ?? {}).map(([why, count]) => `${count} ${why}`).join(", ");
    const backlog = of.backlog_packets ? `${of.backlog_packets} p, ${bytes(of.backlog_bytes)}` : "";
    const row = document.createElement("tr");
    const cells = [of.name, of.asked_bps ? rate(of.asked_bps) : "", rate(of.got_bps), null, backlog,
                   time(of.delay?.p50_ns), time(of.delay?.p99_ns), drops, of.marked_packets || "",
                   of.offered_bps ? rate(of.offered_bps) : "", time(of.experience?.whole?.p50_ns)];
    const { quota } = of;
    for (const text of [...cells, quota ? percent(share(quota)) : ""]) row.append(cell(text));
    row.cells[0].style.paddingLeft = `${flat ? 0.6 : 0.6 + 1.2 * (of.depth ?? 0)}rem`;
    row.cells[3].className = "bar";
    row.cells[3].append(bar(used));
    row.cells[7].className = "drops";
    row.cells[11].className = "quota";
    return row;
  }
}

/** What would be with another rate: asked of the simulator, which tries one at a time. */
class WhatIf {
  constructor(name, part) {
    this.name = name;
    this.part = part;
    this.choice = part.querySelector("select");
    this.slider = part.querySelector("input");
    this.said = part.querySelector(".said");
    this.rates = new Map();    // of what can be chosen, as they are
    this.shown = "";
    part.querySelector("form").addEventListener("submit", event => event.preventDefault());
    this.choice.addEventListener("change", () => { this.slider.value = 0; this.tell(); });
    this.slider.addEventListener("input", () => this.tell());
    this.slider.addEventListener("change", () => this.ask());
    part.addEventListener("toggle", () => { if (this.state) this.offer(this.state); });
  }

  /** The interface, and each class that has a rate, can be chosen. */
  offer(state) {
    this.state = state;
    if (!this.part.open) return;
    const rated = state.classes.filter(of => of.asked_bps);
    this.rates = new Map([["", state.bandwidth_bps], ...rated.map(of => [of.name, of.asked_bps])]);
    const key = JSON.stringify([...this.rates.keys()]);
    if (key !== this.shown) {
      this.shown = key;
      const chosen = this.choice.value;
      const option = name => Object.assign(document.createElement("option"), { value: name, textContent: name || `${this.name} as a whole` });
      this.choice.replaceChildren(...[...this.rates.keys()].map(option));
      if (this.rates.has(chosen)) this.choice.value = chosen;
    }
    this.tell();
  }

  /** From a tenth to ten times the rate, in twentieths of that on either side. */
  get wanted() {
    return Math.round((this.rates.get(this.choice.value) ?? 0) * 10 ** (this.slider.value / 20));
  }

  tell() {
    this.part.querySelector("output").textContent = rate(this.wanted);
  }

  /** Asks; while an answer is awaited, only the latest wish is kept. */
  async ask() {
    this.again = this.pending;
    if (this.pending) return;
    this.pending = true;
    this.say("simulating …");
    do {
      this.again = false;
      await this.askOnce(this.choice.value, this.wanted);
    } while (this.again);
    this.pending = false;
  }

  async askOnce(name, bits) {
    const wanted = { interface: this.name, setting: name ? "rate" : "bandwidth", value: `${bits} bit/s` };
    if (name) wanted.class = name;
    try {
      const reply = await fetch("api/what-if", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(wanted) });
      if (!reply.ok) return this.say((await reply.text()).trim(), true);
      this.showReport(await reply.json(), name, bits);
    } catch (_) {
      this.say("no answer from suimon web", true);
    }
  }

  say(text, bad) {
    this.said.textContent = text;
    this.said.classList.toggle("bad", Boolean(bad));
  }

  showReport(report, name, bits) {
    this.say(`${name || this.name}: ${rate(this.rates.get(name))} → ${rate(bits)}; nothing live was changed`);
    const rows = report.classes.map(of => {
      const made = document.createElement("tr");
      const { now, then } = of;
      for (const text of [of.class, `${rate(of.offered_bps)}${of.greedy ? ", greedy" : ""}`, rate(now.rate_bps), rate(then.rate_bps),
                          time(now.p50_ns), time(then.p50_ns), time(now.p99_ns), time(then.p99_ns)]) made.append(cell(text));
      made.classList.toggle("changed", of.class === name);
      return made;
    });
    const table = this.part.querySelector(".table"), model = this.part.querySelector(".model");
    table.querySelector("tbody").replaceChildren(...rows);
    model.textContent = `Simulated for ${time(report.simulated_ns)}, both with the traffic of the last second: a class that lost or kept packets waiting counts as greedy, `
      + `${report.flows} TCP connections over ${time(report.round_trip_ns)}; any other as ${report.flows} flows of random packets at its measured rate.`;
    table.hidden = model.hidden = false;
  }
}

function cell(text) {
  const made = document.createElement("td");
  made.textContent = text ?? "";
  return made;
}

/** As long as this part of its cell. */
function bar(part) {
  const made = document.createElement("div");
  made.style.width = `${Math.min(part, 1) * 100}%`;
  return made;
}

/** Stands for so many rows out of view. */
function pad(rows) {
  const row = document.createElement("tr");
  row.className = "pad";
  const empty = cell("");
  empty.colSpan = 12;
  empty.style.height = `${Math.max(rows, 0) * ROW}px`;
  row.append(empty);
  return row;
}

function entry(name, stroke) {
  const item = document.createElement("li");
  const mark = document.createElement("i");
  mark.style.background = stroke;
  item.append(mark, name);
  return item;
}

/** What was in force. Whoever came with the token can go back; a second press of the button is sure. */
class Generations {
  constructor(part) {
    this.part = part;
    this.said = part.querySelector(".said");
    // Only in this tab, and not in its address, which others may see.
    const token = new URLSearchParams(location.hash.slice(1)).get("token");
    if (token) {
      sessionStorage.setItem("token", token);
      history.replaceState(null, "", location.pathname);
    }
    this.token = sessionStorage.getItem("token");
    part.addEventListener("toggle", () => this.read());
    setInterval(() => { if (!part.querySelector(".sure")) this.read(); }, 5000);
  }

  async read() {
    if (!this.part.open || document.hidden) return;
    try {
      const reply = await fetch("api/history");
      if (!reply.ok) return this.say((await reply.text()).trim(), true);
      const { generations } = await reply.json();
      this.part.querySelector("tbody").replaceChildren(...generations.reverse().map(of => this.row(of)));
    } catch (_) {
      this.say("no answer from suimon web", true);
    }
  }

  row(of) {
    const row = document.createElement("tr");
    const by = [of.by, of.author, of.reason].filter(Boolean).join(", ");
    const left = of.unconfirmed_ms == null ? "" : `\nundone in ${time(of.unconfirmed_ms * 1e6)} unless confirmed`;
    const ago = of.age_ms < 60000 ? time(of.age_ms * 1e6) : of.age_ms < 7.2e6 ? `${Math.round(of.age_ms / 60000)} min` : `${Math.round(of.age_ms / 3.6e6)} h`;
    for (const text of [of.number, `${ago} ago`, by + left, of.changes.join("\n")]) row.append(cell(text));
    const last = cell(of.in_force ? "in force" : "");
    if (!of.in_force && this.token) last.append(this.button(of.number));
    row.append(last);
    return row;
  }

  button(number) {
    const button = document.createElement("button");
    button.textContent = "back to this";
    button.addEventListener("click", () => {
      if (button.classList.contains("sure")) return this.back(number);
      button.classList.add("sure");
      button.textContent = `sure? back to ${number}`;
      setTimeout(() => { button.classList.remove("sure"); button.textContent = "back to this"; }, 4000);
    });
    return button;
  }

  async back(number) {
    try {
      const reply = await fetch("api/rollback", { method: "POST", headers: { "Content-Type": "application/json", Authorization: `Bearer ${this.token}` },
                                                  body: JSON.stringify({ to: number, reason: "by the page" }) });
      const said = reply.ok ? (await reply.json()).message : (await reply.text()).trim();
      this.say(said, !reply.ok);
    } catch (_) {
      this.say("no answer from suimon web", true);
    }
    this.read();
  }

  say(text, bad) {
    this.said.textContent = text;
    this.said.classList.toggle("bad", Boolean(bad));
  }
}

const views = new Map();

function show(snapshot) {
  document.getElementById("policy").textContent = snapshot.policy;
  const names = new Set(snapshot.interfaces.map(of => of.name));
  for (const [name, view] of views) if (!names.has(name)) { view.root.remove(); views.delete(name); }
  for (const of of snapshot.interfaces) {
    if (!views.has(of.name)) views.set(of.name, new View(of.name));
    views.get(of.name).show(of, Date.now() / 1000);
  }
}

new Generations(document.getElementById("generations"));
const state = document.getElementById("state");
const events = new EventSource("api/events");
events.onmessage = event => {
  const { snapshot, error } = JSON.parse(event.data);
  state.textContent = error ?? "live";
  if (snapshot) show(snapshot);
};
events.onerror = () => { state.textContent = "no connection to suimon web; trying again …"; };
addEventListener("resize", () => views.forEach(view => view.resize()));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => views.forEach(view => { view.shown = ""; }));
