// Opens a report in Debian's Chromium and looks at it as people do: with a mouse, with the keyboard, on a phone, in the dark.
//
//   DOORBELL=target/release/doorbell node --test
//
// CHROMIUM names another browser, SHOTS a directory for pictures. What `reproduce --out` of the same program has written
// is taken from DOORBELL_PUBLISHED, if that directory is there.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, renameSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const doorbell = resolve(process.env.DOORBELL ?? "../../target/release/doorbell");
const dir = mkdtempSync(join(tmpdir(), "doorbell-report-"));
const EVIL = "</script><script>window.pwned = 1</script><img src=x onerror=window.pwned=2>";
const pages = {};
let browser;
let step;

before(async () => {
  const run = (...args) => execFileSync(doorbell, [...args, "--quiet"], { encoding: "utf8" });
  const published = process.env.DOORBELL_PUBLISHED ?? "";
  if (existsSync(published)) cpSync(published, join(dir, "all"), { recursive: true });
  else run("reproduce", "--out", join(dir, "all"));
  pages.all = join(dir, "all", "report.html");
  // A sensitivity run takes minutes; what it would have left is put into the file.
  mkdirSync(join(dir, "moved"));
  const all = JSON.parse(readFileSync(join(dir, "all", "reproduce.json"), "utf8"));
  const one = all.systems.find((s) => s.name === "axienet");
  const changes = (i) => one.rows.map((_, at) => [0, 0.31, -1.2, null][(i + at) % 4]);
  one.sensitivity = { constants: one.constants.slice(0, 6).map((c, i) => ({ key: c.key, by: i === 1 ? "+2" : "+1 %", fitted: false, changes: changes(i) })) };
  step = `${one.constants[1].key} +2 ${one.constants[1].unit}`.trim();
  writeFileSync(join(dir, "moved", "reproduce.json"), JSON.stringify({ ...all, systems: [one] }));
  execFileSync(doorbell, ["report", join(dir, "moved")]);
  pages.moved = join(dir, "moved", "report.html");
  // One's own runs, two of them side by side, and one with a name that would like to be markup.
  for (const side of ["on", "off"]) run("run", "mlx5-pktgen-64", "--set", "traffic.packets=24000", "--set", "traffic.rate=30", "--set", `driver.mpwqe=${side}`, "--out", join(dir, side));
  const file = join(dir, "off", "result.json");
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, "utf8")), scenario: EVIL }));
  mkdirSync(join(dir, "own"));
  for (const side of ["on", "off"]) renameSync(join(dir, side), join(dir, "own", side));
  assert.equal(execFileSync(doorbell, ["report", join(dir, "own"), "off", "on"], { encoding: "utf8" }), `${join(dir, "own", "report.html")}\n`);
  pages.own = join(dir, "own", "report.html");
  // Sweeps and rankings, in files of their own, with the runs of one directory beside them.
  mkdirSync(join(dir, "series"));
  const print = (name, ...args) => writeFileSync(join(dir, "series", name), run(...args, "--format", "json"));
  print("sizes.json", "sweep", "mlx5-pktgen-64", "--set", "traffic.packets=4000", "--over", "traffic.size=64,128,256,512,1024", "--across", "driver.mpwqe=off,on", "--show", "cycles", "--show", "packets_per_s");
  print("words.json", "sweep", "mlx5-pktgen-64", "--set", "traffic.packets=2000", "--over", "driver.mpwqe=off,on", "--over", "traffic.size=64..640:64", "--show", "cycles");
  const sides = ["--side", "fixed: driver.controller=fixed", "--side", "dim: driver.controller=dim"];
  const by = ["--by", "rx_interrupts_per_s", "--by", "latency_ns.p99"];
  print("moderation.json", "rank", "axienet-saturated", "axienet-sporadic", "--set", "traffic.duration=10 ms", ...sides, ...by, "--show", "cpu_busy_share");
  print("seeds.json", "rank", "axienet-sporadic", "--set", "traffic.duration=5 ms", ...sides, ...by, "--seeds", "1-4");
  print("time.json", "rank", "axienet-steps", "--set", "traffic.duration=20 ms", ...sides, "--series", "setting_packets", "--every", "2");
  // Another program's file, and a result that a page does not show.
  writeFileSync(join(dir, "series", "other.json"), "[]");
  print("list.json", "list");
  execFileSync(doorbell, ["report", join(dir, "series")]);
  pages.series = join(dir, "series", "report.html");
  // Two kernels, from one file each, and both in one.
  mkdirSync(join(dir, "guests"));
  const kept = resolve("../../crates/cli/tests/kept");
  const kernels = ["linux-6.1.json", "linux-7.3.json"];
  for (const name of kernels) writeFileSync(join(dir, "guests", name), readFileSync(join(kept, name)));
  const both = run("compare", ...kernels.map((name) => join(kept, name)), "--format", "json");
  writeFileSync(join(dir, "guests", "both.json"), both);
  execFileSync(doorbell, ["report", join(dir, "guests")]);
  pages.guests = join(dir, "guests", "report.html");
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
});

