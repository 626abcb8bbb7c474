// The page's behaviour: unpacks the data and the chart library, draws what is looked at, and no more.
// Text from the log reaches the page as text nodes only; in charts, which read a kind of markup, it is escaped.

const el = (id) => document.getElementById(id);

async function unpacked(id) {
  const packed = atob(el(id).content.textContent.trim());
  const bytes = new Uint8Array(packed.length);
  for (let at = 0; at < packed.length; at += 1) bytes[at] = packed.charCodeAt(at);
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

function make(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// --- times ---

const LAST_MS = 253402300799999; // The end of the year 9999: what a log says may be no time at all.
const utc = (ms) => new Date(Math.min(Math.max(ms, 0), LAST_MS)).toISOString();
const clock = (ms) => utc(ms).slice(11, -1);
const after = (ms) => `${ms < page.begin_ms ? "-" : "+"}${(Math.abs(ms - page.begin_ms) / 1000).toFixed(3)}s`;
const time = (ms) => make("time", { datetime: utc(ms), title: utc(ms) }, clock(ms));
const short = (text) => text.replace(/system:serviceaccount:[^:\s]+:/g, "");

// --- charts ---

const MOVED = ["#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
const MOVED_INK = ["#000000", "#ffffff", "#000000", "#000000", "#000000", "#000000"];
const LANES_MAX = 64;
const drawn = new Map();

const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
const paint = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function layout(height, more) {
  const axis = { gridcolor: paint("line"), linecolor: paint("line"), zeroline: false };
  const { xaxis, yaxis, ...rest } = more;
  return {
    height, margin: { l: 48, r: 16, t: 8, b: 40 }, paper_bgcolor: paint("paper"), plot_bgcolor: paint("paper"),
    font: { color: paint("ink"), family: "system-ui, sans-serif", size: 12 },
    hoverlabel: { bgcolor: paint("raised"), bordercolor: paint("line"), font: { color: paint("ink") } },
    legend: { orientation: "h", y: 1, yanchor: "bottom", x: 0, traceorder: "normal" }, hovermode: "x unified",
    xaxis: { type: "date", ...axis, ...xaxis }, yaxis: { rangemode: "tozero", ...axis, ...yaxis }, ...rest,
  };
}

// A drawing is a function that gives traces and layout anew, so that it can be drawn again in other colours. What was
// closed again before the library was there is not drawn.
async function draw(box, drawing) {
  drawn.set(box, drawing);
  await library;
  if (!drawn.has(box)) return;
  const [traces, shape] = drawing();
  await Plotly.react(box, traces, shape, { responsive: true, displaylogo: false, displayModeBar: false });
}

async function load() {
  document.head.append(make("script", {}, await unpacked("charts")));
}

const stepTimes = () => page.steps.levels.map((_, step) => page.steps.begin_ms + step * page.steps.width_ms);
const LINES = [["pods", "daemon pods"], ["pods_ready", "pods Ready"], ["rows", "rows"], ["rows_ready", "rows Ready"]];
const BARS = [["accepted", "went through", "rows"], ["conflicts", "409 conflict", "conflict"],
  ["throttled", "429 throttled", "throttle"], ["refused", "refused otherwise", "quiet"]];

function levelsChart() {
  const x = stepTimes().map((ms) => ms + page.steps.width_ms);
  const traces = LINES.map(([field, name]) => ({
    type: "scatter", mode: "lines", name, x, y: page.steps.levels.map((level) => level[field]),
    line: { shape: "hv", width: field === "rows_ready" ? 3 : 1.5, color: paint(field.replace("_", "-")),
      dash: field.startsWith("pods") ? "dot" : "solid" },
  }));
  return [traces, layout(280, {})];
}

function writesChart(x, counts, height) {
  const traces = BARS.filter(([field]) => field === "accepted" || counts[field].some((count) => count)).map(
    ([field, name, colour]) => ({
      type: "bar", name, x, y: counts[field], offset: 0, width: page.steps.width_ms, marker: { color: paint(colour), line: { width: 0 } },
    }));
  const most = Math.max(0, ...x.map((_, at) => BARS.reduce((sum, [field]) => sum + counts[field][at], 0)));
  return [traces, layout(height, {
    barmode: "stack", showlegend: true, xaxis: { range: [page.begin_ms, ending()] }, yaxis: most < 5 ? { dtick: 1 } : {},
  })];
}

const ending = () => Math.max(page.end_ms, page.begin_ms + 1);

function writesOfAll() {
  return writesChart(stepTimes(), Object.fromEntries(
    BARS.map(([field]) => [field, page.steps.writes.map((writes) => writes[field])])), 240);
}

function writesOf(clique) {
  const counts = Object.fromEntries(BARS.map(([field], place) => [field, clique.steps.map((step) => step[place + 1])]));
  return writesChart(clique.steps.map(([step]) => page.steps.begin_ms + step * page.steps.width_ms), counts, 170);
}

// One lane for each index from 0 on; where a log names odd ones, for those that it names.
function lanesOf(clique) {
  const named = [...new Set(clique.holdings.map((one) => one.index))].sort((one, other) => one - other);
  const most = named.at(-1) ?? 0;
  return named[0] >= 0 && most < LANES_MAX ? Array.from({ length: most + 1 }, (_, index) => index) : named;
}

function indexChart(clique) {
  const lanes = lanesOf(clique);
  const lane = new Map(lanes.map((index, at) => [index, at]));
  const ends = clique.holdings.map((one) => one.end_ms ?? ending());
  const colour = (one) => clique.moved.indexOf(one.node);
  const bars = {
    type: "bar", orientation: "h", showlegend: false, y: clique.holdings.map((one) => lane.get(one.index)),
    base: clique.holdings.map((one) => one.begin_ms), x: clique.holdings.map((one, at) => ends[at] - one.begin_ms),
    width: 0.82, text: clique.holdings.map((one) => plain(one.node)), textposition: "inside", insidetextanchor: "start",
    textangle: 0, constraintext: "none",
    insidetextfont: { color: clique.holdings.map((one) => (colour(one) < 0 ? paint("bar-ink") : MOVED_INK[colour(one) % MOVED.length])) },
    marker: {
      color: clique.holdings.map((one) => (colour(one) < 0 ? paint("bar") : MOVED[colour(one) % MOVED.length])),
      line: { color: paint("paper"), width: 1 },
      pattern: { shape: clique.holdings.map((one) => (one.inferred ? "/" : "")), fillmode: "replace", size: 6 },
    },
    hovertext: clique.holdings.map((one, at) =>
      `${plain(one.node)}: index ${one.index}<br>${clock(one.begin_ms)} to ${one.end_ms === null ? "the end" : clock(ends[at])}` +
      (one.end_cause ? `<br>${plain(short(one.end_cause))}` : "")),
    hoverinfo: "text",
  };
  const named = clique.marks.filter((mark) => lane.has(mark.index));
  const marks = {
    type: "scatter", mode: "markers", name: "finding", x: named.map((mark) => mark.time_ms), y: named.map((mark) => lane.get(mark.index)),
    marker: { symbol: "diamond", size: 9, color: named.map((mark) => paint(mark.severity)), line: { color: paint("paper"), width: 1 } },
    hovertext: named.map((mark) => `${plain(mark.code)}<br>${plain(mark.node)}`), hoverinfo: "text", showlegend: false,
  };
  return [[bars, marks], layout(60 + 24 * Math.min(Math.max(lanes.length, 2), LANES_MAX), {
    hovermode: "closest", barmode: "overlay", uniformtext: { minsize: 9, mode: "hide" },
    xaxis: { range: [page.begin_ms, ending()] },
    yaxis: {
      range: [lanes.length - 0.5, -0.5], showgrid: false, title: { text: "index" }, tickvals: lanes.map((_, at) => at), ticktext: lanes.map(String),
    },
  })];
}

// --- the section of a clique ---

const recordLink = (position) =>
  make("a", { class: "record", href: `#record-${position.replace("/", "-")}`, "aria-label": `record ${position}` }, position);

function table(label, heads, rows) {
  const head = make("tr", {}, ...heads.map((text) => make("th", { scope: "col" }, text)));
  const made = make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows));
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, made);
}

