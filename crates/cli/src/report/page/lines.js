// Lines: series over time, latencies, curves; and the bars of a sensitivity run.

const NAMES = {
  setting_packets: ["Setting: packets an interrupt", "packets"],
  setting_delay_us: ["Setting: longest wait", "µs"],
  packets_per_s: ["Packets a second", "packets/s"],
  interrupts_per_s: ["Interrupts a second", "interrupts/s"],
  latency_p99_us: ["Latency, 99th percentile of each millisecond", "µs"],
};

const frame = (width) => ({ width, height: width < 420 ? 210 : 240, marginTop: 14, marginRight: 18, marginBottom: 34 });
const grid = () => Plot.gridY({ stroke: "var(--rule)", strokeOpacity: 1, ticks: 5 });
const axis = (ticks) => ({ label: null, ticks, tickFormat: (v) => num(v, 3), nice: true, zero: true, insetTop: 4 });

/** The ticks of a scale of powers, as many as have room: 1, 2 and 5 of each, or 1 alone. */
function powers([least, most], room) {
  const of = (digits) => d3.range(Math.floor(Math.log10(least)), Math.ceil(Math.log10(most)) + 1)
    .flatMap((power) => digits.map((digit) => digit * 10 ** power)).filter((x) => x >= least * 0.999 && x <= most * 1.001);
  const all = of([1, 2, 5]);
  return all.length <= room ? all : of([1]);
}

/** One series of several runs over time. */
function seriesChart(name, runs, labels) {
  const [title, unit] = NAMES[name] ?? [words(name), ""];
  const colours = sideColours(labels);
  const lines = runs.map((r, s) => (r.series[name] ?? []).map(([x, y]) => ({ x, y, s })));
  const all = lines.flat();
  if (!all.length) return null;
  // A mark every so often: the line has every point.
  const step = Math.max(1, Math.ceil(Math.max(...lines.map((l) => l.length)) / 50));
  const some = lines.flatMap((l) => l.filter((_, i) => i % step === 0));
  const marginLeft = room([num(d3.max(all, (d) => d.y), 3)], 44);
  return el("div", { class: "panel" }, chart({
    title,
    about: unit ? `${unit}, over the run's time in ms` : "over the run's time in ms",
    draw: (width) => Plot.plot({
      ...frame(width), marginLeft,
      x: { label: "ms", labelArrow: "none", ticks: width < 420 ? 4 : 7 },
      y: axis(5),
      color: { type: "identity" },
      marks: [
        grid(),
        ...lines.map((l, s) => Plot.line(l, { x: "x", y: "y", stroke: colours[s], strokeWidth: 1.7, curve: "step-after" })),
        Plot.dot(some, { x: "x", y: "y", r: 4, fill: (d) => colours[d.s], fillOpacity: 0, strokeOpacity: 0, stroke: (d) => colours[d.s] }),
      ],
    }),
    marks: (svg) => elements(svg, "dot", "circle").map((node) => {
      const d = some[node.__data__];
      return {
        node, label: `${labels[d.s]}, ${num(d.x)} ms: ${num(d.y)} ${unit}`,
        what: () => pairs(title, [[labels[d.s], `${num(d.y, 5)} ${unit}`], ["at", `${num(d.x)} ms`], ["source", `the run's series ${name}`]]),
      };
    }),
    row: () => Math.ceil(some.length / runs.length),
    table: {
      heads: ["ms", ...labels],
      rows: () => lines.find((l) => l.length).map((d, i) => [num(d.x), ...lines.map((l) => (l[i] ? num(l[i].y) : ""))]),
    },
  }));
}

const SERIES_FIRST = ["setting_packets", "interrupts_per_s", "packets_per_s", "latency_p99_us"];

/** Every series that moves at all. */
function seriesOf(runs, labels) {
  const there = [...new Set(runs.flatMap((r) => Object.keys(r.series)))];
  const moves = (n) => runs.some((r) => new Set((r.series[n] ?? []).slice(1).map((p) => p[1])).size > 1);
  const rank = (n) => (SERIES_FIRST.indexOf(n) + 99) % 99;
  const names = there.filter(moves).sort((a, b) => rank(a) - rank(b));
  if (!names.length) return null;
  return [key(labels, sideColours(labels)), el("div", { class: "grid" }, names.map((n) => seriesChart(n, runs, labels)))];
}