after(async () => {
  await browser?.close();
  rmSync(dir, { recursive: true });
});

/** A page; what it says on the console and asks of the network must be nothing. */
async function open(name, { width = 1200, colorScheme = "light" } = {}, look) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme, reducedMotion: "reduce" });
  const page = await context.newPage();
  const said = [];
  page.on("console", (m) => said.push(`${m.type()}: ${m.text()}`));
  page.on("pageerror", (e) => said.push(String(e)));
  const own = pathToFileURL(pages[name]).href;
  page.on("request", (r) => r.url() === own || said.push(`request: ${r.url()}`));
  await page.goto(own);
  await page.waitForFunction(() => [...document.querySelectorAll("figure.chart")].every((f) => f.querySelector("svg")));
  try {
    await look(page);
    if (process.env.SHOTS) await page.screenshot({ path: join(process.env.SHOTS, `${name}-${width}-${colorScheme}.png`), fullPage: true });
    assert.deepEqual(said, []);
  } finally {
    await context.close();
  }
}

const tip = (page) => page.locator("#tip").innerText();

describe("the page of a reproduction", () => {
  test("is one file of at most 2 MB", () => assert.ok(statSync(pages.all).size < 2e6));

  test("has a system's section for each system, and marks in each chart", () =>
    open("all", {}, async (page) => {
      const systems = await page.evaluate(() => JSON.parse(document.getElementById("data").textContent).systems.map((s) => s.name));
      assert.ok(systems.length >= 3);
      for (const name of systems) assert.equal(await page.locator(`section#${name} h2`).innerText(), name);
      const charts = await page.$$eval("figure.chart", (all) => all.map((f) => [f.querySelector("h4").textContent, f.querySelectorAll(".mark").length]));
      assert.ok(charts.length >= 20, `${charts.length} charts`);
      for (const [title, marks] of charts) assert.ok(marks > 0, `${title} has no marks`);
      const titles = charts.map(([t]) => t).join("|");
      for (const what of ["CPU cycles", "Bytes on the bus", "Calls", "Interrupts", "Latency", "Setting: packets", "bytes toward the device"]) {
        assert.ok(titles.toLowerCase().includes(what.toLowerCase()), `no chart of ${what}: ${titles}`);
      }
    }));

  test("bars stack up to the run's sum", () =>
    open("all", {}, async (page) => {
      const [drawn, wanted] = await page.evaluate(() => {
        const rects = [...document.querySelectorAll("section#mlx5 figure.chart")][0].querySelectorAll("rect.mark");
        const wide = [...rects].map((r) => ({ y: r.getAttribute("y"), w: Number(r.getAttribute("width")) + 1 }));
        const sum = (y) => wide.filter((r) => r.y === y).reduce((a, r) => a + r.w, 0);
        const ys = [...new Set(wide.map((r) => r.y))];
        const bill = JSON.parse(document.getElementById("data").textContent).systems.find((s) => s.name === "mlx5").headline.bill;
        return [sum(ys[1]) / sum(ys[0]), bill[1].per_packet.cycles / bill[0].per_packet.cycles];
      });
      assert.ok(Math.abs(drawn / wanted - 1) < 0.02, `${drawn} ${wanted}`);
    }));

  test("a click on a filter leaves the rows it names, and a second one brings all back", () =>
    open("all", {}, async (page) => {
      const rows = () => page.$$eval(".rows tbody tr:not([hidden]):not(.group)", (all) => all.map((r) => r.querySelector(".r").textContent));
      const all = (await rows()).length;
      await page.click("[data-filter='role:predicted']");
      const predicted = await rows();
      assert.ok(predicted.length > 0 && predicted.length < all && predicted.every((r) => r === "predicted"));
      await page.click("[data-filter='system:axienet']");
      assert.ok((await rows()).length < predicted.length);
      assert.match(await page.locator("[role=status]").innerText(), new RegExp(`^${(await rows()).length} figure`));
      await page.click("[data-filter='system:axienet']");
      await page.click("[data-filter='role:predicted']");
      assert.equal((await rows()).length, all);
    }));

  test("a click in a legend takes an item out of the bars, and its share out of the sum", () =>
    open("all", {}, async (page) => {
      const panel = page.locator("section#mlx5 .panel").first();
      const [marks, sum] = [await panel.locator(".mark").count(), await panel.locator(".change strong").innerText()];
      await panel.locator(".legend button").first().click();
      assert.equal(await panel.locator(".mark").count(), marks - 2);
      assert.notEqual(await panel.locator(".change strong").innerText(), sum);
    }));

  test("every number says source and role under the mouse", () =>
    open("all", {}, async (page) => {
      await page.locator(".rows .number").first().hover();
      assert.match(await tip(page), /role[\s\S]*predicted[\s\S]*source[\s\S]*linux commit/i);
      await page.locator("section#e1000 figure.chart .mark").first().hover();
      assert.match(await tip(page), /source/);
      await page.mouse.move(5, 300);
      await page.waitForFunction(() => document.getElementById("tip").hidden);
    }));

  test("the same by keyboard alone", () =>
    open("all", {}, async (page) => {
      const at = () => page.evaluate(() => document.activeElement.className || document.activeElement.id || document.activeElement.tagName);
      await page.keyboard.press("Tab");
      assert.equal(await at(), "skip");
      await page.keyboard.press("Enter");
      let stops = 0;
      while ((await at()) !== "number") {
        await page.keyboard.press("Tab");
        assert.ok(++stops < 40, "the table's numbers are far away");
      }
      assert.match(await tip(page), /published[\s\S]*source/);
      await page.keyboard.press("ArrowRight");
      assert.match(await tip(page), /ours[\s\S]*computed by this run/);
      const before = await tip(page);
      await page.keyboard.press("ArrowDown");
      assert.notEqual(await tip(page), before);
      assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-describedby")), "tip");
      await page.keyboard.press("Escape");
      assert.ok(await page.locator("#tip").isHidden());
      // The next stops are charts: one for each, and its legend.
      for (stops = 0; !(await page.evaluate(() => document.activeElement.classList.contains("mark"))); ) {
        await page.keyboard.press("Tab");
        assert.ok(++stops < 10, "the table is one stop, not one for each number");
      }
      const first = await tip(page);
      await page.keyboard.press("ArrowRight");
      assert.notEqual(await tip(page), first);
      await page.keyboard.press("End");
      assert.match(await tip(page), /a packet/);
    }));

  test("a chart's numbers are there as a table too", () =>
    open("all", {}, async (page) => {
      const figure = page.locator("section#mlx5 figure.chart").first();
      await figure.locator("summary").click();
      assert.match(await figure.locator("table").innerText(), /stack[\s\S]*all/);
    }));

  test("the button changes the colours", () =>
    open("all", {}, async (page) => {
      const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      const light = await paper();
      await page.click("#theme");
      assert.notEqual(await paper(), light);
      await page.click("#theme");
      assert.equal(await paper(), light);
    }));
});

