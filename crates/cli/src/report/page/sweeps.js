// Sweeps and rankings: numbers over a key's values, and choices of settings against each other.

/** All numbers of a sweep by name: each with the row's keys, the value of --across or null, and its place for people. */
function cellsOf(sweep, name) {
  const [across] = Object.keys(sweep.across);
  return sweep.rows.flatMap(({ keys, values }) => {
    const at = Object.entries(keys).map(([key, v]) => `${key}=${v}`);
    if (!across) return [{ keys, side: null, value: values[name], at: at.join(", ") }];
    return Object.entries(values[name]).map(([side, value]) => ({ keys, side, value, at: [...at, `${across}=${side}`].join(", ") }));
  });
}

const namesOf = (sweep) => Object.keys(sweep.rows[0]?.values ?? {});

/** A sentence about a sweep: the least and the most of its first number. */
function sweepTitle(sweep) {
  const [name] = namesOf(sweep);
  const cells = cellsOf(sweep, name);
  const [least, most] = [d3.least(cells, (c) => c.value), d3.greatest(cells, (c) => c.value)];
  const text = (c) => numberText(name, c.value, sweep.units[name]);
  if (least.value === most.value) return `${sweep.label}: ${name} is ${text(least)} everywhere`;
  return `${sweep.label}: ${name} from ${text(least)} at ${least.at} to ${text(most)} at ${most.at}`;
}

/** What the second of two values of --across changes, for each number. */
function sweepChanges(sweep) {
  const [[key, sides] = []] = Object.entries(sweep.across);
  if (sides?.length !== 2) return "";
  const each = namesOf(sweep).map((name) => {
    const changes = sweep.rows.map(({ values }) => values[name][sides[1]] / values[name][sides[0]] - 1).filter(Number.isFinite);
    const [least, most] = d3.extent(changes).map((c) => percent(c));
    return changes.length && `${name} ${least === most ? `by ${least}` : `by ${least} to ${most}`}`;
  });
  const told = each.filter(Boolean);
  return told.length ? `${key}=${sides[1]} instead of ${sides[0]} changes ${told.join(", ")}.` : "";
}

/** A number of a sweep over its last key; a line for each combination of the others. */
function sweepChart(sweep, name) {
  const keys = Object.keys(sweep.over);
  const key = keys.at(-1);
  const [across] = Object.keys(sweep.across);
  const [unit, size] = unitOf(name, sweep.units[name]);
  const label = (c) => [...keys.slice(0, -1).map((k) => `${k}=${c.keys[k]}`), c.side !== null && `${across}=${c.side}`].filter(Boolean).map(setting).join(", ");
  const lines = d3.groups(cellsOf(sweep, name), label);
  const labels = lines.map(([label]) => label);
  const colours = sideColours(labels);
  return [labels, colours, linesOver({
    title: name, about: `${unit && unit !== name ? `${unit}, ` : ""}over ${key}`, key, unit: sweep.units[key] ?? "", labels, colours,
    lines: lines.map(([, cells]) => cells.map((c) => ({ x: c.keys[key], y: c.value / size }))),
    value: (y) => numberText(name, y * size, unit),
    source: `runs of ${sweep.of.scenario}`,
  })];
}

const axesOf = (all) => Object.entries(all).map(([key, values]) => `${key}=${values.join(",")}`);

function sweepSection(sweep, id, isHead) {
  link(id, sweep.label);
  const charts = namesOf(sweep).map((name) => sweepChart(sweep, name));
  const [labels, colours] = charts[0];
  const { scenario, set } = sweep.of;
  return el("section", { id, "aria-labelledby": `${id}-h` },
    el("h2", { id: `${id}-h`, text: `Sweep: ${sweep.label}` }), isHead ? null : el("p", { text: `${sweepTitle(sweep)}.` }), el("p", { text: sweepChanges(sweep) }),
    el("h3", { text: `Over ${Object.keys(sweep.over).at(-1)}` }), labels.length > 1 ? key(labels, colours) : null, el("div", { class: "grid" }, charts.map(([, , chart]) => chart)),
    el("h3", { text: "Where it comes from" }), factsOf(sweep, {
      of: sweep.of, audit: sweep.rows.flatMap((r) => r.audit),
      command: ["sweep", scenario, ...options("--over", axesOf(sweep.over)), ...options("--across", axesOf(sweep.across)), ...options("--show", namesOf(sweep)), ...options("--set", set)],
    }));
}

