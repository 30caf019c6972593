// One's own runs: what differs and what limits, first as a sentence; then the facts, rates and bills.

/** The unit in which people read a number, and how many of the unit without prefix it is. */
const unitOf = (name, unit = "") => {
  // Of a sum, all parts have the same.
  const of = data.rates[name.split("+")[0].trim()];
  return of?.unit ? [of.unit, of.size] : [unit, 1];
};
const numberText = (name, value, plain) => {
  const [unit, size] = unitOf(name, plain);
  return unit === name ? num(value / size, 5) : `${num(value / size, 5)} ${unit}`.trim();
};

/** A resource at so much of its limit is what limits. */
const FULL = 0.97;
/** Relative changes below this are not told. */
const LEAST = 0.001;

/** A share's resource: `inbound_link_share` is "inbound link". */
const resource = (name) => words(name.replace(/(_busy)?_share$/, "")).replace("cpu", "CPU").replace("irq", "interrupt");

/** The sum of each part of a packet's bill. */
const billSums = (run) => data.parts.map((part) => [part, d3.sum(partOf(part, [run]).flatMap((i) => i.parts ?? [i]), (i) => i.values[0])]);

/** What limits a run: its most used resource, and whether that is at its limit. */
function limitOf(run) {
  const [name, share] = Object.entries(run.limits)[0] ?? [];
  return name && { name: resource(name), share, full: share >= FULL };
}

const sharePercent = (share) => `${num(Math.min(share, 1) * 100, 2)} %`;

/** A sentence about what limits each of the runs. */
function limitText(runs, labels) {
  if (runs.every((r) => r.limit)) {
    const said = (r) => r.limit.said;
    return runs.length === 1 ? `The limit is ${said(runs[0])}.` : `Limits: ${runs.map((r, i) => `${labels[i]}: ${said(r)}`).join("; ")}.`;
  }
  const limits = runs.map(limitOf);
  if (limits.some((l) => !l)) return "";
  if (runs.length === 1) {
    const [l] = limits;
    return l.full ? `The limit is the ${l.name}, ${sharePercent(l.share)} used.` : `Nothing is at its limit; the nearest is the ${l.name}, ${sharePercent(l.share)} used.`;
  }
  const each = limits.map((l, i) => `${labels[i]}: the ${l.name}, ${sharePercent(l.share)} used${l.full ? ", at its limit" : ""}`);
  return `Nearest to its limit: ${each.join("; ")}.`;
}

/** Whether the packet rates of two runs differ by more than their errors. */
function ratesDiffer([a, b]) {
  const [x, y] = [a, b].map((r) => r.rates.packets_per_s);
  const error = (a.rates_error.packets_per_s ?? 0) + (b.rates_error.packets_per_s ?? 0);
  return Math.abs(y - x) > Math.max(error, LEAST * x);
}

/** What differs between two runs: the packet rate and what changed most of CPU and bus; then the rest. */
function difference([a, b], [first, second]) {
  const [x, y] = [a, b].map((r) => r.rates.packets_per_s);
  const [was, is] = [x, y].map((v) => numberText("packets_per_s", v));
  const size = (change) => percent(Math.abs(change)).slice(1);
  const rate = ratesDiffer([a, b]) ? `${second} sends ${size(y / x - 1)} ${y > x ? "more" : "fewer"} packets than ${first}, ${was} → ${is}` : `${second} is as fast as ${first}, ${is}`;
  const before = billSums(a);
  const changes = billSums(b)
    .map(([part, sum], i) => ({ part, change: before[i][1] ? sum / before[i][1] - 1 : sum ? Infinity : 0 }))
    .filter((c) => Math.abs(c.change) > LEAST);
  const told = ({ part, change }) => {
    const title = part.title.replace(/^[A-Z](?![A-Z])/, (t) => t.toLowerCase());
    return Number.isFinite(change) ? `${size(change)} ${change > 0 ? "more" : "fewer"} ${title}` : `${title}, of which ${first} has none`;
  };
  const main = d3.greatest(changes.filter((c) => ["cycles", "bytes"].includes(c.part.name)), (c) => Math.abs(c.change)) ?? changes[0];
  const rest = changes.filter((c) => c !== main).map(told).join(", ");
  return { title: `${rate}; a packet costs ${main ? told(main) : "the same"}`, rest: rest && `Besides: ${rest}.` };
}

/** The conclusion of one's own runs, for the head of the page. */
function conclusion(runs, labels) {
  if (runs.length === 2) return difference(runs, labels);
  if (runs.length === 1) return { title: `${labels[0]}: ${numberText("packets_per_s", runs[0].rates.packets_per_s)}, ${num(runs[0].per_packet.cycles ?? 0)} CPU cycles a packet`, rest: "" };
  const fastest = d3.maxIndex(runs, (r) => r.rates.packets_per_s);
  const cycles = runs.map((r) => r.per_packet.cycles ?? 0);
  const cheapest = d3.minIndex(cycles);
  return {
    title: `Of ${runs.length} runs ${labels[fastest]} is the fastest, ${numberText("packets_per_s", runs[fastest].rates.packets_per_s)}`,
    rest: `The fewest CPU cycles a packet: ${labels[cheapest]}, ${num(cycles[cheapest])}.`,
  };
}

