// The published figures: one table, filtered by click.

const ROLES = {
  exact: "must come out equal",
  predicted: "computed from constants that other rows or data sheets fixed; within a tolerance",
  bound: "the published figure must lie on this side of ours",
  definition: "cannot come out otherwise: it restates a switch, another figure, or what was fed in",
  fit: "one constant was fitted on it, so that it comes out says nothing",
  shown: "side by side; nothing is claimed",
};

function verdict(row) {
  if (row.holds === true) return ["holds", "✓ holds"];
  if (row.holds === false) return row.known ? ["known", "! known miss"] : ["miss", "✗ miss"];
  if (row.broken) return ["miss", "✗ came out otherwise"];
  return ["none", row.role === "fit" ? "fitted" : "not judged"];
}

function toleranceText(row) {
  if (row.tolerance_text) return row.tolerance_text;
  if (row.role === "exact") return "none";
  if (row.role === "bound") return row.side === "AtOrBelow" ? "≤ ours" : "≥ ours";
  return "";
}

/** Published and ours, with as many digits as were published. */
function both(row) {
  const published = String(row.published);
  const decimals = published.includes(".") ? published.split(".")[1].length : 0;
  if (row.measured === null) return [published, "?"];
  if (row.role === "exact" && !row.tolerance) return [num(row.published, 15), num(row.measured, 15)];
  const whole = Math.abs(row.measured) < 1 ? 1 : Math.floor(Math.log10(Math.abs(row.measured))) + 1;
  const shown = row.measured.toLocaleString("en-US", {
    minimumFractionDigits: decimals,
    maximumFractionDigits: Math.max(decimals, Math.min(4, 4 - whole), 0),
  });
  return [row.published.toLocaleString("en-US", { minimumFractionDigits: decimals }), shown.replace("-", "−")];
}

/** How far off, against what is allowed. The gauge ends at twice the tolerance, or at 10 %. */
function gauge(row) {
  if (row.off_by === null || row.measured === null) return el("span");
  const allowed = row.tolerance?.rel ?? (row.tolerance?.abs && row.published ? row.tolerance.abs / Math.abs(row.published) : null);
  const end = allowed ? allowed * 2 : 0.1;
  const at = (share) => `${50 + 50 * Math.max(-1, Math.min(1, share / end))}%`;
  const dot = el("s", { class: Math.abs(row.off_by) > end ? "far" : null });
  dot.style.left = at(row.off_by);
  const band = allowed ? el("i") : null;
  if (band) {
    band.style.left = at(-allowed);
    band.style.right = at(-allowed);
  }
  return el("span", { class: `gauge ${verdict(row)[0]}`, "aria-hidden": "true" }, band, el("u"), dot);
}

function aboutPublished(row) {
  return pairs(`${row.figure}, published`, [
    ["value", `${both(row)[0]} ${row.unit}${row.spread ? ` ±${row.spread}` : ""}`],
    ["role", `${row.role}: ${ROLES[row.role]}`],
    ["source", row.document],
    ["passage", row.passage],
  ]);
}

function aboutMeasured(row, s) {
  const all = [...s.constants, ...(s.choices ?? [])];
  const rests = row.inputs.map((k) => all.find((c) => c.key === k)).filter(Boolean);
  const value = (c) => (typeof c.value === "number" ? num(c.value) : c.value);
  const inputs = rests.slice(0, 6).map((c) => `${c.key} ${value(c)} ${c.unit}`.trim()).join(", ");
  const more = rests.length > 6 ? `, and ${rests.length - 6} more` : "";
  return pairs(`${row.figure}, ours`, [
    ["value", row.measured === null ? "not measured" : `${num(row.measured, 6)} ${row.unit}`],
    ["source", "computed by this run's models"],
    ["role", `${row.role}: ${ROLES[row.role]}`],
    ["tolerance", toleranceText(row)],
    ["verdict", verdict(row)[1].replace(/^[✓✗!] /, "")],
    ["rests on", inputs + more],
    ["note", row.remarks.join("; ")],
  ]);
}

