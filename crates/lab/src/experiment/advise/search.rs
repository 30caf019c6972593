//! The search for the best design in a space of settings.
//!
//! A small space is tried whole. In a larger one a share of the runs goes to random designs; from
//! the best of all so far, each setting in turn is tried with all its values while the others stay
//! (coordinate descent), until none gains; then the descent begins again from a design of which two
//! settings were drawn anew, until the runs are used up. Designs are not run twice.
//!
//! At the end each setting takes the value nearest to today's among those that are as good as the
//! best, so that nothing is changed for nothing.

use crate::experiment::in_parallel;
use doorbell_sim::traffic::arrivals::Rng;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The share of a space that is tried.
const SHARE: f64 = 0.05;
/// A space of at most so many designs is tried whole.
const WHOLE: usize = 48;
/// The most runs of a search.
const MOST: usize = 240;
/// The share of the runs that are random designs.
const RANDOM: usize = 4;

/// A design: the index of the value of each setting.
pub type Design = Vec<usize>;

/// The result of a design. Less is better.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Score {
    /// The distance from the constraints; 0 if they hold. Infinite for a design that cannot run.
    pub missed: f64,
    /// The goal, as a number of which less is better.
    pub goal: f64,
    /// Its error, relative to it.
    pub error: f64,
}

impl Score {
    /// A design that cannot run.
    pub const NONE: Score = Score { missed: f64::INFINITY, goal: f64::INFINITY, error: 0.0 };

    /// Compares two scores: first by the constraints.
    pub fn compare(&self, other: &Score) -> Ordering {
        self.missed.total_cmp(&other.missed).then(self.goal.total_cmp(&other.goal))
    }
}

/// A space of designs.
pub struct Space<'a> {
    /// The number of values of each setting.
    pub sizes: &'a [usize],
    /// The distance of a setting's value from today's.
    pub distance: &'a dyn Fn(usize, usize) -> f64,
    /// The least gain that counts, relative to the goal; up to twice that if its error is larger.
    pub least: f64,
}

/// A search under way.
struct Search<'a, E> {
    space: &'a Space<'a>,
    /// Runs a design.
    run: &'a (dyn Fn(&Design) -> Result<Score, E> + Sync),
    /// Is told the number of runs so far; returns whether to go on.
    go_on: &'a mut dyn FnMut(usize) -> bool,
    known: BTreeMap<Design, Score>,
    most: usize,
    draw: Rng,
}

/// Returns the number of designs in a space.
pub fn designs(sizes: &[usize]) -> usize {
    sizes.iter().fold(1usize, |n, size| n.saturating_mul(*size))
}

/// Returns the number of runs that a search of such a space makes at most.
pub fn runs(sizes: &[usize]) -> usize {
    match designs(sizes) {
        n if n <= WHOLE => n,
        n => ((n as f64 * SHARE) as usize).clamp(WHOLE, MOST),
    }
}

/// Searches the best design, beginning with `start`. Returns it, and the scores of all designs that
/// were tried. Ends early, with the best so far, when `go_on` says so.
///
/// # Errors
/// The first error of `run`.
pub fn search<E: Send>(
    space: &Space<'_>,
    start: &Design,
    seed: u64,
    run: &(dyn Fn(&Design) -> Result<Score, E> + Sync),
    go_on: &mut dyn FnMut(usize) -> bool,
) -> Result<(Design, BTreeMap<Design, Score>), E> {
    let (known, draw, sizes) = (BTreeMap::new(), Rng::new(seed), space.sizes);
    let mut s = Search { space, run, go_on, known, most: runs(sizes), draw };
    s.try_all(vec![start.clone()])?;
    if designs(sizes) <= WHOLE {
        s.try_all(every(sizes))?;
    } else {
        let line: usize = sizes.iter().map(|n| n - 1).sum();
        let all = s.most;
        s.most = all.saturating_sub(line).max(all / 2);
        let random = (0..s.most / RANDOM).map(|_| s.random()).collect();
        s.try_all(random)?;
        s.descend()?;
        s.most = all;
    }
    let best = s.settle()?;
    Ok((best, s.known))
}

/// Returns every design of a space.
fn every(sizes: &[usize]) -> Vec<Design> {
    let mut all: Vec<Design> = vec![Vec::new()];
    for size in sizes {
        all = all.iter().flat_map(|d| (0..*size).map(|v| [&d[..], &[v]].concat())).collect();
    }
    all
}