/** Where a run comes from: all that one needs to make it again. */
function factsOf(result, { label, of, command, more = [], audit }) {
  const quoted = (text) => (/^[\w.,=:/@+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
  const line = command && ["doorbell", ...command].map((word) => quoted(word)).join(" ");
  const each = [of].flat();
  const all = (f) => [...new Set(each.map(f))].join("; ");
  const facts = [
    ["is", all((o) => o.about)],
    ["command", line && el("code", { text: line })],
    ["profile", all((o) => `${o.profile}, SHA-256 ${o.profile_sha256.slice(0, 12)}`)],
    ["capture", all((o) => (o.capture_sha256 ? `SHA-256 ${o.capture_sha256.slice(0, 12)}` : ""))],
    ...more,
    ["made", [result.date, `doorbell ${result.doorbell.version}${result.doorbell.commit ? ` (${result.doorbell.commit})` : ""}`].filter(Boolean).join(", ")],
  ].filter(([, v]) => v);
  return el("div", { class: "panel facts" }, label && el("h3", { text: label }), el("dl", {}, facts.map(([k, v]) => [el("dt", { text: k }), el("dd", {}, v)]).flat()),
    audit?.length ? el("p", { class: "miss-note bad" }, el("strong", { text: "The audit failed. " }), audit.join("; ")) : null);
}

const options = (name, values) => values.flatMap((v) => [name, v]);
const factsOfRun = (run, label) => factsOf(run, {
  label, of: run, audit: run.audit,
  command: ["run", run.scenario, ...options("--set", run.set)],
  more: [["packets", `${num(run.packets, 12)} in ${num(run.seconds * 1000)} ms, seed ${run.seed}`], ["rates", run.window.note]],
});

/** A metric's name, which may be broken behind its underscores. */
const named = (name) => el("code", { class: "name" }, name.split(/(?<=_)/).flatMap((part) => [part, el("wbr")]));

/** Rates by interest: packets, bits, the resources by their use, the rest. */
function rateNames(runs) {
  const names = [...new Set(runs.flatMap((r) => Object.keys(r.rates)))];
  const limits = Object.keys(runs[0].limits);
  const place = (n) => (n === "packets_per_s" ? 0 : data.rates[n]?.more ? 1 : limits.includes(n) ? 2 + limits.indexOf(n) : 2 + limits.length);
  return names.filter((n) => runs.some((r) => r.rates[n])).sort((a, b) => place(a) - place(b));
}

function ratesOf(runs, labels) {
  const changed = (n) => {
    const [a, b] = runs.map((r) => r.rates[n] ?? 0);
    const share = a ? b / a - 1 : null;
    const told = share === null ? "" : percent(share);
    // More packets and bits are better; a share or a rate of events may be high for a good reason.
    const judged = (data.rates[n]?.more ?? null) !== null && share && ratesDiffer(runs);
    const better = judged ? share > 0 === data.rates[n].more : null;
    const sign = better === null ? "" : better ? " ▲" : " ▼";
    const word = better === null ? null : el("span", { class: "hide", text: better ? " better" : " worse" });
    return el("td", { class: `n ${better === null ? "" : better ? "holds" : "miss"}` }, `${told}${sign}`, word);
  };
  const cell = (r, n) => el("td", { class: "n", text: r.rates[n] === undefined ? "" : numberText(n, r.rates[n]) });
  const two = runs.length === 2;
  const row = (n) => el("tr", {}, el("th", { scope: "row" }, named(n)), runs.map((r) => cell(r, n)), two ? changed(n) : null);
  const heads = [...labels, ...(two ? ["change"] : [])];
  const head = el("tr", {}, el("th", { scope: "col", text: "Rate" }), heads.map((l) => el("th", { scope: "col", class: "n", text: l })));
  const table = el("table", {}, el("thead", {}, head), el("tbody", {}, rateNames(runs).map(row)));
  return el("div", { class: "panel" }, el("div", { class: "wide", tabindex: "0", role: "group", "aria-label": "Rates" }, table));
}

/** The names of runs, no two alike. */
const labelsOf = (runs) => runs.map((r, i) => (runs.findIndex((o) => o.label === r.label) === i ? r.label : `${r.label} (${i + 1})`));

/** One's own runs, side by side. */
function runsSection(runs) {
  link("runs", "runs");
  const labels = labelsOf(runs);
  const section = el("section", { id: "runs", "aria-labelledby": "runs-h" }, el("h2", { id: "runs-h", text: runs.length > 1 ? "Runs" : `Run: ${runs[0].scenario}` }));
  section.append(ratesOf(runs, labels), el("h3", { text: "A packet’s bill" }), billOf(runs, labels));
  const latency = latencyOf(runs, labels);
  if (latency) section.append(el("h3", { text: "Latency" }), key(labels, sideColours(labels)), latency);
  const series = seriesOf(runs, labels);
  if (series) section.append(el("h3", { text: "Over time" }), ...series);
  section.append(el("h3", { text: "Where it comes from" }), el("div", { class: "grid" }, runs.map((r, i) => factsOfRun(r, labels[i]))));
  return section;
}
