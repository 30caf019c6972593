// The bill of a packet: stacked bars, one for each side, a chart for each part.

const MOST = 7;

/** A part of the bill: items that any run has, largest first, those beyond the colours as one. */
function partOf(part, runs) {
  const named = data.items[part.name];
  const title = (name) => (part.name === "cycles" ? (name.startsWith("cycles_") ? words(name.slice(7)) : null) : named[name] ?? null);
  const names = [...new Set(runs.flatMap((r) => Object.keys(r.per_packet)))].filter((n) => title(n) !== null);
  const items = names
    .map((name) => ({ name, title: title(name), values: runs.map((r) => r.per_packet[name] ?? 0), about: data.about[name] ?? "" }))
    .filter((i) => i.values.some((v) => v !== 0))
    .sort((a, b) => Math.max(...b.values) - Math.max(...a.values));
  const rest = items.length > MOST + 1 ? items.splice(MOST) : [];
  if (rest.length) {
    const values = runs.map((_, s) => d3.sum(rest, (r) => r.values[s]));
    items.push({ name: "rest", title: `${rest.length} others`, values, about: "", parts: rest });
  }
  return items;
}

function billPart(part, runs, labels) {
  const items = partOf(part, runs);
  if (!items.length) return null;
  const colours = coloursOf(part.name, items.filter((i) => !i.parts).map((i) => i.name));
  items.forEach((item, i) => (item.colour = item.parts ? "var(--rest)" : colours[i]));
  const off = new Set();
  const sums = (shown) => runs.map((_, s) => d3.sum(shown, (i) => i.values[s]));
  const totals = sums(items);
  const change = el("span", { class: "change" });
  const say = (now) => {
    change.replaceChildren();
    if (runs.length === 2) {
      const share = now[0] ? (now[1] - now[0]) / now[0] : null;
      change.append(`${num(now[0])} → `, el("strong", { text: num(now[1]) }), share === null ? "" : ` ${percent(share)}`);
    } else if (runs.length === 1) change.append(el("strong", { text: num(now[0]) }));
  };
  say(totals);
  const shown = () => items.filter((i) => !off.has(i.name));
  const flat = () => runs.flatMap((_, s) => shown().filter((i) => i.values[s] !== 0).map((item) => ({ item, s, side: labels[s], value: item.values[s] })));
  const margin = room(labels);
  const figure = chart({
    title: `${part.title} a packet`,
    change,
    draw: (width) => {
      const list = flat();
      const ends = sums(shown()).map((total, s) => ({ total, side: labels[s] }));
      const domain = [0, Math.max(...ends.map((e) => e.total)) || 1];
      const ticks = fitting(domain, width - margin - 58);
      return Plot.plot({
        width,
        height: 34 + 38 * runs.length,
        marginLeft: margin,
        marginRight: 58,
        marginTop: 4,
        marginBottom: 26,
        x: { label: null, ticks, tickFormat: (x) => num(x, 3), domain },
        y: { label: null, domain: labels, padding: 0.26, tickSize: 0 },
        marks: [
          Plot.gridX(ticks, { stroke: "var(--rule)", strokeOpacity: 1 }),
          Plot.barX(list, Plot.stackX({ x: "value", y: "side", fill: (d) => d.item.colour, order: null, insetLeft: 0.5, insetRight: 0.5, rx: 1.5 })),
          Plot.text(ends, { x: "total", y: "side", text: (d) => num(d.total), textAnchor: "start", dx: 7, fill: "var(--ink)", fontWeight: 600, fontSize: 12 }),
        ],
        color: { type: "identity" },
      });
    },
    marks: (svg) => {
      const list = flat();
      return elements(svg, "bar", "rect").map((node) => {
        const { item, s, side, value } = list[node.__data__];
        const share = totals[s] ? value / totals[s] : 0;
        const text = `${side}, ${item.title}: ${num(value)} ${part.unit} a packet`;
        const more = (item.parts ?? []).map((p) => [p.title, num(p.values[s])]);
        return {
          node,
          label: text,
          what: () => pairs(item.title, [[side, `${num(value, 5)} ${part.unit} a packet`], ["share", `${(share * 100).toFixed(1)} %`],
            ["source", { cycles: "modelled: what the driver did, at the profile's prices", instructions: "counted by QEMU" }[part.name] ?? "counted by the ledger"],
            ["is", item.about], ...more]),
        };
      });
    },
    row: () => shown().length,
    table: {
      heads: ["item", ...labels],
      rows: () => [...items.flatMap((i) => i.parts ?? [i]).map((i) => [i.title, ...i.values.map((v) => num(v, 5))]), ["all", ...totals.map((t) => num(t, 5))]],
    },
  });
  const legend = el("ul", { class: "legend", "aria-label": `${part.title}: show or hide` }, items.map((item) => {
    const swatch = el("span", { class: "swatch", "aria-hidden": "true" });
    swatch.style.setProperty("--swatch", item.colour);
    const button = el("button", { type: "button", "aria-pressed": "true" }, swatch, item.title);
    button.addEventListener("click", () => {
      if (!off.delete(item.name)) off.add(item.name);
      button.setAttribute("aria-pressed", String(!off.has(item.name)));
      say(sums(shown()));
      figure.redraw();
    });
    return el("li", {}, button);
  }));
  figure.querySelector(".plot").after(legend);
  return el("div", { class: "panel" }, figure);
}

/** All parts of the bill of these runs. */
function billOf(runs, labels) {
  return el("div", { class: "grid bill" }, data.parts.map((part) => billPart(part, runs, labels)));
}