/** A sentence about a ranking: which sides are better than the first, and where. */
function rankTitle(rank) {
  const [first] = rank.sides.map((s) => s.name);
  const others = rank.sides.slice(1).map((s) => s.name);
  if (rank.series) return `${rank.label}: ${rank.series} of ${rank.sides.map((s) => s.name).join(", ")} over time`;
  if (rank.seeds) return `${rank.label}: ${first} is dominated in ${rank.dominated.length} of ${count(rank.runs, "run")}`;
  const where = (verdict) => d3.groups(rank.rows.filter((r) => r.against_first === verdict), (r) => r.side).map(([side, rows]) => [side, rows.map((r) => r.scenario).join(", ")]);
  const better = where("dominates").map(([side, at]) => `${side} dominates ${first} in ${at}`);
  return `${rank.label}: ${better.length ? better.join("; ") : `${first} is not dominated by ${others.join(" or ")}`}`;
}

const against = (text) => el("td", { class: text === "dominates" ? "holds" : text === "dominated" ? "miss" : null, text });

/** The numbers of a ranking: each side in each scenario, or shares of runs. */
function rankTable(rank) {
  const by = rank.by;
  const cell = (name, v) => el("td", { class: "n", text: v === null || v === undefined ? "" : numberText(name, v, rank.units[name]) });
  const share = (n) => el("td", { class: "n", text: `${((100 * n) / rank.runs).toFixed(1)} %` });
  const first = rank.sides[0].name;
  const names = rank.seeds ? by : Object.keys(rank.rows[0].values);
  const heads = rank.seeds ? ["side", `dominates ${first}`, `dominated by ${first}`, ...by.map((n) => `${n}, median of ${first} / side`)] : ["scenario", "side", ...names, `against ${first}`];
  const row = (r) => rank.seeds
    ? [el("th", { scope: "row", text: r.side }), share(r.dominates_first), share(r.dominated_by_first), by.map((n) => el("td", { class: "n", text: num(r.median_first_over_side[n]) }))]
    : [el("th", { scope: "row", text: r.scenario }), el("td", { text: r.side }), names.map((n) => cell(n, r.values[n])), against(r.against_first)];
  const text = rank.seeds ? 1 : 2;
  const head = el("tr", {}, heads.map((h, i) => el("th", { scope: "col", class: i >= text && i < text + (rank.seeds ? 9 : names.length) ? "n" : null, text: h })));
  const table = el("table", {}, el("thead", {}, head), el("tbody", {}, rank.rows.map((r) => el("tr", {}, row(r).flat()))));
  return el("div", { class: "panel" }, el("div", { class: "wide", tabindex: "0", role: "group", "aria-label": `Ranking ${rank.label}` }, table));
}

