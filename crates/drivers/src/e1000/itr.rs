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
mod tests {
    use super::Class::{Bulk, Low, Lowest};
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn classes_change_as_the_table_says() {
        for (from, packets, bytes, to) in [
            (Lowest, 0, 0, Lowest),
            (Lowest, 1, 8001, Bulk),
            (Lowest, 1, 8000, Low),
            (Lowest, 4, 513, Low),
            (Lowest, 4, 512, Lowest),
            (Lowest, 5, 5000, Lowest),
            (Low, 2, 16_002, Bulk),
            (Low, 9, 10_001, Bulk),
            (Low, 10, 10_001, Low),
            (Low, 10, 12_010, Bulk),
            (Low, 36, 36_000, Lowest),
            (Low, 35, 35_000, Low),
            (Low, 1, 2001, Bulk),
            (Low, 2, 511, Lowest),
            (Low, 3, 300, Low),
            (Low, 2, 512, Low),
            (Bulk, 36, 25_001, Low),
            (Bulk, 35, 25_001, Bulk),
            (Bulk, 36, 25_000, Bulk),
            (Bulk, 4, 5999, Low),
            (Bulk, 4, 6000, Bulk),
        ] {
            assert_eq!(from.next(packets, bytes), to, "{from:?} {packets} {bytes}");
        }
    }

    #[test]
    fn a_rate_rises_in_steps_and_falls_at_once() {
        let mut d = Dynamic::new(false);
        assert_eq!(d.update(true, (10, 15_000), (0, 0)), Some(4_000));
        assert_eq!(d.update(true, (1, 100), (0, 0)), Some(9_000));
        let rates: Vec<_> = (0..6).map(|_| d.update(true, (1, 100), (1, 60))).collect();
        assert_eq!(rates[0], Some(26_500), "lowest wanted: 9000 + 70000/4");
        assert_eq!(rates[3..], [Some(70_000), None, None]);
    }

    #[test]
    fn the_slower_direction_counts_and_mode_3_has_no_lowest_class() {
        let mut d = Dynamic::new(true);
        assert_eq!(d.update(true, (1, 100), (1, 100)), None);
        let mut d = Dynamic::new(false);
        assert_eq!(d.update(true, (1, 100), (10, 15_000)), Some(4_000));
    }

    #[test]
    fn below_a_gigabit_the_rate_is_4000() {
        assert_eq!(Dynamic::new(false).update(false, (1, 100), (1, 100)), Some(4_000));
    }

    #[test]
    fn intervals_are_in_256_ns() {
        assert_eq!([0, 4_000, 20_000, 70_000, 1].map(interval), [0, 976, 195, 55, 0xffff]);
    }
}