function figuresSection(systems) {
  const chosen = { system: null, verdict: null, role: null };
  const lines = [];
  const body = el("tbody");
  for (const s of systems) {
    const about = el("span", { text: s.swapped ? `swapped: fitted on the other state · ${s.about}` : s.about });
    const group = el("tr", { class: "group", role: "row" }, el("th", { colspan: "8", scope: "colgroup", role: "columnheader" }, s.name, about));
    body.append(group);
    const own = [];
    for (const row of s.rows) {
      const [kind, text] = verdict(row);
      const [published, measured] = both(row);
      const number = (value, what, of) => explain(el("button", { type: "button", class: "number", "aria-label": `${row.name}: ${of} ${value} ${row.unit}`, text: value }), what);
      const tr = el("tr", { role: "row" },
        el("th", { scope: "row", role: "rowheader", text: row.name }),
        el("td", { class: "n p", role: "cell", "data-head": "published" }, number(published, () => aboutPublished(row), "published")),
        el("td", { class: "n o", role: "cell", "data-head": "ours" }, number(measured, () => aboutMeasured(row, s), "ours")),
        el("td", { class: "u soft", role: "cell", text: row.unit }),
        el("td", { class: "d", role: "cell" }, el("span", { class: "off" }, el("b", { text: row.off_by === 0 ? "=" : row.off_by === null ? (row.measured === row.published ? "=" : "") : percent(row.off_by) }), gauge(row))),
        el("td", { class: "t", role: "cell", text: toleranceText(row) }),
        el("td", { class: "r", role: "cell", text: row.role }),
        el("td", { class: "v", role: "cell" }, el("span", { class: `verdict ${kind}`, text })));
      own.push({ tr, system: s.name, verdict: kind, role: row.role });
      body.append(tr);
    }
    lines.push({ group, own });
  }
  const heads = [["Figure"], ["Published", "n"], ["Ours", "n"], ["Unit"], ["Off by"], ["Tolerance"], ["Role"], ["Verdict"]];
  const table = el("table", { role: "table", "aria-label": "Published figures and ours" },
    el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, heads.map(([text, c]) => el("th", { scope: "col", role: "columnheader", class: c ?? null, text })))), body);
  body.setAttribute("role", "rowgroup");
  const holder = el("div", { class: "rows" }, table);
  const visible = () => [...body.querySelectorAll("tr:not([hidden]) .number")];
  const first = rove(body, visible, () => 2);

  const said = el("p", { class: "soft small", role: "status" });
  const apply = () => {
    let n = 0;
    for (const { group, own } of lines) {
      let any = false;
      for (const line of own) {
        const on = Object.entries(chosen).every(([k, v]) => v === null || line[k] === v);
        line.tr.hidden = !on;
        any ||= on;
        n += on ? 1 : 0;
      }
      group.hidden = !any;
    }
    said.textContent = `${count(n, "figure")} shown. Point at a number, or go to it with Tab and the arrow keys: it says where it comes from.`;
    first();
  };
  const all = lines.flatMap((l) => l.own);
  const LABELS = { holds: "holds", known: "known miss", miss: "miss", none: "not judged" };
  const chips = (name, values) => el("fieldset", {}, el("legend", { text: words(name) }), values.map((value) => {
    const chip = el("button", { type: "button", class: "chip", "aria-pressed": "false", "data-filter": `${name}:${value}`, text: LABELS[value] ?? value });
    chip.addEventListener("click", () => {
      chosen[name] = chosen[name] === value ? null : value;
      for (const c of chip.parentElement.querySelectorAll(".chip")) c.setAttribute("aria-pressed", String(c === chip && chosen[name] === value));
      apply();
    });
    return chip;
  }));
  const there = (name, order) => order.filter((v) => all.some((l) => l[name] === v));
  const filters = el("div", { class: "filters", role: "group", "aria-label": "Show only" },
    systems.length > 1 && chips("system", systems.map((s) => s.name)),
    chips("verdict", there("verdict", ["holds", "known", "miss", "none"])),
    chips("role", there("role", Object.keys(ROLES))));
  apply();
  return el("section", { id: "figures", "aria-labelledby": "figures-h" }, el("h2", { id: "figures-h", text: "Published figures" }), filters, said, holder);
}
