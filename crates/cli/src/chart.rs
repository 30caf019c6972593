//! Line charts as SVG: files of their own, and parts of pages.
//!
//! Each line has a mark of its own shape beside its colour, and each mark its numbers as a title,
//! which a browser shows under the pointer. A file has no background and colours of medium
//! lightness, so that it is readable on light and on dark pages; a page's colours are its own. The
//! viewer chooses the font. The same numbers give the same bytes.

use doorbell_console::render::amount;
use maud::{Markup, html};

/// The most lines: the pairs of colour and mark that can be told apart.
pub(crate) const MOST: usize = 8;
/// Width and height of a file.
const SIZE: (f64, f64) = (800.0, 440.0);
/// Marks of a line: more would hide it.
const MARKS: usize = 24;
/// Of a letter, with room to spare.
const LETTER: f64 = 7.5;

/// The colours of a drawing.
pub(crate) struct Colours<'a> {
    /// Of text and axes.
    pub(crate) ink: &'a str,
    /// Of the grid.
    pub(crate) rule: &'a str,
    /// Of each line.
    pub(crate) lines: Vec<&'a str>,
}

impl Colours<'_> {
    /// Readable on white and on black.
    const OF_FILES: [&'static str; MOST] =
        ["#d66214", "#267ed6", "#1e9460", "#b454be", "#ce4254", "#1490a0", "#967814", "#7a7c80"];
    const INK: &'static str = "#7a7c80";
}

/// A line: its name in the legend, and its points.
pub(crate) struct Line {
    pub(crate) label: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// The lines of a chart and their axes.
#[derive(Default)]
pub(crate) struct Plot {
    /// Names of the places 0, 1, 2 … on the horizontal axis; none of numbers.
    pub(crate) words: Vec<String>,
    pub(crate) lines: Vec<Line>,
    /// True if a value holds until the next one.
    pub(crate) steps: bool,
    /// Units behind a mark's numbers.
    pub(crate) units: (String, String),
    /// Places on the horizontal axis, each with a text.
    pub(crate) rules: Vec<(f64, String)>,
}

/// A chart that is a file.
pub(crate) struct Chart {
    pub(crate) title: String,
    /// Titles of the axes, with units.
    pub(crate) x: String,
    pub(crate) y: String,
    pub(crate) plot: Plot,
}

impl Chart {
    pub(crate) fn svg(&self) -> String {
        let palette = (0..self.plot.lines.len()).map(|i| Colours::OF_FILES[i % MOST]);
        let ink = Colours::INK;
        let colours = Colours { ink, rule: ink, lines: palette.collect() };
        let (width, height) = SIZE;
        // The legend, in as many lines as it takes. A single line has no name.
        let (mut x, mut y) = (16.0, 41.0);
        let mut legend = Vec::new();
        for (i, line) in self.plot.lines.iter().enumerate().filter(|(_, l)| !l.label.is_empty()) {
            let wide = 44.0 + LETTER * line.label.chars().count() as f64;
            if x + wide > width && x > 16.0 {
                (x, y) = (16.0, y + 20.0);
            }
            legend.push((i, &line.label, x, y));
            x += wide;
        }
        let top = y + 21.0;
        let body = html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (width) " " (height) }
                width=(width) height=(height) font-family="sans-serif" font-size="13" fill=(ink) {
                text x="16" y="22" font-size="15" { (self.title) }
                @for (i, label, x, y) in legend {
                    path d={ "M" (px(x)) " " (px(y)) "h24" } stroke=(colours.lines[i])
                        stroke-width="2" {}
                    (mark(i, x + 12.0, y, colours.lines[i], ""))
                    text x=(px(x + 30.0)) y=(px(y + 4.5)) { (label) }
                }
                g transform={ "translate(30 " (px(top)) ")" } {
                    (self.plot.draw((width - 46.0, height - top - 32.0), &colours))
                }
                text x=(px(width / 2.0 + 30.0)) y=(px(height - 10.0)) text-anchor="middle" {
                    (self.x)
                }
                text transform={ "translate(20 " (px((top + height - 48.0) / 2.0)) ") rotate(-90)" }
                    text-anchor="middle" { (self.y) }
            }
        };
        // One element a line, for people who compare versions.
        body.into_string().replace("><", ">\n<") + "\n"
    }
}

/// The places of an axis on a drawing.
#[derive(Clone, Copy)]
struct Scale {
    from: (f64, f64),
    to: (f64, f64),
    powers: bool,
}

