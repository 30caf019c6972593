//! Line charts as SVG.
//!
//! A chart has no background and colours of medium lightness, so that it is readable on light and
//! on dark pages; each line has a mark of its own shape. The viewer chooses the font. The same
//! numbers give the same bytes.

use crate::{Error, failed, render::amount};
use plotters::coord::{
    Shift,
    ranged1d::{DefaultFormatting, KeyPointHint, Ranged},
    types::RangedCoordf64,
};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::ops::Range;

/// The most lines: the pairs of colour and mark that can be told apart.
pub(crate) const MOST: usize = 8;
const SIZE: (u32, u32) = (800, 440);
/// Text and axes: readable on white and on black.
const INK: RGBColor = RGBColor(122, 124, 128);
const COLOURS: [RGBColor; MOST] = [
    RGBColor(214, 98, 20),
    RGBColor(38, 126, 214),
    RGBColor(30, 148, 96),
    RGBColor(180, 84, 190),
    RGBColor(206, 66, 84),
    RGBColor(20, 144, 160),
    RGBColor(150, 120, 20),
    RGBColor(122, 124, 128),
];

pub(crate) struct Line {
    /// Its name in the legend.
    pub(crate) label: String,
    /// One for each place on the horizontal axis.
    pub(crate) values: Vec<f64>,
}

pub(crate) struct Chart {
    pub(crate) title: String,
    /// Titles of the axes, with units.
    pub(crate) x: String,
    pub(crate) y: String,
    /// Positions of the values on the horizontal axis.
    pub(crate) places: Places,
    pub(crate) lines: Vec<Line>,
}

/// Positions on the horizontal axis.
pub(crate) enum Places {
    Numbers(Vec<f64>),
    /// Side by side, with their names.
    Words(Vec<String>),
}

impl Places {
    /// Returns true if the numbers lie more evenly by their logarithms.
    fn are_powers(&self) -> bool {
        let Places::Numbers(all) = self else { return false };
        let mut all = all.clone();
        all.sort_by(f64::total_cmp);
        all.dedup();
        let gap = |f: fn(f64) -> f64| {
            let widest = all.windows(2).map(|w| f(w[1]) - f(w[0])).fold(0.0, f64::max);
            widest / (f(all[all.len() - 1]) - f(all[0]))
        };
        all.len() > 2 && all[0] > 0.0 && gap(libm::log) < gap(|x| x)
    }

    /// Returns the positions of the values.
    fn at(&self) -> Vec<f64> {
        match self {
            Places::Numbers(n) if self.are_powers() => n.iter().map(|x| libm::log10(*x)).collect(),
            Places::Numbers(n) => n.clone(),
            Places::Words(w) => (0..w.len()).map(|i| i as f64).collect(),
        }
    }

    /// Returns the positions of ticks: of powers 1, 2 and 5 of each.
    fn ticks(&self, (least, most): (f64, f64)) -> Vec<f64> {
        if !self.are_powers() {
            let room = if let Places::Words(w) = self { w.len() } else { 12 };
            return RangedCoordf64::from(least..most).key_points(room);
        }
        let powers = least.floor() as i32..=most.ceil() as i32;
        let all = powers.flat_map(|p| [1.0, 2.0, 5.0].map(|x: f64| libm::log10(x) + f64::from(p)));
        all.filter(|x| (least..=most).contains(x)).collect()
    }

    fn tick(&self, x: f64) -> String {
        match self {
            // A tick, but for the rounding of its logarithm.
            Places::Numbers(_) if self.are_powers() => {
                number((libm::pow(10.0, x) * 1e9).round() / 1e9)
            }
            Places::Numbers(_) => number(x),
            Places::Words(w) if x.fract() == 0.0 && x >= 0.0 => {
                w.get(x as usize).cloned().unwrap_or_default()
            }
            Places::Words(_) => String::new(),
        }
    }
}