describe("a sensitivity run", () => {
  test("shows what each figure follows", () =>
    open("moved", {}, async (page) => {
      const figure = page.locator("figure.chart", { hasText: "What a figure follows" });
      const bars = () => figure.locator(".mark").evaluateAll((all) => all.map((m) => m.getAttribute("aria-label")).join());
      const first = await bars();
      assert.ok(first);
      const select = page.locator("select");
      await select.selectOption({ index: (await select.locator("option").count()) - 1 });
      assert.notEqual(await bars(), first);
      // A constant that goes by steps says by how much; all others are moved by the same share.
      const seen = [];
      for (const option of await select.locator("option").all()) {
        await select.selectOption(await option.getAttribute("value"));
        const bars = await figure.locator(".mark").count();
        assert.ok((await page.locator(".panel", { has: select }).innerText()).includes(`${bars} of 6 constants move${bars === 1 ? "s" : ""} it.`));
        seen.push(await figure.locator("svg").innerHTML());
      }
      assert.ok(seen.some((svg) => svg.includes(`>${step}<`)), step);
    }));
});

describe("one's own runs", () => {
  test("stand side by side, and a name stays a name", () =>
    open("own", {}, async (page) => {
      assert.equal(await page.evaluate(() => window.pwned), undefined);
      assert.equal(await page.locator("img").count(), 0);
      assert.ok((await page.locator("#runs").innerText()).includes(EVIL));
      assert.deepEqual(await page.locator("#runs .bill figure.chart").first().locator("summary").count(), 1);
      const labels = await page.locator("#runs .bill .mark").evaluateAll((all) => all.map((m) => m.getAttribute("aria-label").split(",")[0]));
      assert.deepEqual([...new Set(labels)], ["off", "on"]);
    }));

  for (const width of [1440, 390])
    test(`begin with what differs and what limits, above the fold at ${width} pixels`, () =>
      open("own", { width }, async (page) => {
        const [off, on] = ["off", "on"].map((side) => JSON.parse(readFileSync(join(dir, "own", side, "result.json"), "utf8")));
        const title = page.locator("h1");
        const said = await title.innerText();
        // At this rate both send as much. The bytes are those of both directions of the link.
        const parts = ["tlp", "pad", "gap"].flatMap((n) => [`pcie_down_${n}_bytes`, `pcie_up_${n}_bytes`]);
        const bytes = (r) => parts.reduce((sum, n) => sum + (r.per_packet[n] ?? 0), 0);
        const fewer = (100 * (1 - bytes(on) / bytes(off))).toFixed(1);
        assert.match(said, /^on is as fast as off, (30\.\d+|29\.9\d*) Mpps; a packet costs /);
        assert.ok(said.includes(`${fewer} % fewer bytes on the bus`), `${fewer}: ${said}`);
        const limit = page.locator(".limit");
        assert.deepEqual([off.limit.binds, on.limit.binds], ["load", "load"]);
        assert.equal(await limit.innerText(), `Limits: off: ${off.limit.said}; on: ${on.limit.said}.`);
        // The rate is the same within its error, so that no sign judges it.
        assert.equal(await page.locator("#runs table").first().locator(".holds, .miss").count(), 0);
        for (const part of [title, limit]) {
          const box = await part.boundingBox();
          assert.ok(box.y + box.height < 900, `${box.y + box.height}`);
        }
        // The rates follow, those of packets first, with the change and its direction.
        const rows = await page.locator("#runs table").first().locator("tbody tr").allInnerTexts();
        assert.ok(rows[0].startsWith("packets_per_s"), rows[0]);
        assert.ok(rows.some((r) => r.startsWith("inbound_link_share")), rows.join("|"));
      }));

  test("tell where they come from", () =>
    open("own", {}, async (page) => {
      const facts = await page.locator(".facts").allInnerTexts();
      const on = JSON.parse(readFileSync(join(dir, "own", "on", "result.json"), "utf8"));
      assert.ok(facts[1].includes("doorbell run mlx5-pktgen-64 --set traffic.packets=24000 --set traffic.rate=30 --set driver.mpwqe=on"), facts[1]);
      assert.ok(facts[1].includes(`SHA-256 ${on.profile_sha256.slice(0, 12)}`) && /\d{4}-\d\d-\d\d \d\d:\d\d UTC, doorbell /.test(facts[1]), facts[1]);
      assert.equal(await page.title(), "off, on · Doorbell");
    }));
});