const row = (head, ...cells) => make("tr", {}, make("th", { scope: "row" }, head), ...cells.map((cell) => make("td", {}, ...cell)));

function holdingRow(one) {
  const moment = (ms, position) => [time(ms), " ", make("span", { class: "after" }, after(ms)), " ", recordLink(position)];
  return row(String(one.index), [one.node], moment(one.begin_ms, one.begin),
    one.end_ms === null ? ["held"] : moment(one.end_ms, one.end),
    [short(one.end_cause || one.cause), ...(one.inferred ? [make("em", {}, ` Inferred: ${one.inferred}.`)] : [])]);
}

function fill(details) {
  const clique = page.cliques[Number(details.id.slice("clique-".length))];
  const body = details.querySelector(".body");
  if (body.hasChildNodes()) return;
  const chart = (label) => make("div", { class: "chart", role: "img", "aria-label": label });
  const figure = (caption, box) => make("figure", {}, make("figcaption", {}, caption), box);
  const index = chart("Bars over time, one lane an index; the table below has the same");
  const writes = chart("Bars over time: writes of this clique's object");
  body.append(
    figure("Who held which index: one lane an index. Hatched is inferred; a diamond is a finding.", index),
    figure("Writes of this clique's object", writes),
    ...(clique.holdings_left_out ? [make("p", {}, `${clique.holdings_left_out} older holdings are left out here; cliquelog audit --clique lists them.`)] : []),
    table("Holdings", ["index", "node", "from", "to", "why"], clique.holdings.map(holdingRow)));
  draw(index, () => indexChart(clique));
  draw(writes, () => writesOf(clique));
}