impl<E: Send> Search<'_, E> {
    fn best(&self) -> Design {
        let best = self.known.iter().min_by(|a, b| a.1.compare(b.1));
        best.map_or_else(|| vec![0; self.space.sizes.len()], |(design, _)| design.clone())
    }

    fn random(&mut self) -> Design {
        self.space.sizes.iter().map(|n| self.draw.one_of(*n as u64) as usize).collect()
    }

    /// Takes of each setting's values that are as good as the best design the one nearest to
    /// today's, until nothing changes.
    fn settle(&mut self) -> Result<Design, E> {
        let mut at = self.best();
        let Some(mut top) = self.known.get(&at).copied() else { return Ok(at) };
        let slack = top.error.clamp(self.space.least, 2.0 * self.space.least) * top.goal.abs();
        for _ in 0..self.space.sizes.len() {
            let before = at.clone();
            for setting in 0..self.space.sizes.len() {
                let line = self.line(&at, setting);
                self.try_all(line.clone())?;
                let known = line.iter().filter_map(|d| Some((*self.known.get(d)?, d)));
                let known: Vec<(Score, &Design)> = known.collect();
                let best = known.iter().map(|(s, _)| *s).chain([top]).min_by(Score::compare);
                top = best.unwrap_or(top);
                let good = |s: &Score| s.missed <= top.missed && s.goal <= top.goal + slack;
                let far = |d: &Design| (self.space.distance)(setting, d[setting]);
                let nearest = known.iter().filter(|(s, _)| good(s)).map(|(_, d)| *d);
                let nearest = nearest.min_by(|a, b| far(a).total_cmp(&far(b)));
                at = nearest.cloned().unwrap_or(at);
            }
            if at == before {
                break;
            }
        }
        Ok(at)
    }

    /// Returns a design with each value of one setting.
    fn line(&self, at: &Design, setting: usize) -> Vec<Design> {
        let with = |v| {
            let mut design = at.clone();
            design[setting] = v;
            design
        };
        (0..self.space.sizes[setting]).map(with).collect()
    }

    /// Returns the best design with two settings drawn anew.
    fn neighbour(&mut self) -> Design {
        let mut design = self.best();
        for _ in 0..2 {
            let at = self.draw.one_of(self.space.sizes.len() as u64) as usize;
            design[at] = self.draw.one_of(self.space.sizes[at] as u64) as usize;
        }
        design
    }

    /// Runs those of the designs that are not known, as far as there are runs left. Returns whether
    /// to go on.
    fn try_all(&mut self, mut designs: Vec<Design>) -> Result<bool, E> {
        designs.sort();
        designs.dedup();
        designs.retain(|d| !self.known.contains_key(d));
        designs.truncate(self.most.saturating_sub(self.known.len()));
        // So many at a time that an interrupt is heeded soon.
        for some in designs.chunks(16) {
            if !(self.go_on)(self.known.len()) {
                return Ok(false);
            }
            let scores = in_parallel(some, |_, d| (self.run)(d))?;
            self.known.extend(some.iter().cloned().zip(scores));
        }
        Ok(self.known.len() < self.most && (self.go_on)(self.known.len()))
    }

    /// Descends from the best design, and then from neighbours of it, while there are runs.
    fn descend(&mut self) -> Result<(), E> {
        let mut from = self.best();
        let mut idle = 0;
        while idle < 8 * self.space.sizes.len() {
            let before = self.known.len();
            if !self.descend_from(from)? {
                return Ok(());
            }
            idle = if self.known.len() == before { idle + 1 } else { 0 };
            from = self.neighbour();
        }
        Ok(())
    }

    /// Tries all values of one setting after the other, each time from the best so far on this way.
    fn descend_from(&mut self, mut at: Design) -> Result<bool, E> {
        if !self.try_all(vec![at.clone()])? {
            return Ok(false);
        }
        loop {
            let before = at.clone();
            for setting in 0..self.space.sizes.len() {
                let line = self.line(&at, setting);
                let go_on = self.try_all(line.clone())?;
                let tried = line.into_iter().filter_map(|d| Some((*self.known.get(&d)?, d)));
                let best = tried.min_by(|a, b| a.0.compare(&b.0));
                at = best.map_or(at, |(_, design)| design);
                if !go_on {
                    return Ok(false);
                }
            }
            if at == before {
                return Ok(true);
            }
        }
    }
}

#[cfg(test)]
mod tests;