const QUANTILES = { min: "shortest", p50: "50 %", p90: "90 %", p99: "99 %", p999: "99.9 %", max: "longest" };
const SHARES = { p50: 50, p90: 90, p99: 99, p999: 99.9, max: 100 };

/** How many packets take no longer than so long. */
function latencyOf(runs, labels) {
  const colours = sideColours(labels);
  const has = runs.map((r) => r.latency_histogram_ns.length > 0);
  if (!has.some(Boolean)) return null;
  const least = d3.min(runs.flatMap((r) => r.latency_histogram_ns.map((b) => b[0]).filter((ns) => ns > 0)));
  const lines = runs.map((r, s) => {
    const all = d3.sum(r.latency_histogram_ns, (b) => b[1]);
    let seen = 0;
    const steps = r.latency_histogram_ns.map(([ns, n]) => ({ us: Math.max(ns, least) / 1000, share: (100 * (seen += n)) / all, s }));
    const start = Math.max(r.latency_ns.min ?? 0, least) / 1000;
    return steps.length ? [{ us: start, share: 0, s }, ...steps] : [];
  });
  const dots = runs.flatMap((r, s) => Object.keys(SHARES).filter((q) => r.latency_ns[q] !== undefined)
    .map((q) => ({ q, s, us: Math.max(r.latency_ns[q], least) / 1000, share: SHARES[q] })));
  const of = runs[has.indexOf(true)].latency_of;
  const spread = d3.extent(lines.flat(), (d) => d.us);
  const wide = spread[1] / spread[0] > 8;
  const same = runs.every((r) => Object.entries(runs[0].latency_ns).every(([q, ns]) => Math.abs(r.latency_ns[q] - ns) <= ns / 100));
  return el("div", { class: "panel" }, chart({
    title: "Latency",
    about: `${of}: share of packets that take at most so many µs${runs.length > 1 && same ? "; the same within 1 %" : ""}`,
    draw: (width) => Plot.plot({
      ...frame(width), marginLeft: 48,
      x: { type: wide ? "log" : "linear", label: "µs", labelArrow: "none", ticks: wide ? powers(spread, width < 420 ? 4 : 7) : width < 420 ? 3 : 6, tickFormat: (x) => num(x, 3), nice: !wide },
      y: { label: null, domain: [0, 100], ticks: 5, tickFormat: (y) => `${y} %` },
      color: { type: "identity" },
      marks: [
        grid(),
        ...lines.map((l, s) => Plot.line(l, { x: "us", y: "share", stroke: colours[s], strokeWidth: 1.8, curve: "step-after" })),
        Plot.dot(dots, { x: "us", y: "share", r: 4.2, fill: (d) => colours[d.s], stroke: "var(--card)" }),
      ],
    }),
    marks: (svg) => elements(svg, "dot", "circle").map((node) => {
      const d = dots[node.__data__];
      return {
        node, label: `${labels[d.s]}: ${QUANTILES[d.q]} take at most ${num(d.us)} µs`,
        what: () => pairs(`${labels[d.s]}: ${QUANTILES[d.q]}`, [["at most", `${num(d.us, 5)} µs`], ["is", of], ["source", `measured in the run of ${runs[d.s].scenario}; known to 3 %`]]),
      };
    }),
    row: () => 5,
    table: {
      heads: ["share, in µs", ...labels],
      rows: () => Object.entries(QUANTILES).map(([q, name]) => [name, ...runs.map((r) => (r.latency_ns[q] === undefined ? "" : num(r.latency_ns[q] / 1000, 5)))]),
    },
  }));
}

/** Where the switch pays: what differs by less than a percent is the same. */
function paying(curve, names) {
  const better = curve.at.map(([, off, on]) => {
    const gain = ((curve.more_is_better ? on - off : off - on) / Math.abs(off || 1));
    return gain > 0.01 ? 1 : gain < -0.01 ? -1 : 0;
  });
  const n = (what) => better.filter((b) => b === what).length;
  const parts = [[1, "better"], [-1, "worse"], [0, "the same within 1 %"]].filter(([b]) => n(b)).map(([b, t]) => `${t} at ${n(b)}`);
  return `“${names[1]}” is ${parts.join(", ")} of ${curve.at.length} values.`;
}

