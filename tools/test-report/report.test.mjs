// Opens reports in Debian's Chromium: nothing on the console, no request, nothing wider than the page, nothing that axe
// finds, and filters that filter. What the pages say is held by crates/cli/tests/it/report.rs.
//
//   DOORBELL=target/release/doorbell node --test
//
// CHROMIUM names another browser, SHOTS a directory for pictures. What `reproduce --out` of the same program has written
// is taken from DOORBELL_PUBLISHED, if that directory is there.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const doorbell = resolve(process.env.DOORBELL ?? "../../target/release/doorbell");
const dir = mkdtempSync(join(tmpdir(), "doorbell-report-"));
let browser;

before(async () => {
  const run = (...args) => execFileSync(doorbell, [...args, "--quiet"], { encoding: "utf8" });
  const all = join(dir, "all");
  const published = process.env.DOORBELL_PUBLISHED ?? "";
  if (existsSync(published)) cpSync(published, all, { recursive: true });
  else run("reproduce", "--out", all);
  // A sensitivity run takes minutes; what it would have left is put into the file.
  const file = join(all, "reproduce.json");
  const figures = JSON.parse(readFileSync(file, "utf8"));
  const one = figures.systems.find((s) => s.name === "axienet");
  const changes = (i) => one.rows.map((_, at) => [0, 0.31, -1.2, null][(i + at) % 4]);
  one.sensitivity = { constants: one.constants.slice(0, 6).map((c, i) => ({ key: c.key, by: i === 1 ? "+2" : "+1 %", fitted: false, changes: changes(i) })) };
  writeFileSync(file, JSON.stringify(figures));
  execFileSync(doorbell, ["report", all]);
  // All other kinds of results in one page.
  const own = join(dir, "own");
  mkdirSync(own);
  for (const side of ["on", "off"]) run("run", "mlx5-pktgen-64", "--set", "traffic.packets=24000", "--set", `driver.mpwqe=${side}`, "--out", join(own, side));
  const print = (name, ...args) => writeFileSync(join(own, name), run(...args, "--format", "json"));
  print("sizes.json", "sweep", "mlx5-pktgen-64", "--set", "traffic.packets=4000", "--over", "traffic.size=64,128,256,512,1024", "--across", "driver.mpwqe=off,on", "--show", "cycles", "--show", "packets_per_s");
  const sides = ["--side", "fixed: driver.controller=fixed", "--side", "dim: driver.controller=dim"];
  const by = ["--by", "rx_interrupts_per_s", "--by", "latency_ns.p99"];
  print("moderation.json", "rank", "axienet-saturated", "axienet-sporadic", "--set", "traffic.duration=10 ms", ...sides, ...by, "--show", "cpu_busy_share");
  print("time.json", "rank", "axienet-steps", "--set", "traffic.duration=20 ms", ...sides, "--series", "setting_packets", "--every", "2");
  print("advice.json", "advise", "mlx5-pktgen-64", "--set", "traffic.packets=4000", "--over", "driver.moderation_period=0,2,8,16");
  const kept = resolve("../../crates/cli/tests/kept");
  print("guests.json", "compare", ...["linux-6.1.json", "linux-7.3.json"].map((name) => join(kept, name)));
  execFileSync(doorbell, ["report", own]);
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
});

after(async () => {
  await browser?.close();
  rmSync(dir, { recursive: true });
});

for (const [name, width, colorScheme] of [["all", 1200, "light"], ["all", 390, "dark"], ["own", 1200, "dark"], ["own", 390, "light"]]) {
  test(`${name}, ${width} pixels, ${colorScheme}`, async () => {
    const file = join(dir, name, "report.html");
    assert.ok(statSync(file).size < 1e6, "one small file");
    const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme, reducedMotion: "reduce" });
    const page = await context.newPage();
    const said = [];
    page.on("console", (m) => said.push(`${m.type()}: ${m.text()}`));
    page.on("pageerror", (e) => said.push(String(e)));
    const own = pathToFileURL(file).href;
    page.on("request", (r) => r.url() === own || said.push(`request: ${r.url()}`));
    await page.goto(own);
    if (process.env.SHOTS) await page.screenshot({ path: join(process.env.SHOTS, `${name}-${width}-${colorScheme}.png`), fullPage: true });
    // The head of the page, which is its conclusion, is above the fold.
    const title = await page.locator("h1").boundingBox();
    assert.ok(title.y + title.height < 900);
    const [wide, over] = await page.evaluate(() => {
      for (const details of document.querySelectorAll("details")) details.open = true;
      return [
        document.documentElement.scrollWidth,
        [...document.querySelectorAll("main *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll, .wide, .hide, thead")).map((e) => e.outerHTML.slice(0, 120)),
      ];
    });
    assert.deepEqual([wide, over], [width, []]);
    // Through the debugger: the page's own policy would not let it in.
    await page.evaluate(`(() => { ${axe} })()`);
    const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
    assert.deepEqual(found.violations.map((v) => `${v.id}: ${v.nodes[0].html.slice(0, 200)} ${v.nodes[0].failureSummary}`), []);
    assert.deepEqual(said, []);
    if (name === "all") {
      const rows = () => page.$$eval(".rows tbody tr:not(.group)", (all) => all.filter((r) => r.checkVisibility()).map((r) => r.querySelector(".r").textContent));
      const before = (await rows()).length;
      await page.check("#only-predicted", { force: true });
      const predicted = await rows();
      assert.ok(predicted.length > 0 && predicted.length < before && predicted.every((r) => r === "predicted"));
      await page.check("#only-axienet", { force: true });
      assert.ok((await rows()).length < predicted.length);
    }
    await context.close();
  });
}