describe("sweeps and rankings", () => {
  const result = (name) => JSON.parse(readFileSync(join(dir, "series", `${name}.json`), "utf8"));
  const section = (page, heading) => page.locator("section", { has: page.getByRole("heading", { name: heading, exact: true }) });

  test("begin with a sentence, and each has a section with its command", () =>
    open("series", {}, async (page) => {
      const ids = await page.locator("main > section").evaluateAll((all) => all.map((s) => s.querySelector("h2").textContent));
      assert.deepEqual(ids, ["Sweep: sizes", "Sweep: words", "Ranking: moderation", "Ranking: seeds", "Ranking: time"]);
      const cells = result("sizes").rows.flatMap((r) => Object.entries(r.values.cycles).map(([side, v]) => [v, `traffic.size=${r.keys["traffic.size"]}, driver.mpwqe=${side}`]));
      cells.sort((a, b) => a[0] - b[0]);
      const [least, most] = [cells[0], cells.at(-1)];
      const digits = (v) => v.toLocaleString("en-US", { maximumFractionDigits: 2 });
      assert.equal(await page.locator("h1").innerText(), `sizes: cycles from ${digits(least[0])} at ${least[1]} to ${digits(most[0])} at ${most[1]}`);
      const said = await section(page, "Sweep: sizes").innerText();
      assert.match(said, /driver.mpwqe=on instead of off changes cycles by −[\d.]+ % to −[\d.]+ %, packets_per_s by /);
      assert.ok(said.includes("doorbell sweep mlx5-pktgen-64 --over traffic.size=64,128,256,512,1024 --across driver.mpwqe=off,on --show cycles --show packets_per_s --set traffic.packets=4000"), said);
      const ranked = await section(page, "Ranking: moderation").innerText();
      assert.ok(ranked.includes("--side fixed:driver.controller=fixed --side dim:driver.controller=dim --by rx_interrupts_per_s --by latency_ns.p99 --show cpu_busy_share --noise 5 --set 'traffic.duration=10 ms'"), ranked);
      assert.ok((await section(page, "Ranking: time").innerText()).includes("--series setting_packets --every 2"));
    }));

  test("draw steps by a factor evenly, others by their size", () =>
    open("series", {}, async (page) => {
      const places = async (heading) => {
        const x = await section(page, heading).locator("figure.chart").first().locator("circle.mark").evaluateAll((all) => all.map((c) => Number(c.getAttribute("cx"))));
        return [...new Set(x)].sort((a, b) => a - b);
      };
      for (const [heading, n] of [["Sweep: sizes", 5], ["Sweep: words", 10]]) {
        const x = await places(heading);
        assert.equal(x.length, n);
        const gaps = x.slice(1).map((v, i) => v - x[i]);
        assert.ok(Math.max(...gaps) - Math.min(...gaps) < 0.01, `${heading}: ${gaps}`);
      }
    }));

  test("show the numbers of their files", () =>
    open("series", {}, async (page) => {
      const figure = section(page, "Sweep: sizes").locator("figure.chart").first();
      await figure.locator("summary").click();
      // The page fills it after the click.
      await figure.locator("tbody tr").first().waitFor();
      const rows = await figure.locator("tbody tr").evaluateAll((all) => all.map((r) => [...r.children].map((c) => c.textContent)));
      const number = (text) => Number(text.replace(/[, B]/g, ""));
      for (const [i, row] of result("sizes").rows.entries()) {
        assert.equal(number(rows[i][0]), row.keys["traffic.size"]);
        for (const [s, side] of ["off", "on"].entries()) assert.ok(Math.abs(number(rows[i][s + 1]) / row.values.cycles[side] - 1) < 1e-4, `${rows[i]}`);
      }
      const table = section(page, "Ranking: moderation").locator("table").first();
      const ranked = await table.locator("tbody tr").evaluateAll((all) => all.map((r) => [...r.children].map((c) => c.textContent)));
      for (const [i, row] of result("moderation").rows.entries()) {
        assert.deepEqual([ranked[i][0], ranked[i][1], ranked[i][5]], [row.scenario, row.side, row.against_first]);
        assert.ok(Math.abs(number(ranked[i][2].replace("1/s", "")) - row.values.rx_interrupts_per_s) < 0.5, `${ranked[i]}`);
      }
      const dots = await section(page, "Ranking: moderation").locator("figure.chart").first().locator("circle.mark").count();
      assert.equal(dots, 4);
    }));

  test("give a side one colour in all charts", () =>
    open("series", {}, async (page) => {
      const fill = (heading, label) => section(page, heading).locator(`circle.mark[aria-label*="${label}"]`).first().evaluate((c) => getComputedStyle(c).fill);
      const lines = async (heading, name) => {
        const item = section(page, heading).locator(".keys li", { hasText: name });
        return item.locator(".swatch").evaluate((s) => s.style.getPropertyValue("--swatch"));
      };
      for (const name of ["fixed", "dim"]) assert.equal(await lines("Ranking: moderation", name), await lines("Ranking: time", name));
      assert.notEqual(await fill("Ranking: time", "fixed,"), await fill("Ranking: time", "dim,"));
      assert.equal(await fill("Ranking: time", "dim,"), await fill("Ranking: moderation", ", dim:"));
      assert.equal(await lines("Sweep: sizes", "mpwqe on"), await lines("Sweep: words", "mpwqe on"));
    }));

  test("can be chosen by name", () => {
    execFileSync(doorbell, ["report", join(dir, "series"), "words"]);
    assert.ok(readFileSync(pages.series, "utf8").includes('"ranks":[]'));
    execFileSync(doorbell, ["report", join(dir, "series")]);
  });
});

