// The page: what holds, the figures, a section for each system, one's own runs.

const main = document.getElementById("main");
const nav = document.getElementById("nav");

function link(id, text) {
  nav.append(el("a", { href: `#${id}`, text }));
}

/** How much of a system holds, in a tile. */
function tile(s) {
  const judged = s.rows.filter((r) => r.holds !== null);
  const held = judged.filter((r) => r.holds).length;
  const known = judged.filter((r) => !r.holds && r.known).length;
  const missed = judged.length - held - known;
  const f = s.freedom;
  const word = (n, text, kind) => (n ? el("span", { class: `verdict ${kind}`, text: `${n} ${text} ` }) : null);
  return el("li", { class: "tile" },
    el("a", { href: `#${s.name}`, text: s.name }),
    el("div", { class: "big" }, `${held} of ${judged.length}`, el("small", { text: " judged figures hold" })),
    el("div", {}, word(known, known === 1 ? "known miss" : "known misses", "known"), word(missed, missed === 1 ? "miss" : "misses", "miss")),
    el("div", { class: "soft small", text: `${count(f.predicted, "predicted figure")}${f.derived ? `, ${f.derived} of them arithmetic` : ""}, against ${count(f.fitted, "fitted constant")}${f.choices ? ` and ${count(f.choices, "choice")} between models` : ""}` }),
    s.combinations && el("div", { class: "soft small", text: `${s.combinations.hold} of ${s.combinations.of} combinations of choices hold as much` }));
}