function empty(details) {
  for (const box of details.querySelectorAll(".chart")) {
    drawn.delete(box);
    globalThis.Plotly?.purge(box);
  }
  details.querySelector(".body").replaceChildren();
}

// --- the record view ---

function recordBody(position) {
  const view = page.views[position];
  const title = make("h2", { id: "record-title", tabindex: "-1" }, `Record ${position}`);
  if (!view) return [title, make("p", {}, "This record is not in the page: it was left out to bound the page's size.")];
  const pairs = [["type", view.type], ["time", `${utc(view.time_ms)} (${after(view.time_ms)})`], ["key", view.key],
    ["source", view.source], ["written by", view.writer], ["inferred", view.inferred], ["its time is from", view.dated]];
  const list = (entries) => make("dl", {}, ...entries.filter(([, value]) => value).flatMap(
    ([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
  const parts = [title, list(pairs), make("h3", {}, "What it says"), list(view.fields)];
  if (view.effect) parts.push(make("h3", {}, "What it changed"), make("ul", {}, ...view.effect.map((text) => make("li", {}, text))));
  if (view.rows) {
    const sorted = [...view.rows].sort((one, other) => (one.index ?? -1) - (other.index ?? -1));
    parts.push(make("h3", {}, "Rows"), table("Rows", ["index", "node", "address", "status"],
      sorted.map((one) => row(one.index ?? "none", [one.node], [one.ip ?? "none"], [one.status ?? "NotReady"]))));
  }
  return parts;
}

function follow() {
  const record = /^#record-(\d+)-(\d+)$/.exec(location.hash);
  if (record) {
    el("record-body").replaceChildren(...recordBody(`${record[1]}/${record[2]}`));
    if (!el("record").open) el("record").showModal();
    el("record-title").focus();
    return;
  }
  if (el("record").open) el("record").close();
  const target = location.hash.length > 1 ? el(location.hash.slice(1)) : null;
  if (target instanceof HTMLDetailsElement) {
    target.hidden = false;
    target.open = true;
    target.querySelector("summary").focus();
    target.scrollIntoView();
  }
}

// --- filter and order ---

const natural = new Intl.Collator("en", { numeric: true });
const ORDERS = {
  worst: (one, other) => one.number - other.number,
  slowest: (one, other) => (other.formed_after_ms ?? Infinity) - (one.formed_after_ms ?? Infinity) || one.number - other.number,
  writes: (one, other) => other.writes.accepted + other.writes.conflicts - one.writes.accepted - one.writes.conflicts,
  clique: (one, other) => natural.compare(one.clique, other.clique),
};

function filter() {
  const words = el("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const clique of page.cliques) {
    clique.text ??= [clique.clique, clique.domain, clique.domain_name, ...clique.holdings.map((one) => one.node)].join(" ").toLowerCase();
    const matches = words.every((word) => clique.text.includes(word)) && !(el("only").checked && !clique.marks.length);
    el(`clique-${clique.number}`).hidden = !matches;
    shown += Number(matches);
  }
  el("shown").textContent = `${shown} of ${page.cliques.length}`;
}

function order() {
  const sorted = [...page.cliques].sort(ORDERS[el("order").value]);
  el("list").append(...sorted.map((clique) => el(`clique-${clique.number}`)));
}

// --- start ---

async function redraw() {
  await Promise.all([...drawn].map(([box, drawing]) => draw(box, drawing)));
}

function listen() {
  el("filter").addEventListener("input", filter);
  el("only").addEventListener("change", filter);
  el("order").addEventListener("change", order);
  el("tools").form.addEventListener("submit", (event) => event.preventDefault());
  el("list").addEventListener("toggle", (event) => (event.target.open ? fill : empty)(event.target), { capture: true });
  el("record").addEventListener("close", () => {
    if (location.hash.startsWith("#record-")) history.replaceState(null, "", "#");
  });
  addEventListener("hashchange", follow);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  const printed = matchMedia("print");
  printed.addEventListener("change", async () => {
    await redraw();
    for (const box of drawn.keys()) Plotly.relayout(box, printed.matches ? { width: 680 } : { width: null, autosize: true });
  });
}

// Findings, records and the filter can be used before the charts, whose library takes longest, are there.
let page;
let library;
try {
  page = JSON.parse(await unpacked("data"));
  library = load();
  listen();
  el("tools").disabled = false;
  const charts = page.records ? [draw(el("levels"), levelsChart), draw(el("writes"), writesOfAll)] : [];
  const worst = page.cliques[0];
  if (worst && (worst.errors || worst.moved.length)) el("clique-0").open = true;
  follow();
  await Promise.all([library, ...charts]);
  document.querySelector("main").setAttribute("aria-busy", "false");
} catch (error) {
  el("trouble").textContent = `The charts and the records cannot be shown: ${error.message}. A browser of mid-2023 or later can unpack them.`;
  el("trouble").hidden = false;
  throw error;
}
