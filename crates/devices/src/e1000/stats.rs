//! The statistics block, 0x4000 to 0x40FF: reading a register clears it, and it
//! stays at all ones rather than wrap. Byte counts are pairs of 64 bits: reading the
//! high half clears both, so it is read last.
//!
//! Source: SDM 13.7. "Good octets" and "total octets" include the FCS; so do the
//! size classes.

/// Register numbers in the block: (offset - 0x4000) / 4.
pub(super) mod stat {
    pub(in super::super) const CRCERRS: usize = 0x00;
    pub(in super::super) const MPC: usize = 0x04;
    pub(in super::super) const XONRXC: usize = 0x12;
    pub(in super::super) const XONTXC: usize = 0x13;
    pub(in super::super) const XOFFRXC: usize = 0x14;
    pub(in super::super) const XOFFTXC: usize = 0x15;
    pub(in super::super) const FCRUC: usize = 0x16;
    pub(in super::super) const PRC64: usize = 0x17;
    pub(in super::super) const GPRC: usize = 0x1d;
    pub(in super::super) const BPRC: usize = 0x1e;
    pub(in super::super) const MPRC: usize = 0x1f;
    pub(in super::super) const GPTC: usize = 0x20;
    pub(in super::super) const GORCL: usize = 0x22;
    pub(in super::super) const GOTCL: usize = 0x24;
    pub(in super::super) const RNBC: usize = 0x28;
    pub(in super::super) const RUC: usize = 0x29;
    pub(in super::super) const ROC: usize = 0x2b;
    pub(in super::super) const TORL: usize = 0x30;
    pub(in super::super) const TOTL: usize = 0x32;
    pub(in super::super) const TPR: usize = 0x34;
    pub(in super::super) const TPT: usize = 0x35;
    pub(in super::super) const PTC64: usize = 0x36;
    pub(in super::super) const MPTC: usize = 0x3c;
    pub(in super::super) const BPTC: usize = 0x3d;
    pub(in super::super) const TSCTC: usize = 0x3e;
    pub(in super::super) const TSCTFC: usize = 0x3f;
}

/// Low halves of pairs.
const PAIRS: [usize; 4] = [stat::GORCL, stat::GOTCL, stat::TORL, stat::TOTL];

#[derive(Clone, Debug)]
pub(super) struct Stats([u32; 64]);

impl Stats {
    pub(super) const fn new() -> Stats {
        Stats([0; 64])
    }

    /// One more.
    pub(super) fn count(&mut self, s: usize) {
        self.0[s] = self.0[s].saturating_add(1);
    }

    /// So many more bytes, in a pair.
    pub(super) fn bytes(&mut self, s: usize, n: usize) {
        let v = (u64::from(self.0[s + 1]) << 32 | u64::from(self.0[s])).saturating_add(n as u64);
        (self.0[s], self.0[s + 1]) = (v as u32, (v >> 32) as u32);
    }

    /// A frame of `len` bytes with its FCS, in the six size classes from `s` on.
    pub(super) fn size_class(&mut self, s: usize, len: usize) {
        let class = match len {
            ..65 => 0,
            65..128 => 1,
            128..256 => 2,
            256..512 => 3,
            512..1024 => 4,
            _ => 5,
        };
        self.count(s + class);
    }

    /// The driver reads it.
    pub(super) fn read(&mut self, s: usize) -> u32 {
        let v = self.0[s];
        if s > 0 && PAIRS.contains(&(s - 1)) {
            self.0[s - 1] = 0;
        }
        if !PAIRS.contains(&s) {
            self.0[s] = 0;
        }
        v
    }

    #[cfg(test)]
    pub(super) fn set(&mut self, s: usize, v: u32) {
        self.0[s] = v;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_clears() {
        let mut s = Stats::new();
        s.count(stat::GPRC);
        s.count(stat::GPRC);
        assert_eq!([s.read(stat::GPRC), s.read(stat::GPRC)], [2, 0]);
    }

    #[test]
    fn counters_stick_at_all_ones() {
        let mut s = Stats::new();
        s.set(stat::MPC, u32::MAX);
        s.count(stat::MPC);
        assert_eq!(s.read(stat::MPC), u32::MAX);
        s.set(stat::TOTL, u32::MAX - 1);
        s.set(stat::TOTL + 1, u32::MAX);
        s.bytes(stat::TOTL, 100);
        assert_eq!([s.read(stat::TOTL), s.read(stat::TOTL + 1)], [u32::MAX; 2]);
    }

    #[test]
    fn reading_the_high_half_clears_both() {
        let mut s = Stats::new();
        s.set(stat::GOTCL, u32::MAX);
        s.bytes(stat::GOTCL, 2);
        assert_eq!([s.read(stat::GOTCL), s.read(stat::GOTCL), s.read(stat::GOTCL + 1)], [1, 1, 1]);
        assert_eq!([s.read(stat::GOTCL), s.read(stat::GOTCL + 1)], [0, 0]);
    }

    #[test]
    fn size_classes_count_the_fcs() {
        let mut s = Stats::new();
        for len in [64, 65, 127, 128, 1518, 9000] {
            s.size_class(stat::PRC64, len);
        }
        let classes: [u32; 6] = core::array::from_fn(|i| s.read(stat::PRC64 + i));
        assert_eq!(classes, [1, 2, 1, 0, 0, 2]);
    }
}
