//! The costs of a guest's instructions in virtual time.

use std::fmt;
use std::ops::RangeInclusive;

/// The cost of an instruction, in picoseconds, and of those of some functions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prices {
    /// The cost of each instruction of no function below.
    pub each: u64,
    /// Functions of the kernel, by their names in its symbols.
    pub functions: Vec<(String, u64)>,
}

impl Prices {
    /// Picoseconds that an instruction may cost.
    pub const ALLOWED: RangeInclusive<u64> = 50..=1_024_000;

    /// Returns log2 of the nanoseconds of QEMU's own clock, in which no instruction costs less than
    /// here.
    pub(crate) fn shift(&self) -> u32 {
        let all = self.functions.iter().map(|(_, price)| *price);
        let most = all.chain([self.each]).max().unwrap_or(0);
        most.div_ceil(1000).next_power_of_two().ilog2()
    }

    /// Returns the cost for the plug-in, unless QEMU's own clock has it.
    pub(crate) fn of_plugin(&self) -> Option<u64> {
        (!self.functions.is_empty() || self.each != 1000 << self.shift()).then_some(self.each)
    }

    /// Returns the functions as the guest's script reads them: a name and its cost a line.
    pub(crate) fn lines(&self) -> String {
        let lines = self.functions.iter().map(|(name, price)| format!("{name} {price}"));
        lines.collect::<Vec<_>>().join("\n")
    }
}

impl fmt::Display for Prices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = |price: u64| price as f64 / 1000.0;
        write!(f, "{} ns", ns(self.each))?;
        self.functions.iter().try_for_each(|(name, price)| write!(f, ", {name} {} ns", ns(*price)))
    }
}

#[cfg(test)]
mod tests;