impl Scale {
    fn at(&self, x: f64) -> f64 {
        let of = |x: f64| if self.powers { libm::log10(x) } else { x };
        let share = (of(x) - of(self.from.0)) / (of(self.from.1) - of(self.from.0));
        self.to.0 + share * (self.to.1 - self.to.0)
    }

    /// Returns places for at most so many ticks: of powers 1, 2 and 5 of each, or 1 alone.
    fn ticks(&self, most: usize) -> Vec<f64> {
        let (low, high) = self.from;
        if !self.powers {
            return ticks(self.from, most);
        }
        let powers = libm::floor(libm::log10(low)) as i32..=libm::ceil(libm::log10(high)) as i32;
        let of = |digits: &[f64]| -> Vec<f64> {
            let all = powers.clone().flat_map(|p| {
                digits.iter().map(move |d| {
                    let power = libm::pow(10.0, f64::from(p.abs()));
                    if p < 0 { d / power } else { d * power }
                })
            });
            all.filter(|x| (low * 0.999..=high * 1.001).contains(x)).collect()
        };
        let all = [of(&[1.0, 2.0, 5.0]), of(&[1.0])];
        // Less than a decade may hold none of them.
        let fits = all.into_iter().find(|t| (3..=most).contains(&t.len()));
        fits.unwrap_or_else(|| ticks(self.from, most))
    }
}

/// Returns even places for at most so many ticks: multiples of 1, 2 or 5 by a power of ten.
pub(crate) fn ticks((low, high): (f64, f64), most: usize) -> Vec<f64> {
    let least = (high - low) / most.max(1) as f64;
    let power = libm::floor(libm::log10(least)) as i32;
    // A quotient by a power of ten is nearer to what people write than a product.
    let scaled = |n: f64| {
        let by = libm::pow(10.0, f64::from(power.abs()));
        if power < 0 { n / by } else { n * by }
    };
    let steps = [1.0, 2.0, 5.0, 10.0];
    let step = steps.into_iter().find(|s| scaled(*s) >= least * 0.999_999).unwrap_or(10.0);
    let ends = |x: f64| x / scaled(step);
    let (first, last) = (libm::ceil(ends(low) - 1e-9), libm::floor(ends(high) + 1e-9));
    (first as i64..=last as i64).map(|i| scaled(i as f64 * step)).collect()
}

/// Returns true if numbers lie more evenly by their logarithms.
fn are_powers(all: impl Iterator<Item = f64>) -> bool {
    let mut all: Vec<f64> = all.collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    let gap = |f: fn(f64) -> f64| {
        let widest = all.windows(2).map(|w| f(w[1]) - f(w[0])).fold(0.0, f64::max);
        widest / (f(all[all.len() - 1]) - f(all[0]))
    };
    all.len() > 2 && all[0] > 0.0 && gap(libm::log) < gap(|x| x)
}