/** Values of the key at which the two lines cross. */
function crossings(at) {
  const found = [];
  for (let i = 1; i < at.length; i++) {
    const [a, b] = [at[i - 1], at[i]].map(([, off, on]) => (on - off) / Math.abs(off || 1));
    if (a * b < 0 && Math.max(Math.abs(a), Math.abs(b)) > 0.01) found.push(at[i - 1][0] + ((at[i][0] - at[i - 1][0]) * a) / (a - b));
  }
  return found;
}

/** The scale on which values lie more evenly: true if that is the one of powers. */
function evenerAsPowers(values) {
  const all = d3.sort(new Set(values));
  const gap = (f) => d3.max(d3.pairs(all, (a, b) => f(b) - f(a))) / (f(all.at(-1)) - f(all[0]));
  return all[0] > 0 && all.length > 2 && gap(Math.log) < gap(Number);
}

/**
 * A number over a key's values, numbers or words: a line of points `{ x, y }` for each label. `rules` are places on the
 * horizontal axis with a text each.
 */
function linesOver({ title, about, key, unit, labels, lines, colours, rules = [], curve = "linear", value = (y, digits) => num(y, digits), source }) {
  const all = lines.flatMap((line, s) => line.map((p) => ({ ...p, s })));
  const places = [...new Set(all.map((d) => d.x))];
  const numbers = places.every((x) => typeof x === "number");
  const log = numbers && evenerAsPowers(places);
  const marginLeft = room([num(d3.max(all, (d) => d.y), 3)], 44);
  const at = (x) => (numbers ? `${num(x, 6)} ${unit}`.trim() : `${x}`);
  const scale = (width) => (!numbers ? { type: "point", domain: places, label: null } : {
    type: log ? "log" : "linear", label: unit || null, labelArrow: "none", tickFormat: (x) => num(x, 4),
    ticks: log ? powers(d3.extent(places), width < 420 ? 4 : 7) : width < 420 ? 4 : 7,
  });
  return el("div", { class: "panel" }, chart({
    title, about,
    draw: (width) => Plot.plot({
      ...frame(width), marginLeft,
      x: scale(width),
      y: axis(5),
      color: { type: "identity" },
      marks: [
        grid(),
        Plot.ruleX(rules, { x: "x", stroke: "var(--soft)", strokeDasharray: "3 3" }),
        Plot.text(rules, { x: "x", frameAnchor: "top", dy: -12, text: "text", fill: "var(--soft)" }),
        ...lines.map((line, s) => Plot.line(line, { x: "x", y: "y", stroke: colours[s], strokeWidth: 1.8, curve })),
        Plot.dot(all, { x: "x", y: "y", r: 3.6, fill: (d) => colours[d.s], stroke: "var(--card)" }),
      ],
    }),
    marks: (svg) => elements(svg, "dot", "circle").map((node) => {
      const d = all[node.__data__];
      const others = lines.map((line, s) => [labels[s], line.find((o) => o.x === d.x)]).filter(([, o], s) => o && s !== d.s);
      const named = (label, y) => [label || title, value(y, 5)];
      return {
        node, label: `${labels[d.s] ? `${labels[d.s]}, ` : ""}${key} ${at(d.x)}: ${value(d.y)}`,
        what: () => pairs(`${key} = ${at(d.x)}`, [named(labels[d.s], d.y), ...others.map(([label, o]) => named(label, o.y)), ["source", source]]),
      };
    }),
    row: () => lines[0].length,
    table: {
      heads: [key, ...labels.map((label) => label || title)],
      rows: () => places.map((x) => [at(x), ...lines.map((line) => { const p = line.find((o) => o.x === x); return p ? num(p.y, 5) : ""; })]),
    },
  }));
}

/** A number of both sides over a key's values, and where it is even. */
function curveOf(curve, labels) {
  const cross = crossings(curve.at);
  return linesOver({
    title: `${curve.shown[0].toUpperCase()}${curve.shown.slice(1)}`,
    about: `over ${curve.key} (${curve.about}${curve.unit ? `, ${curve.unit}` : ""}). ${paying(curve, labels)}`,
    key: curve.key, unit: curve.unit ?? "", labels, colours: SIDES, source: `runs of ${curve.scenario}`,
    lines: labels.map((_, s) => curve.at.map((p) => ({ x: p[0], y: p[s + 1] }))),
    rules: cross.length === 1 ? [{ x: cross[0], text: `even at ${num(cross[0], 2)}` }] : [],
  });
}

