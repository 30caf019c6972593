//! The classes of dynamic interrupt throttling.
//!
//! Source: e1000_main.c `e1000_update_itr`, `e1000_set_itr`. Pure: packets and
//! bytes since the last interrupt in, a rate out.

/// How much traffic there is, in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// 70000 interrupts a second.
    Lowest,
    /// 20000.
    Low,
    /// 4000.
    Bulk,
}

impl Class {
    /// Interrupts a second.
    pub const fn rate(self) -> u32 {
        match self {
            Class::Lowest => 70_000,
            Class::Low => 20_000,
            Class::Bulk => 4_000,
        }
    }

    /// The class after `packets` with `bytes` since the last interrupt.
    pub const fn next(self, packets: u32, bytes: u32) -> Class {
        use Class::{Bulk, Low, Lowest};
        if packets == 0 {
            return self;
        }
        let each = bytes / packets;
        match self {
            Lowest if each > 8000 => Bulk,
            Lowest if packets < 5 && bytes > 512 => Low,
            Low if bytes > 10_000 => {
                if packets < 10 || each > 1200 {
                    Bulk
                } else if packets > 35 {
                    Lowest
                } else {
                    Low
                }
            }
            Low if each > 2000 => Bulk,
            Low if packets <= 2 && bytes < 512 => Lowest,
            Bulk if bytes > 25_000 => {
                if packets > 35 {
                    Low
                } else {
                    Bulk
                }
            }
            Bulk if bytes < 6000 => Low,
            same => same,
        }
    }
}

/// Dynamic throttling of both directions.
#[derive(Clone, Copy, Debug)]
pub struct Dynamic {
    /// Mode 3: never [`Class::Lowest`].
    conservative: bool,
    rx: Class,
    tx: Class,
    rate: u32,
}

impl Dynamic {
    /// Rate at the start.
    pub const START: u32 = 20_000;

    /// As after open.
    pub const fn new(conservative: bool) -> Dynamic {
        Dynamic { conservative, rx: Class::Low, tx: Class::Low, rate: Self::START }
    }

    /// The rate to set, if it changes. `rx` and `tx` are packets and bytes.
    pub fn update(&mut self, gigabit: bool, rx: (u32, u32), tx: (u32, u32)) -> Option<u32> {
        let wanted = if gigabit {
            self.rx = self.limit(self.rx.next(rx.0, rx.1));
            self.tx = self.limit(self.tx.next(tx.0, tx.1));
            self.rx.max(self.tx).rate()
        } else {
            4_000
        };
        if wanted == self.rate {
            return None;
        }
        // A rising rate rises in steps.
        self.rate = if wanted > self.rate { wanted.min(self.rate + wanted / 4) } else { wanted };
        Some(self.rate)
    }

    fn limit(&self, c: Class) -> Class {
        if self.conservative && c == Class::Lowest { Class::Low } else { c }
    }
}

/// The value of ITR for a rate: the distance in 256 ns, and 0 for no rate.
pub const fn interval(rate: u32) -> u32 {
    // A rate that is too low for 16 bits is the lowest.
    let n = match rate {
        0 => 0,
        r => 1_000_000_000 / (r as u64 * 256),
    };
    if n > 0xffff { 0xffff } else { n as u32 }
}

#[cfg(test)]
mod tests;
