//! Bodies of the fuzz targets of this crate. Only they and tests are built with it.

use crate::check;
use crate::serve::{self, attack};
use doorbell_study::axis::range;

/// Runs clients of `doorbell serve` as `bytes` say.
pub fn serve_clients(bytes: &[u8]) {
    attack::attack(bytes);
}

/// Counts of what bytes from outside were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inputs {
    /// Frames of the kernel's, and sends that they were merged to.
    pub frames: (usize, usize),
    /// Frames of the stream.
    pub streamed: usize,
    /// Lines of `--control`.
    pub lines: usize,
    /// Values of ranges.
    pub values: usize,
    /// Budgets that were accepted, and refused.
    pub budgets: (usize, usize),
    /// Requests of the page of counts that were answered.
    pub requests: usize,
}

/// Takes bytes as one of the inputs of commands: frames of a TAP device, a stream of frames, lines
/// of `--control`, a range of `--over`, a budget, a request of the page of counts.
///
/// # Panics
/// Panics if they are taken for what they are not.
pub fn inputs(bytes: &[u8]) -> Inputs {
    let mut of = Inputs::default();
    let Some((kind, bytes)) = bytes.split_first() else { return of };
    let text = String::from_utf8_lossy(bytes);
    match kind % 6 {
        0 => of.frames = serve::there_and_back(bytes),
        1 => of.streamed = serve::frames_in_parts(bytes),
        2 => of.lines = serve::lines_in_parts(bytes),
        3 => of.values = values(&text),
        4 => of.requests = usize::from(serve::request_in_parts(bytes)),
        _ => {
            let wrong = check::read_budget("budget.toml", &text);
            if let Some(e) = &wrong {
                assert!(e.place.starts_with("budget.toml") && !e.what.is_empty(), "{e}");
            }
            of.budgets = (usize::from(wrong.is_none()), usize::from(wrong.is_some()));
        }
    }
    of
}

/// Reads a range. Its values rise, and are at most as many as allowed.
fn values(text: &str) -> usize {
    let Ok(all) = range::values(text) else { return 0 };
    if !text.contains("..") {
        assert_eq!(all, [text]);
        return 0;
    }
    let digits = |v: &String| v.trim_end_matches(|c: char| !c.is_ascii_digit()).to_owned();
    let numbers: Vec<f64> =
        all.iter().map(|v| digits(v).parse().unwrap_or_else(|_| panic!("{text}: {v}"))).collect();
    assert!(numbers.is_sorted(), "{text}: {all:?}");
    all.len()
}

#[cfg(test)]
mod tests;