/// Formats the number of a tick without trailing zeros.
pub(crate) fn number(x: f64) -> String {
    let text = if x.fract() == 0.0 { format!("{x:.0}") } else { amount(x) };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

/// Returns the range of an axis: the values with a margin, and zero unless all are far above it.
fn range(values: impl Iterator<Item = f64>, zero: bool) -> (f64, f64) {
    let (least, most) = values.fold((f64::MAX, f64::MIN), |(a, b), x| (a.min(x), b.max(x)));
    let span = if most > least { most - least } else { most.abs().max(1.0) };
    let near = zero && least >= 0.0 && least < 0.7 * most;
    let low = if near || least == 0.0 { 0.0 } else { least - 0.06 * span };
    (low, most + 0.06 * (most - low).max(span))
}

/// Formats a place on a drawing.
fn px(x: f64) -> String {
    let text = format!("{x:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

impl Plot {
    /// Draws axes, grid, lines and marks into an area of this size, with its ticks beside it.
    pub(crate) fn draw(&self, (width, height): (f64, f64), colours: &Colours<'_>) -> Markup {
        let xs = || self.lines.iter().flat_map(|l| l.points.iter().map(|p| p.0));
        let ys = || self.lines.iter().flat_map(|l| l.points.iter().map(|p| p.1));
        let vertical = Scale { from: range(ys(), true), to: (height - 22.0, 8.0), powers: false };
        let rows = ticks(vertical.from, (height / 45.0) as usize);
        let widest = rows.iter().map(|y| number(*y).len()).max().unwrap_or(0);
        let left = LETTER * widest as f64 + 12.0;
        let powers = self.words.is_empty() && are_powers(xs());
        let from = if powers {
            let (low, high) =
                xs().fold((f64::MAX, 0.0), |(a, b): (f64, f64), x| (a.min(x), b.max(x)));
            let margin = libm::pow(high / low, 0.03);
            (low / margin, high * margin)
        } else {
            range(xs(), false)
        };
        let horizontal = Scale { from, to: (left, width), powers };
        let columns: Vec<(f64, String)> = if self.words.is_empty() {
            let labels = |most| -> Vec<(f64, String)> {
                horizontal.ticks(most).into_iter().map(|x| (x, number(x))).collect()
            };
            let fits = |all: &[(f64, String)]| {
                let widest = all.iter().map(|t| t.1.len()).max().unwrap_or(0);
                (LETTER * widest as f64 + 14.0) * all.len() as f64 <= width - left
            };
            [12, 8, 6, 4, 3].into_iter().map(labels).find(|t| fits(t)).unwrap_or_else(|| labels(2))
        } else {
            self.words.iter().enumerate().map(|(i, word)| (i as f64, word.clone())).collect()
        };
        let at = |(x, y): (f64, f64)| (horizontal.at(x), vertical.at(y));
        let bottom = height - 22.0;
        html! {
            g stroke=(colours.rule) stroke-opacity="0.35" {
                @for y in &rows {
                    path d={ "M" (px(left)) " " (px(vertical.at(*y))) "H" (px(width)) } {}
                }
                @for (x, _) in &columns {
                    path d={ "M" (px(horizontal.at(*x))) " " (px(bottom)) "v5" } {}
                }
            }
            g fill=(colours.ink) {
                @for y in &rows {
                    text x=(px(left - 7.0)) y=(px(vertical.at(*y) + 4.0)) text-anchor="end" {
                        (number(*y))
                    }
                }
                @for (x, text) in &columns {
                    text x=(px(horizontal.at(*x))) y=(px(height - 4.0)) text-anchor="middle" {
                        (text)
                    }
                }
                @for (x, text) in &self.rules {
                    path d={ "M" (px(horizontal.at(*x))) " 8V" (px(bottom)) } stroke=(colours.ink)
                        stroke-dasharray="3 3" {}
                    text x=(px(horizontal.at(*x) + 5.0)) y="17" { (text) }
                }
            }
            @for (i, line) in self.lines.iter().enumerate() {
                path d=(self.path(line, &at)) fill="none" stroke=(colours.lines[i])
                    stroke-width="2" {}
                @for point in line.points.iter().step_by(line.points.len().div_ceil(MARKS).max(1)) {
                    @let (x, y) = at(*point);
                    (mark(i, x, y, colours.lines[i], &self.told(line, *point)))
                }
            }
        }
    }

    fn path(&self, line: &Line, at: &impl Fn((f64, f64)) -> (f64, f64)) -> String {
        let mut text = String::new();
        for (i, point) in line.points.iter().enumerate() {
            let (x, y) = at(*point);
            text += &match (i, self.steps) {
                (0, _) => format!("M{} {}", px(x), px(y)),
                (_, true) => format!("H{}V{}", px(x), px(y)),
                (_, false) => format!("L{} {}", px(x), px(y)),
            };
        }
        text
    }

    /// Returns the numbers of a point in words.
    fn told(&self, line: &Line, (x, y): (f64, f64)) -> String {
        let name = if line.label.is_empty() { String::new() } else { format!("{}, ", line.label) };
        let place = match self.words.get(x as usize) {
            Some(word) => word.clone(),
            None => format!("{} {}", number(x), self.units.0),
        };
        format!("{name}{}: {} {}", place.trim(), number(y), self.units.1).trim_end().to_owned()
    }
}

/// Draws the mark of the `i`th line at a position, with a title unless it is empty.
fn mark(i: usize, x: f64, y: f64, colour: &str, title: &str) -> Markup {
    let title = html! { @if !title.is_empty() { title { (title) } } };
    let at = format!("{} {}", px(x), px(y));
    match i % 4 {
        0 => html! { circle cx=(px(x)) cy=(px(y)) r="4" fill=(colour) { (title) } },
        1 => html! { path d={ "M" (at) "m-5 4h10l-5-9z" } fill=(colour) { (title) } },
        2 => html! {
            circle cx=(px(x)) cy=(px(y)) r="4" fill="none" stroke=(colour) stroke-width="2"
                pointer-events="all" { (title) }
        },
        _ => html! {
            path d={ "M" (at) "m-4-4l8 8m0-8l-8 8" } fill="none" stroke=(colour) stroke-width="2"
                pointer-events="all" { (title) }
        },
    }
}

#[cfg(test)]
mod tests;
