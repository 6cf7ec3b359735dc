// The page of the simulator. EXAMPLES and FILES are in examples.js, MODULE and WORKER in module.js: all by scripts, since
// a page that is opened as a file may not load anything else.
"use strict";

(() => {
const root = document.querySelector(".simulator");
const part = selector => root.querySelector(selector);
const [form, text, state, progress] = [".controls", "textarea", ".state", "progress"].map(part);
const DEAF = 500;
const FIRST = "scenarios/home.toml";
const COLOURS = ["#3b7dbd", "#d9822b", "#3f9c6b", "#b5507f", "#7a65c0", "#b09a2f", "#4aa3b5", "#c2543d", "#8a9a5b", "#6d7f93", "#a8763e", "#5b6bc0"];
const colour = index => COLOURS[index % COLOURS.length];
const variable = name => getComputedStyle(document.documentElement).getPropertyValue(name);
const option = (label, value) => Object.assign(document.createElement("option"), { textContent: label, value });
const element = (name, properties = {}) => Object.assign(document.createElement(name), properties);

/* What is compressed: the module, and what a link shares. */

const bytesOf = base64 => Uint8Array.from(atob(base64), letter => letter.charCodeAt(0));
const through = async (bytes, stream) => new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());

async function packed(value) {
  const bytes = await through(new TextEncoder().encode(JSON.stringify(value)), new CompressionStream("deflate-raw"));
  return btoa(Array.from(bytes, byte => String.fromCharCode(byte)).join("")).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

async function unpacked(word) {
  const bytes = bytesOf(word.replaceAll("-", "+").replaceAll("_", "/"));
  return JSON.parse(new TextDecoder().decode(await through(bytes, new DecompressionStream("deflate-raw"))));
}

/* The worker. */

let compiled, worker, words, deaf, running = false;

function start(again) {
  worker?.terminate();
  worker = new Worker(URL.createObjectURL(new Blob([WORKER], { type: "text/javascript" })));
  worker.onmessage = ({ data }) => hear({ ...data, again });
  worker.postMessage({ module: compiled, files: FILES });
}

function hear(data) {
  if (data.words) { words = data.words; check(); if (text.value && (!data.again || running)) run(); }
  if (data.heard) clearTimeout(deaf);
  if (data.checked && data.of === text.value) show(data.checked);
  if (data.began) begin(data.began);
  if (data.steps) go(data.steps, data.busy);
  if (data.refused) { show(data.refused); stop(); tell(data.refused.error, true); }
  if (data.outcome) { stop(); finish(data.outcome, data.busy); }
  if (data.panic) { stop(); words = undefined; start("again"); tell(`The simulator failed; this is a bug of it:\n${data.panic}`, true); }
}

function tell(what, failed = false) {
  state.textContent = what;
  state.classList.toggle("failed", failed);
}

function run() {
  if (!form.reportValidity() || !compiled) return;
  const seed = form.seed.value === "" ? null : Number(form.seed.value);
  running = true;
  part(".run").textContent = "Stop";
  part(".result").hidden = true;
  tell("Running …");
  worker.postMessage({ run: { text: text.value, seed, point: Number(form.point.value || 1), pace: Number(form.pace.value) } });
}

function stop() {
  running = false;
  part(".run").textContent = "Run";
}

form.addEventListener("submit", event => {
  event.preventDefault();
  if (!running) return run();
  worker.postMessage({ end: true });
  // One that is in the middle of a long step hears nothing: another takes its place.
  deaf = setTimeout(() => { words = undefined; start("again"); }, DEAF);
  stop();
  tell("Stopped");
});

/* The editor: its lines, what is wrong, and what could be written. */

const lines = part(".lines");
const mistakes = part(".mistakes");
let waits, marked = new Map();

function check() {
  clearTimeout(waits);
  if (words) worker.postMessage({ check: text.value });
}

function number() {
  const count = text.value.split("\n").length;
  lines.replaceChildren(...Array.from({ length: count }, (_, index) => element("b", { textContent: index + 1, className: marked.get(index + 1) ?? "" })));
  lines.scrollTop = text.scrollTop;
}

function show({ diagnostics, points, error }) {
  marked = new Map(diagnostics.toReversed().map(one => [one.line, one.severity === "mistake" ? "bad" : "warned"]));
  number();
  mistakes.replaceChildren(...diagnostics.map(one => {
    const item = element("li", { className: one.severity });
    const place = element("a", { textContent: `line ${one.line}`, tabIndex: 0, role: "button" });
    place.addEventListener("click", () => select(one.line, one.column));
    place.addEventListener("keydown", event => { if (event.key === "Enter") select(one.line, one.column); });
    item.append(place, one.message);
    if (one.help) item.append(element("span", { textContent: one.help }));
    return item;
  }));
  if (error && !diagnostics.length) mistakes.append(element("li", { className: "mistake", textContent: error }));
  if (!points?.length) return;
  const chosen = form.point.value;
  const label = point => Object.entries(point).map(([name, value]) => `${name} = ${value}`).join(", ");
  form.point.replaceChildren(...points.map((point, index) => option(label(point) || "1", index + 1)));
  if (Number(chosen) <= points.length && chosen) form.point.value = chosen;
  part(".sweep").hidden = points.length === 1;
}

function select(line, column) {
  const before = text.value.split("\n").slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  text.focus();
  text.setSelectionRange(before + column - 1, before + column - 1);
  text.scrollTop = Math.max(0, (line - 6) * height());
}

const height = () => parseFloat(getComputedStyle(text).lineHeight);

/** The section in which the caret is, and the key whose value it is in: by the headers and brackets before it. */
function around(before) {
  const above = before.split("\n").slice(0, -1);
  const header = above.findLastIndex(line => /^\s*\[+[\w."\s>-]+\]+\s*(#.*)?$/.test(line));
  const known = name => Object.hasOwn(words.sections, name);
  const named = header < 0 ? "" : above[header].replace(/#.*/, "").replace(/[[\]"]/g, "").split(".").map(name => name.trim()).findLast(known);
  const at = above.slice(0, header + 1).join("\n").length;
  const open = [];
  const plain = before.slice(at).replace(/"(?:[^"\\\n]|\\.)*"|#[^\n]*/g, found => (found[0] === "#" ? "" : '""'));
  for (const [bracket, key] of plain.matchAll(/(?:([\w-]+)\s*=\s*)?[[{]|[\]}]/g)) "]}".includes(bracket) ? open.pop() : open.push(key);
  const section = open.findLast(key => key && known(key)) ?? named;
  const value = before.slice(before.lastIndexOf("\n") + 1).match(/([\w-]+)\s*=\s*\[?\s*(?:"[^"]*",\s*)*"([^"]*)$/);
  return { section, key: value?.[1], begun: value ? value[2] : before.match(/[\w-]*$/)[0] };
}

/** What could be written at the caret: [word, what it means]. */
function offered(wanted) {
  const before = text.value.slice(0, text.selectionStart);
  const { section, key, begun } = around(before);
  const keys = words.sections[section] ?? {};
  let all;
  if (key) {
    const kinds = key === "discipline" || (key === "kind" && section === "discipline") ? words.values.discipline
                : key === "kind" && section === "flow" ? words.values["flow.kind"] : null;
    const choices = [...(keys[key]?.unit ?? "").matchAll(/"([^"]+)"/g)].map(found => [found[1], ""]);
    all = kinds ? Object.entries(kinds).map(([name, of]) => [name, of.help]) : keys[key]?.unit.startsWith("one of") ? choices : [];
  } else {
    if (!/(^|[{,\n])[ \t]*[\w-]*$/.test(before) || (!begun && !wanted)) return { begun, all: [] };
    all = Object.entries(keys).map(([name, of]) => [name, [of.help, of.unit].filter(Boolean).join(" · ")]);
  }
  const fits = all.filter(([name]) => name.startsWith(begun) && name !== begun);
  return { begun, all: fits.sort((a, b) => a[0].localeCompare(b[0])).slice(0, 9) };
}

const offers = part(".offers");
let chosen = 0;

function offer(wanted = false) {
  const { begun, all } = words ? offered(wanted) : { all: [] };
  offers.hidden = !all.length;
  if (!all.length) return;
  chosen = 0;
  offers.replaceChildren(...all.map(([name, help], index) => {
    const item = element("li", { textContent: name });
    item.append(element("span", { textContent: help }));
    item.addEventListener("mousedown", event => { event.preventDefault(); chosen = index; accept(); });
    return item;
  }));
  offers.dataset.begun = begun.length;
  const before = text.value.slice(0, text.selectionStart).split("\n");
  const letter = element("canvas").getContext("2d");
  letter.font = getComputedStyle(text).font;
  const column = letter.measureText("0").width * (before.at(-1).length - begun.length);
  offers.style.left = `${Math.max(0, Math.min(text.offsetLeft + column - text.scrollLeft, text.offsetLeft + text.clientWidth - 200))}px`;
  offers.style.top = `${Math.min(before.length * height() - text.scrollTop + 14, text.clientHeight)}px`;
  mark();
}

function mark() {
  [...offers.children].forEach((item, index) => item.setAttribute("aria-selected", index === chosen));
}

function accept() {
  const name = offers.children[chosen].firstChild.textContent;
  text.focus();
  text.setRangeText(name.slice(Number(offers.dataset.begun)), text.selectionStart, text.selectionEnd, "end");
  offers.hidden = true;
  edited();
}

function edited() {
  number();
  clearTimeout(waits);
  waits = setTimeout(check, 250);
}

text.addEventListener("input", () => { edited(); offer(); });
text.addEventListener("scroll", () => { lines.scrollTop = text.scrollTop; offers.hidden = true; });
text.addEventListener("blur", () => { offers.hidden = true; });
text.addEventListener("click", () => { offers.hidden = true; });
text.addEventListener("keydown", event => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.key === " " && event.ctrlKey) { event.preventDefault(); return offer(true); }
  if (event.key === "Enter" && event.ctrlKey) { event.preventDefault(); return form.requestSubmit(); }
  if (offers.hidden) return;
  if (step) { event.preventDefault(); chosen = (chosen + step + offers.children.length) % offers.children.length; mark(); }
  if (event.key === "Escape") offers.hidden = true;
  if (event.key === "Enter" || event.key === "Tab") { event.preventDefault(); accept(); }
});

/* The charts: of each group, the time of each sample and the rows' values. */

let groups = [], times = [], samples = [], duration = 1, charts = [];

function begin(began) {
  duration = began.duration_ns;
  [times, samples] = [[], []];
  let first = 0;
  groups = began.groups.map(({ link, rows }) => ({ link, rows, from: (first += rows.length) - rows.length }));
  const choice = part("[name=group]");
  choice.replaceChildren(...groups.map((group, index) => option(group.link ?? "flows", index)));
  const classes = groups.findIndex(group => group.link && group.rows.length > 1);
  const names = groups.map(group => group.link ?? "flows");
  const again = names.indexOf(shown);
  choice.value = again >= 0 ? again : classes >= 0 ? classes : groups.length - 1;
  rebuild();
}

let shown;

function go(steps, busy) {
  for (const { at_ns, rows } of steps) if (rows) { times.push(at_ns / 1e9); samples.push(rows); }
  const last = steps.at(-1);
  progress.value = last.at_ns / duration;
  if (!running) return;
  tell(`${(last.at_ns / 1e9).toFixed(1)} s of ${duration / 1e9} s, ${(last.events / 1e3).toFixed(0)} thousand events in ${(busy / 1e3).toFixed(2)} s`);
  draw();
}

const group = () => groups[Number(part("[name=group]").value)];

function rebuild() {
  charts.forEach(chart => chart.destroy());
  charts = [];
  const { rows } = group();
  const names = rows.map(name => name || "all packets");
  const [ink, line] = [variable("--faint"), variable("--line")];
  const axis = (unit, size) => ({ stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line }, size,
                                  values: (_, ticks) => ticks.map(tick => `${tick} ${unit}`) });
  const chart = (place, unit, series) => {
    const options = { width: Math.max(part(place).clientWidth, 240), height: 230, legend: { show: false }, cursor: { y: false },
                      scales: { x: { time: false, range: [0, duration / 1e9] }, y: { range: (_, low, high) => [0, Math.max(high * 1.05, 1e-3)] } },
                      axes: [{ ...axis("s", 30), space: 60 }, axis(unit, 84)], series: [{}, ...series] };
    charts.push(new uPlot(options, [[], ...series.map(() => [])], part(place)));
  };
  // Packets that are few have a line; where there was none for long there is none.
  const gaps = (chart, _series, _from, _to, empty) => empty.filter(([from, to]) => to - from > chart.bbox.width / 25);
  const filled = stroke => ({ stroke, fill: stroke, width: 0, points: { show: false } });
  chart(".rates", "Mbit/s", names.map((_, index) => filled(colour(index))).reverse());
  chart(".delays", "ms", names.map((_, index) => ({ stroke: colour(index), width: 1.5, points: { show: false }, gaps })));
  part(".legend").replaceChildren(...names.map((name, index) => {
    const item = element("li");
    item.append(Object.assign(element("i"), { style: `background: ${colour(index)}` }), name);
    return item;
  }));
  draw();
}

function draw() {
  if (!charts.length) return;
  const { rows, from } = group();
  const own = samples.map(sample => sample.slice(from, from + rows.length));
  // The highest sum is drawn first, and each lower one over it.
  const sums = own.map(values => { let sum = 0; return values.map(([rate]) => (sum += rate / 1e6)); });
  charts[0].setData([times, ...rows.map((_, index) => sums.map(values => values[index])).reverse()]);
  charts[1].setData([times, ...rows.map((_, index) => own.map(values => (values[index][2] === null ? null : values[index][2] / 1e6)))]);
  const some = !own.length || own.some(values => values.some(value => value[2] !== null));
  part(".delays").hidden = !some;
  part(".of-delays").textContent = some ? "The longest delay from one point to the next"
                                        : "No delays: TCP measures none from end to end. The links have those of their queues.";
}

part("[name=group]").addEventListener("change", () => { shown = group().link ?? "flows"; rebuild(); });
addEventListener("resize", () => ["rates", "delays"].forEach((name, index) =>
  charts[index]?.setSize({ width: Math.max(part(`.${name}`).clientWidth, 240), height: 230 })));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (groups.length) rebuild(); });

/* The outcome. */

const rate = bits => (bits >= 1e6 ? `${(bits / 1e6).toPrecision(4)} Mbit/s` : `${(bits / 1e3).toPrecision(4)} kbit/s`);
const time = ns => (ns === undefined || ns === null ? "" : ns >= 1e6 ? `${(ns / 1e6).toPrecision(3)} ms` : `${(ns / 1e3).toPrecision(3)} µs`);

function finish(outcome, busy) {
  // For whoever takes it from the page.
  window.RUN = { outcome, busy };
  progress.value = 1;
  const many = (outcome.events / busy / 1e3).toFixed(2);
  tell(`Done: ${duration / 1e9} s in ${(busy / 1e3).toFixed(2)} s, ${many} million events a second`);
  draw();
  part(".verdicts").replaceChildren(...outcome.expectations.map(one => element("li", {
    className: one.met ? "" : "missed",
    textContent: `${one.what}: ${one.got}, expected ${one.expected}${one.met ? "" : `; ${one.missed_by}`}`,
  })));
  const row = (name, of, below) => {
    const made = element("tr");
    const delay = of.delay ?? {};
    const cells = [name, rate(of.rate_bps), time(delay.p50_ns), time(delay.p99_ns), time(delay.max_ns), of.dropped_packets || "", of.marked_packets || ""];
    made.append(...cells.map(textContent => element("td", { textContent })));
    if (below) made.cells[0].className = "below";
    return made;
  };
  const used = outcome.links.filter(link => link.sent_packets);
  const links = used.flatMap(link => [row(link.name, link), ...link.classes.map(of => row(of.name, of, true))]);
  part(".result tbody").replaceChildren(...links, ...outcome.flows.map(flow => row(`flow ${flow.name}, ${flow.kind}`, flow)));
  part(".facts").textContent = `${outcome.events} events. The same by the program: suimon sim FILE.`;
  part(".result").hidden = false;
}

/* Where it begins: an example, or what a link shares. */

async function open() {
  const [word, shared] = [decodeURIComponent(location.hash.slice(1)), location.hash.match(/^#s=([\w-]+)$/)];
  if (shared) {
    try {
      const { text: its, seed, point } = await unpacked(shared[1]);
      form.example.value = "";
      return put(its, seed, point);
    } catch (_) {
      tell("This link is not whole: nothing was shared by it", true);
    }
  }
  const found = EXAMPLES.find(example => example.path === word) ?? EXAMPLES.find(example => example.path === FIRST);
  form.example.value = found.path;
  put(found.text, "", 1);
}

function put(its, seed, point) {
  if (running) form.requestSubmit();
  text.value = its;
  form.seed.value = seed ?? "";
  form.point.replaceChildren(option(String(point ?? 1), point ?? 1));
  part(".sweep").hidden = true;
  text.scrollTop = 0;
  shown = undefined;
  show({ diagnostics: [] });
  check();
  if (words) run();
}

form.example.addEventListener("change", () => {
  const next = `#${form.example.value}`;
  if (location.hash === next) open(); else location.hash = next;
});
addEventListener("hashchange", open);

part(".share").addEventListener("click", async () => {
  const word = await packed({ text: text.value, seed: form.seed.value, point: Number(form.point.value || 1) });
  history.replaceState(null, "", `#s=${word}`);
  const copied = await navigator.clipboard?.writeText(location.href).then(() => true, () => false);
  tell(copied ? "The address of this page has it all, and is copied" : "The address of this page has it all: copy it");
});

(async () => {
  try {
    compiled = await WebAssembly.compile(await through(bytesOf(MODULE), new DecompressionStream("gzip")));
    start();
    await open();
  } catch (why) {
    tell(`This browser cannot run it: ${why.message}`, true);
  }
})();
})();