describe("results of guests", () => {
  const section = (page, heading) => page.locator("section", { has: page.getByRole("heading", { name: heading, exact: true }) });

  test("begin with what the second kernel changes, and mark it in the table", () =>
    open("guests", {}, async (page) => {
      const runs = JSON.parse(readFileSync(join(dir, "guests", "both.json"), "utf8")).runs.filter((r) => r.workload === "pktgen");
      const [a, b] = runs.map((r) => r.instructions.driver_transmit);
      const change = (100 * (b / a - 1)).toFixed(1);
      const short = (n) => String(Number(n.toFixed(1)));
      assert.equal(await page.locator("h1").innerText(), `both: a packet of pktgen takes ${short(a)} transmit instructions of mlx5_core on debian:6.1 A, ${short(b)} on debian:7.3 B (+${change} %)`);
      const row = section(page, "Guest: both").locator("tbody tr", { hasText: "instructions.driver_transmit" }).first();
      const cells = await row.locator("td").allInnerTexts();
      assert.ok(cells[1].includes("▲") && !cells[0].includes("▲"), cells.join("|"));
      assert.equal(await row.locator("td.miss").count(), 1);
    }));

  test("show instructions by step, and functions of both kernels", () =>
    open("guests", {}, async (page) => {
      const titles = await section(page, "Guest: both").locator("figure.chart h4").allInnerTexts();
      for (const title of ["Instructions of the driver a packet", "Functions that changed most"]) assert.ok(titles.includes(title), titles.join("|"));
      const figure = section(page, "Guest: both").locator("figure.chart", { hasText: "Functions that changed most" }).first();
      const labels = await figure.locator(".mark").evaluateAll((all) => all.map((m) => m.getAttribute("aria-label")));
      assert.ok(labels.includes("mlx5e_tx_skb_update_ts_flags, debian:7.3 B: 16 instructions"), labels.slice(0, 4).join("|"));
    }));

  test("tell the command of one file, and none of two", () =>
    open("guests", {}, async (page) => {
      const one = await section(page, "Guest: linux-6.1").locator(".facts").innerText();
      assert.ok(one.includes("doorbell guest mlx5 --kernel debian:6.1 --workload pktgen,ping"), one);
      assert.ok(!(await section(page, "Guest: both").locator(".facts").innerText()).includes("doorbell guest"));
    }));
});

