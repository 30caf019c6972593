// Results of `doorbell guest`: kernels side by side, what their drivers execute and what crosses the bus.

/** Numbers that have a margin, a share and an amount, differ if they do so by more than both. */
function moved(name, before, now) {
  const margin = data.margins[name];
  return margin && Math.abs(now - before) > Math.max(before * margin[0], margin[1]);
}
const MOST_FUNCTIONS = 16;
const STEPS = { name: "instructions", title: "Instructions of the driver", unit: "instructions" };

/** The workloads of a result, each with its runs and their names; numbers a packet with the instructions among them. */
function workloadsOf(guest) {
  const named = guest.runs.map((run, i) => {
    const instructions = Object.entries(run.instructions ?? {}).map(([part, n]) => [`instructions.${part}`, n]);
    return { ...run, called: guest.sides[i], per_packet: { ...Object.fromEntries(instructions), ...run.per_packet } };
  });
  return d3.groups(named, (run) => run.workload);
}

/** A sentence about a result: what the last of several kernels changes of the first workload's packet. */
function guestTitle(guest) {
  const [[workload, runs]] = workloadsOf(guest);
  const [first, last] = [runs[0], runs.at(-1)];
  const instructions = first.instructions?.driver_transmit ? ["instructions.driver_transmit", `transmit instructions of ${guest.driver}`] : ["instructions.driver", `instructions of ${guest.driver}`];
  const [name, what] = first.instructions ? instructions : ["pcie_down_tlp_bytes", "bytes toward the device"];
  const [a, b] = [first, last].map((run) => run.per_packet[name] ?? 0);
  const told = `${guest.label}: a packet of ${workload} takes`;
  if (runs.length === 1) return `${told} ${num(a)} ${what}`;
  if (!moved(name, a, b)) return `${told} ${num(b)} ${what} on ${first.called} and on ${last.called}`;
  return `${told} ${num(a)} ${what} on ${first.called}, ${num(b)} on ${last.called}${a ? ` (${percent(b / a - 1)})` : ""}`;
}

/** All numbers of a packet; one that is not its left neighbour's is marked. */
function guestTable(workload, runs) {
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.per_packet)))].filter((name) => runs.some((run) => run.per_packet[name]));
  const cell = (name, i) => {
    const [before, now] = [runs[i - 1], runs[i]].map((run) => run?.per_packet[name]);
    if (now === undefined) return el("td", { class: "n" });
    if (before === undefined || !moved(name, before, now)) return el("td", { class: "n", text: num(now) });
    const less = now < before;
    const change = before ? percent(now / before - 1) : "";
    return el("td", { class: `n ${less ? "holds" : "miss"}` }, `${num(now)} ${less ? "▼" : "▲"}`, el("span", { class: "small", text: ` ${change}` }), el("span", { class: "hide", text: less ? " less" : " more" }));
  };
  const head = (name) => {
    const title = named(name);
    return el("th", { scope: "row" }, data.about[name] ? explain(el("span", { class: "number", tabindex: "0" }, title), () => pairs(name, [["is", data.about[name]]])) : title);
  };
  const row = (name) => el("tr", {}, head(name), runs.map((_, i) => cell(name, i)));
  const heads = el("tr", {}, el("th", { scope: "col", text: "A packet" }), runs.map((run) => el("th", { scope: "col", class: "n", text: run.called })));
  const table = el("table", {}, el("thead", {}, heads), el("tbody", {}, names.map(row)));
  return el("div", { class: "panel" }, el("div", { class: "wide", tabindex: "0", role: "group", "aria-label": `Numbers of a packet of ${workload}` }, table));
}

/** Functions of the driver: the most expensive of one run, of several those that changed most. */
function functionsOf(driver, runs, labels, colours) {
  const own = (run) => new Map(run.functions.filter((f) => f.module === driver).map((f) => [f.function, f.per_packet]));
  const each = runs.map(own);
  const spread = (name) => {
    const [least, most] = d3.extent(each, (functions) => functions.get(name) ?? 0);
    return runs.length > 1 ? most - least : most;
  };
  const names = d3.sort(new Set(each.flatMap((functions) => [...functions.keys()])), (name) => -spread(name)).filter((name) => spread(name) >= 0.005).slice(0, MOST_FUNCTIONS);
  const dots = names.flatMap((place) => each.map((functions, s) => ({ place, s, value: functions.get(place) ?? 0 })));
  const title = runs.length > 1 ? "Functions that changed most" : "Functions";
  return dotsOf({ title, about: `instructions of ${driver} a packet`, unit: "instructions", what: "function", labels, colours, dots, source: "counted by QEMU, each instruction that the guest executed" });
}

/** The command that makes a result; one that `compare` has put together has none. */
function guestCommand(guest) {
  if (guest.runs.some((run) => run.side)) return null;
  if (guest.command) return guest.command;
  const unique = (of) => [...new Set(guest.runs.map(of))].join(",");
  const keys = [...new Set(guest.runs.flatMap((run) => Object.keys(run.settings)))];
  const values = (key) => [...new Set(guest.runs.map((run) => run.settings[key]).filter((v) => v !== undefined))];
  const sets = keys.map((key) => [key, values(key)]);
  const settings = sets.flatMap(([key, all]) => [all.length > 1 ? "--across" : "--set", `${key}=${all.join(",")}`]);
  return ["guest", guest.device, "--kernel", unique((run) => run.kernel), "--workload", unique((run) => run.workload), ...settings];
}

function guestSection(guest, id, isHead) {
  link(id, guest.label);
  const driver = guest.driver.replaceAll("-", "_");
  const section = el("section", { id, "aria-labelledby": `${id}-h` }, el("h2", { id: `${id}-h`, text: `Guest: ${guest.label}` }), isHead ? "" : el("p", { text: `${guestTitle(guest)}.` }),
    el("p", { class: "soft", text: guest.bus ? `${guest.device}, ${guest.bus}` : `${guest.device}, which is QEMU’s own and has no ledger` }));
  for (const [workload, runs] of workloadsOf(guest)) {
    const labels = runs.map((run) => run.called);
    const colours = sideColours(labels);
    const functions = functionsOf(driver, runs, labels, colours);
    const bills = [STEPS, ...data.parts].map((part) => billPart(part, runs, labels));
    section.append(el("h3", { text: workload }), guestTable(workload, runs), el("div", { class: "grid" }, bills), functions ? key(labels, colours) : "", functions ?? "");
  }
  const unique = (of) => [...new Set(guest.runs.map(of))].join(", ");
  section.append(el("h3", { text: "Where it comes from" }), factsOf(guest, {
    of: [], command: guestCommand(guest),
    more: [["driver", guest.driver], ["kernels", unique((run) => `${run.kernel} (${run.release})`)], ["packets", unique((run) => `${num(run.packets, 12)} of ${run.workload}`)], ["CPUs", `${guest.cpus}`]],
  }));
  return section;
}