/** What moves a figure: a bar for each constant, the strongest first. */
function sensitivityOf(system, id) {
  const found = system.sensitivity;
  const judged = system.rows.map((r, at) => ({ r, at })).filter(({ at }) => found.constants.some((c) => c.changes[at]));
  if (!judged.length) return null;
  const select = el("select", { id }, judged.map(({ r, at }) => el("option", { value: at, text: r.name })));
  const wanted = judged.find(({ r }) => r.role === "predicted") ?? judged[0];
  select.value = String(wanted.at);
  const list = () => {
    const at = Number(select.value);
    return found.constants.filter((c) => c.changes[at]).map((c) => ({ c, by: c.changes[at] })).sort((a, b) => Math.abs(b.by) - Math.abs(a.by)).slice(0, 14);
  };
  const constant = (c) => system.constants.find((k) => k.key === c.key);
  // A share of the value, or what it takes to the next value that is allowed.
  const moved = (c) => (c.by.endsWith("%") ? c.by : `${c.by} ${constant(c)?.unit ?? ""}`.trim());
  const name = (c) => (c.by.endsWith("%") ? c.key : `${c.key} ${moved(c)}`);
  const told = () => {
    const all = found.constants.filter((c) => c.changes[Number(select.value)]).length;
    const shown = list().length;
    return `${all} of ${count(found.constants.length, "constant")} move${all === 1 ? "s" : ""} it${shown < all ? `; the ${shown} that move it most` : ""}.`;
  };
  const how = el("p", { class: "soft small", text: told() });
  const figure = chart({
    title: "What a figure follows",
    about: "change of the figure in %, when one constant is moved by 1 %, or by what stands behind its name, and the fits are run again",
    draw: (width) => {
      const bars = list();
      const most = d3.max(bars, (b) => Math.abs(b.by)) || 1;
      return Plot.plot({
        width, height: 44 + 22 * bars.length, marginLeft: Math.min(room(bars.map((b) => name(b.c))), width * 0.5), marginRight: 52, marginTop: 4, marginBottom: 26,
        x: { label: null, ticks: 4, domain: [Math.min(0, ...bars.map((b) => b.by)), Math.max(0, ...bars.map((b) => b.by)) || (bars.some((b) => b.by < 0) ? 0 : most)] },
        y: { label: null, domain: bars.map((b) => name(b.c)), padding: 0.3, tickSize: 0 },
        color: { type: "identity" },
        marks: [
          Plot.gridX({ stroke: "var(--rule)", strokeOpacity: 1, ticks: 4 }),
          Plot.barX(bars, { x: "by", y: (b) => name(b.c), fill: (b) => (b.by < 0 ? "var(--c1)" : "var(--c0)"), rx: 1.5 }),
          Plot.ruleX([0], { stroke: "var(--soft)" }),
        ],
      });
    },
    marks: (svg) => {
      const bars = list();
      return elements(svg, "bar", "rect").map((node) => {
        const { c, by } = bars[node.__data__];
        const from = constant(c);
        return {
          node, label: `${c.key} moved by ${moved(c)}: ${percent(by / 100, 3)}`,
          what: () => pairs(c.key, [["is", from && `${num(from.value)} ${from.unit}`.trim()], ["moved by", moved(c)], ["figure", percent(by / 100, 3)], ["how", c.fitted ? "fitted, so moved alone" : "fits run again"], ["source", from?.source]]),
        };
      });
    },
    table: { heads: ["constant", "moved by", "figure, %"], rows: () => list().map(({ c, by }) => [c.key, moved(c), num(by)]) },
  });
  select.addEventListener("change", () => {
    how.textContent = told();
    figure.querySelector("details")?.replaceWith(asTable("What a figure follows", { heads: ["constant", "moved by", "figure, %"], rows: () => list().map(({ c, by }) => [c.key, moved(c), num(by)]) }));
    figure.redraw();
  });
  return el("div", { class: "panel" }, el("p", {}, el("label", { for: id, text: "Figure " }), select), how, figure);
}