for (const name of ["all", "moved", "own", "series", "guests"]) {
  for (const colorScheme of ["light", "dark"]) {
    test(`${name}: axe finds nothing (${colorScheme})`, () =>
      open(name, { colorScheme }, async (page) => {
        // Through the debugger: the page's own policy would not let it in.
        await page.evaluate(`(() => { ${axe} })()`);
        for (const summary of await page.locator("summary").all()) await summary.evaluate((s) => (s.parentElement.open = true));
        await page.waitForFunction(() => [...document.querySelectorAll("figure.chart details")].every((d) => d.querySelector("table")));
        const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
        assert.deepEqual(found.violations.map((v) => `${v.id}: ${v.nodes[0].html.slice(0, 200)} ${v.nodes[0].failureSummary}`), []);
      }));
  }
  test(`${name}: 390 pixels are enough`, () =>
    open(name, { width: 390 }, async (page) => {
      const [wide, over] = await page.evaluate(() => [
        document.documentElement.scrollWidth,
        [...document.querySelectorAll("main *")].filter((e) => e.getBoundingClientRect().right > 391 && !e.closest(".scroll, .wide, .hide, thead")).map((e) => e.outerHTML.slice(0, 120)),
      ]);
      assert.equal(wide, 390);
      assert.deepEqual(over, []);
    }));
}
