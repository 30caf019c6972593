// A chart: caption, drawing, the same numbers as a table. Its marks are elements that the keyboard reaches.

const COLOURS = ["var(--c0)", "var(--c1)", "var(--c2)", "var(--c3)", "var(--c4)", "var(--c5)", "var(--c6)", "var(--c7)"];
const SIDES = ["var(--before)", "var(--after)"];
const colourOf = {};

/** The colours of names: the same in each chart of the kind, as long as no two in a chart are alike. */
function coloursOf(kind, names, palette = COLOURS) {
  const known = (colourOf[kind] ??= new Map());
  const taken = new Set();
  const colours = names.map((name) => {
    const colour = known.get(name);
    return colour && !taken.has(colour) && taken.add(colour) ? colour : null;
  });
  const used = new Set(known.values());
  const free = d3.sort(palette.filter((colour) => !taken.has(colour)), (colour) => used.has(colour));
  return colours.map((colour, i) => {
    if (colour) return colour;
    const found = free.shift() ?? "var(--rest)";
    if (!known.has(names[i])) known.set(names[i], found);
    return found;
  });
}

/** The colours of runs or sides: one alone is the new one, of two the first is the old one. */
const sideColours = (labels) => (labels.length === 1 ? [SIDES[1]] : coloursOf("sides", labels, [...SIDES, ...COLOURS.slice(2)]));

/**
 * `draw(width)` gives an SVG; `marks(svg)` its elements that speak, each with a label and a tip; `row()` how many of
 * them the down key goes on; `table` heads and rows.
 */
function chart({ title, change, about, draw, marks, row, table }) {
  const plot = el("div", { class: "plot" });
  const caption = el("figcaption", {}, el("h4", { text: title }), change, about && el("p", { class: "soft small", text: about }));
  const figure = el("figure", { class: "chart" }, caption, plot);
  let speaking = [];
  const redraw = () => {
    const width = Math.floor(plot.clientWidth);
    if (width < 40) return;
    const svg = draw(width);
    svg.setAttribute("role", "group");
    svg.setAttribute("aria-label", `${title}. Arrow keys go from mark to mark.`);
    speaking = [];
    for (const { node, label, what } of marks(svg)) {
      node.setAttribute("role", "img");
      node.setAttribute("aria-label", label);
      node.classList.add("mark");
      explain(node, what);
      speaking.push(node);
    }
    // Axes repeat what the marks and the table say.
    svg.querySelectorAll("g[aria-label*='axis'], g[aria-label*='grid'], g[aria-label='rule'], g[aria-label='text'], g[aria-label='line']").forEach((g) => {
      g.setAttribute("aria-hidden", "true");
      g.removeAttribute("aria-label");
    });
    svg.querySelectorAll("g[aria-label]").forEach((g) => g.removeAttribute("aria-label"));
    if (shownFor && plot.contains(shownFor)) hide();
    plot.replaceChildren(svg);
    rove(plot, () => speaking, row ?? (() => 1));
  };
  let drawn = 0;
  new ResizeObserver(() => {
    if (Math.floor(plot.clientWidth) !== drawn) {
      drawn = Math.floor(plot.clientWidth);
      redraw();
    }
  }).observe(plot);
  if (table) figure.append(asTable(title, table));
  figure.redraw = redraw;
  return figure;
}

/** The numbers of a chart, for those who would rather read them. Filled when it is opened. */
function asTable(title, { heads, rows }) {
  const details = el("details", {}, el("summary", {}, "As a table", el("span", { class: "hide", text: `: ${title}` })));
  details.addEventListener("toggle", () => {
    if (!details.open || details.querySelector("table")) return;
    const head = el("tr", {}, heads.map((h, i) => el("th", { scope: "col", class: i ? "n" : null, text: h })));
    const body = rows().map((r) => el("tr", {}, r.map((c, i) => (i ? el("td", { class: "n", text: c }) : el("th", { scope: "row", text: c })))));
    const inner = el("table", {}, el("thead", {}, head), el("tbody", {}, body));
    details.append(el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": `Table: ${title}` }, inner));
  });
  return details;
}

/** Elements of a mark, in the order of its data. */
const elements = (svg, mark, what) => [...svg.querySelectorAll(`g[aria-label="${mark}"] > ${what}`)];

/** Which colour stands for what; lines and dots, not to be clicked. */
function key(names, colours, line = true) {
  return el("ul", { class: "keys" }, names.map((name, i) => {
    const swatch = el("span", { class: line ? "swatch line" : "swatch", "aria-hidden": "true" });
    swatch.style.setProperty("--swatch", colours[i]);
    return el("li", {}, swatch, name);
  }));
}

/** As many ticks as have room for their labels. */
function fitting(domain, pixels) {
  for (const n of [7, 5, 4, 3, 2]) {
    const ticks = d3.ticks(domain[0], domain[1], n);
    const widest = Math.max(...ticks.map((t) => num(t, 3).length)) * 6.4 + 12;
    if (ticks.length * widest <= pixels) return ticks;
  }
  return domain;
}

/** Pixels for the labels of an axis. */
const room = (labels, least = 24) => Math.max(least, ...labels.map((l) => l.length * 6.4 + 14));
