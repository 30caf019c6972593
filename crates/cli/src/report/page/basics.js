// Numbers, elements, tips, and the keyboard's way through a group of marks.

const data = JSON.parse(document.getElementById("data").textContent);

/** An element: attributes, `text`, or children. Nothing is ever parsed as markup. */
function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "text") node.textContent = value;
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return node;
}

/** So many significant digits as a reader can use, thousands apart. */
function num(x, digits = 4) {
  if (x === null || x === undefined || !Number.isFinite(x)) return "?";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size < 0.001) return x.toPrecision(2).replace("-", "−");
  const whole = size >= 1 ? Math.floor(Math.log10(size)) + 1 : 0;
  const text = x.toLocaleString("en-US", { maximumFractionDigits: Math.max(0, Math.min(4, digits - whole)) });
  return text.replace("-", "−");
}

/** A relative change in percent, with its sign. */
function percent(share, decimals = 1) {
  if (share === null || !Number.isFinite(share)) return "";
  const text = (share * 100).toFixed(decimals);
  if (Number(text) === 0) return "0 %";
  return `${share > 0 ? "+" : "−"}${text.replace("-", "")} %`;
}

const words = (name) => name.replaceAll("_", " ");
/** What a setting chooses: `driver.mpwqe=on` is "mpwqe on". */
const setting = (text) => text.replace(/^.*\./, "").replace("=", " ").replaceAll("_", " ");
const count = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;

// --- Tips: what a number is, on hover, by keyboard, and by a tap.

const tip = document.getElementById("tip");
const told = new WeakMap();
let shownFor = null;
let leaving = 0;

/** `what` makes the tip's nodes when it is needed. */
function explain(node, what) {
  told.set(node, what);
  node.setAttribute("data-tip", "");
  return node;
}

/** A tip's usual form: a title and pairs. */
function pairs(title, list) {
  const all = list.filter(([, v]) => v !== null && v !== undefined && v !== "");
  return [el("strong", { text: title }), el("dl", {}, all.map(([k, v]) => [el("dt", { text: k }), el("dd", { text: v })]).flat())];
}

function show(node) {
  clearTimeout(leaving);
  if (shownFor === node) return;
  hide();
  shownFor = node;
  tip.replaceChildren(...told.get(node)());
  tip.hidden = false;
  node.setAttribute("aria-describedby", "tip");
  const at = node.getBoundingClientRect();
  const own = tip.getBoundingClientRect();
  const gap = 9;
  const left = Math.min(Math.max(12, at.left + at.width / 2 - own.width / 2), innerWidth - own.width - 12);
  const above = at.top - own.height - gap;
  const top = above >= 8 ? above : Math.min(at.bottom + gap, innerHeight - own.height - 8);
  tip.style.left = `${left}px`;
  tip.style.top = `${Math.max(8, top)}px`;
}

function hide() {
  clearTimeout(leaving);
  shownFor?.removeAttribute("aria-describedby");
  shownFor = null;
  tip.hidden = true;
}

const later = () => {
  clearTimeout(leaving);
  leaving = setTimeout(hide, 160);
};
const tipped = (e) => (e.target instanceof Element ? e.target.closest("[data-tip]") : null);
document.addEventListener("pointerover", (e) => {
  if (tip.contains(e.target)) return clearTimeout(leaving);
  const node = tipped(e);
  if (node) show(node);
  else if (shownFor && shownFor !== document.activeElement) later();
});
document.addEventListener("focusin", (e) => {
  const node = tipped(e);
  if (node) show(node);
  else hide();
});
document.addEventListener("focusout", later);
document.addEventListener("click", (e) => {
  const node = tipped(e);
  if (node) show(node);
});
document.addEventListener("keydown", (e) => {
  if (e.key === "Escape") hide();
});
addEventListener("scroll", () => {
  if (shownFor) hide();
}, { passive: true });

/**
 * One stop of the Tab key for a group; arrows go on within it, left and right by one, up and down by a row. `items` is
 * asked anew each time, because filters hide some.
 */
function rove(group, items, columns = () => 1) {
  const first = () => items().forEach((item, i) => item.setAttribute("tabindex", i === 0 ? "0" : "-1"));
  first();
  if (group.dataset.roves) return first;
  group.dataset.roves = "yes";
  group.addEventListener("focusin", (e) => {
    const all = items();
    if (all.includes(e.target)) all.forEach((item) => item.setAttribute("tabindex", item === e.target ? "0" : "-1"));
  });
  group.addEventListener("keydown", (e) => {
    const all = items();
    const at = all.indexOf(e.target);
    if (at < 0) return;
    const row = columns();
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + row, ArrowUp: at - row, Home: 0, End: all.length - 1 }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    all[Math.min(Math.max(to, 0), all.length - 1)].focus();
  });
  return first;
}