/// Formats the number of a tick without trailing zeros.
fn number(x: f64) -> String {
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

impl Chart {
    pub(crate) fn svg(&self) -> Result<String, Error> {
        let mut text = String::new();
        draw(self, &SVGBackend::with_string(&mut text, SIZE).into_drawing_area())
            .map_err(|e| failed!("{e}"))?;
        Ok(text.trim_end().to_owned() + "\n")
    }
}

/// A linear axis whose ticks are chosen.
struct HorizontalAxis {
    range: RangedCoordf64,
    ticks: Vec<f64>,
}

impl Ranged for HorizontalAxis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, x: &f64, limit: (i32, i32)) -> i32 {
        self.range.map(x, limit)
    }

    fn key_points<H: KeyPointHint>(&self, _: H) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.range()
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn draw(chart: &Chart, root: &Area<'_>) -> Result<(), Box<dyn std::error::Error>> {
    let font = |size: i32, colour: RGBColor| ("sans-serif", size).into_font().color(&colour);
    root.draw(&Text::new(chart.title.clone(), (16, 10), font(15, INK)))?;
    // The legend, in as many lines as it takes.
    let (mut at, mut top) = (16, 34);
    // A single line has no name.
    let named = chart.lines.iter().enumerate().filter(|(_, line)| !line.label.is_empty());
    for (i, line) in named {
        let width = 44 + 8 * line.label.chars().count() as i32;
        if at + width > SIZE.0 as i32 {
            (at, top) = (16, top + 20);
        }
        let colour = COLOURS[i % MOST];
        root.draw(&PathElement::new([(at, top + 7), (at + 24, top + 7)], colour.stroke_width(2)))?;
        mark(root, i, (at + 12, top + 7))?;
        root.draw(&Text::new(line.label.clone(), (at + 30, top), font(14, INK)))?;
        at += width;
    }
    let (_, below) = root.split_vertically(top + 26);

    let xs = chart.places.at();
    let (x0, x1) = range(xs.iter().copied(), false);
    let ticks = chart.places.ticks((x0, x1));
    let most_ticks = ticks.len();
    let horizontal = HorizontalAxis { range: (x0..x1).into(), ticks };
    let (y0, y1) = range(chart.lines.iter().flat_map(|l| l.values.iter().copied()), true);
    let mut context = ChartBuilder::on(&below)
        .margin_left(14)
        .margin_right(16)
        .margin_bottom(6)
        .x_label_area_size(46)
        .y_label_area_size(72)
        .build_cartesian_2d(horizontal, y0..y1)?;
    let centre = Pos::new(HPos::Center, VPos::Top);
    context
        .configure_mesh()
        .x_desc(chart.x.clone())
        .y_desc(chart.y.clone())
        .x_labels(most_ticks)
        .y_labels(8)
        .x_label_formatter(&|x| chart.places.tick(*x))
        .y_label_formatter(&|y| number(*y))
        .axis_style(INK)
        .bold_line_style(INK.mix(0.25))
        .light_line_style(TRANSPARENT)
        .label_style(font(13, INK))
        .x_label_style(font(13, INK).pos(centre))
        .axis_desc_style(font(14, INK))
        .draw()?;
    for (i, line) in chart.lines.iter().enumerate() {
        let points = || xs.iter().copied().zip(line.values.iter().copied());
        context.draw_series(LineSeries::new(points(), COLOURS[i % MOST].stroke_width(2)))?;
        // Many marks would hide the line: two dozen are enough.
        let every = xs.len().div_ceil(24);
        for (n, point) in points().enumerate() {
            if n % every == 0 {
                mark(&below, i, context.backend_coord(&point))?;
            }
        }
    }
    Ok(())
}

/// Draws the mark of the `i`th line at a position.
fn mark(area: &Area<'_>, i: usize, (x, y): (i32, i32)) -> Result<(), Box<dyn std::error::Error>> {
    // Positions are in the whole picture.
    let ((left, top), colour) = (area.get_base_pixel(), COLOURS[i % MOST]);
    let at = (x - left, y - top);
    match i % 4 {
        0 => area.draw(&Circle::new(at, 4, colour.filled()))?,
        1 => area.draw(&TriangleMarker::new(at, 5, colour.filled()))?,
        2 => area.draw(&Circle::new(at, 4, colour.stroke_width(2)))?,
        _ => area.draw(&Cross::new(at, 4, colour.stroke_width(2)))?,
    }
    Ok(())
}

#[cfg(test)]
mod tests;