function choicesOf(s) {
  const row = (c) => el("tr", {}, el("th", { scope: "row" }, el("code", { text: c.key })), el("td", { text: `${c.value} ${c.unit}`.trim() }),
    el("td", { text: c.alternatives.filter((a) => a !== c.value).join(", ") }), el("td", { text: c.rows.join(", ") }), el("td", { text: c.source }));
  const head = el("tr", {}, ["choice", "chosen", "or", "looking at", "from"].map((h) => el("th", { scope: "col", text: h })));
  const table = el("table", {}, el("thead", {}, head), el("tbody", {}, s.choices.map(row)));
  return el("details", {}, el("summary", { text: `${count(s.choices.length, "choice")} between models, made by looking at figures of ${s.name}` }),
    el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": `Choices of ${s.name}` }, table));
}

function constantsOf(s) {
  const row = (c) => el("tr", {}, el("th", { scope: "row" }, el("code", { text: c.key })), el("td", { class: "n", text: num(c.value, 6) }), el("td", { text: c.unit }), el("td", { text: c.source }));
  const head = el("tr", {}, ["constant", "value", "unit", "from"].map((h, i) => el("th", { scope: "col", class: i === 1 ? "n" : null, text: h })));
  const table = el("table", {}, el("thead", {}, head), el("tbody", {}, s.constants.map(row)));
  return el("details", {}, el("summary", { text: `${count(s.constants.length, "constant")} that ${s.name} rests on, each with its source` }),
    el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": `Constants of ${s.name}` }, table));
}

/** Which scenario was run, and with what. */
const twice = (r, sides) => el("p", { class: "soft" }, el("code", { text: r.scenario }), ` on ${r.profile}, run twice: `, el("code", { text: sides[0] }), ", then ", el("code", { text: sides[1] }), ".");
const sceneOf = (what, r) => el("p", { class: "soft" }, `${what} `, el("code", { text: r.scenario }), `: ${r.about}.`);

function systemSection(s) {
  link(s.name, s.name);
  const section = el("section", { id: s.name, "aria-labelledby": `${s.name}-h` }, el("h2", { id: `${s.name}-h`, text: s.name }), el("p", { class: "soft", text: s.about }));
  for (const r of s.rows.filter((r) => r.holds === false)) {
    const why = r.remarks.find((t) => t.startsWith("known miss: "));
    const text = why ? why.slice(12) : r.remarks.join("; ");
    section.append(el("p", { class: `miss-note${r.known ? "" : " bad"}` }, el("strong", { text: `${r.name}: ${r.known ? "known miss" : "miss"}. ` }), text ? `${text[0].toUpperCase()}${text.slice(1)}.` : ""));
  }
  const h = s.headline;
  if (h) {
    const labels = h.sides.map(setting);
    section.append(el("h3", { text: "A packet’s bill, before and after" }), twice(h.bill[0], h.sides), billOf(h.bill, labels));
    const lines = [];
    if (h.curve) lines.push(curveOf(h.curve, labels));
    if (h.waiting) lines.push(latencyOf(h.waiting, labels));
    if (lines.filter(Boolean).length) {
      const what = h.waiting && h.waiting[0].scenario !== h.scenario ? sceneOf("Latencies are of", h.waiting[0]) : null;
      section.append(el("h3", { text: h.curve ? "Where it pays, and who waits" : "Latency" }), what ?? "", key(labels, SIDES), el("div", { class: "grid" }, lines));
    }
    if (h.moving) {
      const series = seriesOf(h.moving, labels);
      if (series) section.append(el("h3", { text: "Over time" }), sceneOf("The series are of", h.moving[0]), ...series);
    }
  }
  if (s.sensitivity) section.append(el("h3", { text: "Sensitivity" }), sensitivityOf(s, `${s.name}-figure`) ?? "");
  section.append(constantsOf(s));
  if (s.choices?.length) section.append(choicesOf(s));
  return section;
}

function page() {
  const rows = data.systems.flatMap((s) => s.rows);
  const judged = rows.filter((r) => r.holds !== null);
  const held = judged.filter((r) => r.holds).length;
  const known = judged.filter((r) => !r.holds && r.known).length;
  const missed = judged.length - held - known;
  let head;
  if (data.systems.length) {
    const rest = [known && `${count(known, "miss").replace(/misss/, "misses")} with an explanation`, missed && `${missed} without`].filter(Boolean).join(", ");
    const title = missed ? `${missed} of ${judged.length} judged figures missed` : `${held} of ${judged.length} judged figures hold`;
    main.append(el("h1", { text: title }),
      el("p", { class: "soft", text: `${missed ? `${held} hold; ` : ""}${rest ? `${rest}; ` : ""}${rows.length - judged.length} more are definitions, fitted or shown, and claim nothing. Every number says where it comes from: point at it, or go to it with the keyboard.` }),
      el("ul", { class: "tiles" }, data.systems.map(tile)));
    link("figures", "figures");
    main.append(figuresSection(data.systems), ...data.systems.map(systemSection));
  } else if (data.runs.length) {
    const labels = labelsOf(data.runs);
    document.title = `${labels.join(", ")} · Doorbell`;
    const { title, rest } = conclusion(data.runs, labels);
    main.append(el("h1", { text: title }), el("p", { class: "limit", text: limitText(data.runs, labels) }), rest && el("p", { text: rest }),
      el("p", { class: "soft", text: data.runs.map((r, i) => `${labels[i]}: ${r.scenario} on ${r.profile}${r.set.length ? `, ${r.set.join(", ")}` : ""}`).join(". ") }));
  } else {
    const all = [...data.guests, ...data.sweeps, ...data.ranks];
    [head] = all;
    document.title = `${all.map((s) => s.label).join(", ")} · Doorbell`;
    main.append(el("h1", { text: { guest: guestTitle, sweep: sweepTitle, rank: rankTitle }[head.kind](head) }));
  }
  if (data.runs.length) main.append(runsSection(data.runs));
  main.append(...data.guests.map((g, i) => guestSection(g, `guest-${i + 1}`, g === head)));
  main.append(...data.sweeps.map((s, i) => sweepSection(s, `sweep-${i + 1}`, s === head)), ...data.ranks.map((r, i) => rankSection(r, `rank-${i + 1}`, r === head)));
  main.append(el("footer", {}, el("p", { text: `Made by doorbell ${data.version}. This file holds all of it: it opens offline and fetches nothing. Charts: Observable Plot and D3, ISC licence, © Mike Bostock and Observable, Inc.` })));
}

// --- Light and dark: as the system has it, until somebody chooses.

const theme = document.getElementById("theme");
const dark = matchMedia("(prefers-color-scheme: dark)");
const stored = () => {
  try {
    return localStorage.getItem("doorbell-theme");
  } catch {
    return null;
  }
};
function setTheme(name) {
  if (name) document.documentElement.dataset.theme = name;
  const now = document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light");
  theme.textContent = now === "dark" ? "Light" : "Dark";
  theme.setAttribute("aria-label", `Change to ${now === "dark" ? "light" : "dark"} colours`);
}
theme.addEventListener("click", () => {
  const now = document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light");
  const next = now === "dark" ? "light" : "dark";
  setTheme(next);
  try {
    localStorage.setItem("doorbell-theme", next);
  } catch {
    // A file without storage keeps no choice.
  }
});
dark.addEventListener("change", () => setTheme());
setTheme(stored());
page();