/** A row for each place, and on it a dot for each side: `dots` are `{ place, s, value }`, with the number of the side. */
function dotsOf({ title, about, unit, what, labels, colours, dots, source }) {
  if (!dots.length) return null;
  const places = [...new Set(dots.map((d) => d.place))];
  const spread = d3.extent(dots, (d) => d.value);
  const log = spread[0] > 0 && spread[1] / spread[0] > 8;
  const text = (d) => `${num(d.value, 5)} ${unit}`.trim();
  // Sides of one value lie below each other.
  const sides = d3.groups(dots, (d) => d.s).map(([s, list]) => ({ s, list, dy: (s - (labels.length - 1) / 2) * 6 }));
  return el("div", { class: "panel" }, chart({
    title, about,
    draw: (width) => Plot.plot({
      width, height: 44 + (16 + 6 * labels.length) * places.length, marginLeft: Math.min(room(places), width * 0.5), marginRight: 18, marginTop: 4, marginBottom: 26,
      x: { type: log ? "log" : "linear", label: null, tickFormat: (x) => num(x, 3), zero: !log, ticks: log ? powers(spread, 4) : 4, inset: 8 },
      y: { type: "point", label: null, domain: places, tickSize: 0, padding: 0.6 },
      color: { type: "identity" },
      marks: [
        Plot.gridX({ stroke: "var(--rule)", strokeOpacity: 1, ticks: log ? powers(spread, 4) : 4 }),
        ...sides.map(({ s, list, dy }) => Plot.dot(list, { x: "value", y: "place", dy, r: 4.2, fill: colours[s], stroke: "var(--card)" })),
      ],
    }),
    marks: (svg) => [...svg.querySelectorAll("g[aria-label=dot]")].flatMap((g, i) => [...g.children].map((node) => {
      const d = sides[i].list[node.__data__];
      return { node, label: `${d.place}, ${labels[d.s]}: ${text(d)}`, what: () => pairs(d.place, [[labels[d.s], text(d)], ["is", title], ["source", source]]) };
    })),
    row: () => places.length,
    table: { heads: [what, ...labels], rows: () => places.map((place) => [place, ...labels.map((_, s) => { const d = dots.find((d) => d.place === place && d.s === s); return d ? num(d.value, 5) : ""; })]) },
  }));
}

/** The direction in which a number, or a sum of numbers, is better. */
const betterOf = (name) => (data.rates[name.split("+")[0].trim()]?.more ? "more" : "less");

/** A number by which sides were ranked. */
function rankChart(rank, name, labels, colours) {
  const [unit, size] = unitOf(name, rank.units[name]);
  const dots = rank.rows.filter((r) => r.values[name] !== null).map((r) => ({ place: r.scenario, s: labels.indexOf(r.side), value: r.values[name] / size }));
  return dotsOf({ title: name, about: `${unit ? `${unit}; ` : ""}${betterOf(name)} is better`, unit, what: "scenario", labels, colours, dots, source: "the run's result" });
}

function rankSection(rank, id, isHead) {
  link(id, rank.label);
  const labels = rank.sides.map((s) => s.name);
  const colours = sideColours(labels);
  const section = el("section", { id, "aria-labelledby": `${id}-h` }, el("h2", { id: `${id}-h`, text: `Ranking: ${rank.label}` }), isHead ? "" : el("p", { text: `${rankTitle(rank)}.` }));
  const dominance = `A side dominates another if it has ${rank.by.map((name) => `${betterOf(name)} ${name}`).join(" and ")}, by more than ${num(rank.noise_percent)} %.`;
  if (rank.series) {
    const [title, unit] = NAMES[rank.series] ?? [words(rank.series), ""];
    section.append(el("h3", { text: "Over time" }), key(labels, colours), linesOver({
      title, about: unit ? `${unit}, over the run's time in ms` : "over the run's time in ms", key: "time", unit: "ms", labels, colours, curve: "step-after",
      lines: labels.map((side) => rank.points[side].map(([x, y]) => ({ x, y }))), source: `the runs' series ${rank.series}`,
    }));
  } else {
    section.append(el("p", { class: "soft", text: dominance }), rankTable(rank));
    if (!rank.seeds) section.append(el("h3", { text: "Side by side" }), key(labels, colours), el("div", { class: "grid" }, rank.by.map((name) => rankChart(rank, name, labels, colours)).filter(Boolean)));
  }
  const shown = Object.keys(rank.rows?.[0].values ?? {}).filter((n) => !rank.by.includes(n));
  const sides = rank.sides.map((s) => (s.name === s.set.join(",") ? s.name : `${s.name}:${s.set.join(",")}`));
  section.append(el("h3", { text: "Where it comes from" }), factsOf(rank, {
    of: rank.of,
    command: ["rank", ...rank.of.map((o) => o.scenario), ...options("--side", sides), ...options("--by", rank.by), ...(rank.seeds ? ["--seeds", rank.seeds.join("-")] : []), ...(rank.series ? ["--series", rank.series, "--every", `${rank.every}`] : options("--show", shown)), "--noise", `${rank.noise_percent}`, ...options("--set", rank.of[0].set)],
  }));
  return section;
}
