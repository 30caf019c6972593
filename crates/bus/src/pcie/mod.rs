//! PCI Express: the packets, bytes and time of a transfer on the link.
//!
//! [`Rules`] is a plain value; [`Pcie`] books by it. Requests, writes and completions are all cut
//! at multiples of a power of two, at most a limit each ([`Pieces`]); [`Rules::read_cost`] and
//! [`Rules::write_cost`] are the totals. A packet starts in lane 0 of a symbol time as wide as the
//! link: what is left of the one in which it ends is padding, unless the device packs its TLPs, as
//! the specification allows those that follow each other ([`Gap::Packed`]). [`Gap`] says
//! which symbol times pass without a packet. [`ByteClock`] turns bytes into picoseconds.
//! docs/buses.md has the rules.
//! Sources: PCI Express base specification 3.0 chapters 2 to 4; AMD PG213, PG346; Intel AN 456 and
//! AN 829 (protocol overhead); pcie-bench/pcie-model, whose own arithmetic the tests compare with.

mod link;
mod rate;
mod split;
mod tags;
mod tlp;
mod transactions;

use crate::rules::{RulesError, checker};

pub use link::{Latencies, Pcie};
pub use rate::{ByteClock, ByteTime};
pub use split::{Piece, Pieces, ReadCost, WriteCost};
pub use tlp::{Framing, Tlps};
pub use transactions::{Command, Operation, Transaction, Transactions, transactions};

/// A direction of the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkDirection {
    /// Toward the host: requests and writes of the device, completions of the CPU's reads.
    Upstream,
    /// Toward the device ("inbound" for the NIC): doorbells, completions of the device's reads.
    Downstream,
}

impl LinkDirection {
    /// The direction in which a packet of this one is acknowledged.
    #[inline]
    pub const fn opposite(self) -> LinkDirection {
        match self {
            LinkDirection::Upstream => LinkDirection::Downstream,
            LinkDirection::Downstream => LinkDirection::Upstream,
        }
    }
}

/// The rule by which the host cuts the completions of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Completions {
    /// At every multiple of the read completion boundary: 64 or 128 bytes.
    Rcb(u32),
    /// At multiples of MPS.
    Merged,
}

/// The symbol times of a busy link that pass without a TLP. A counter of the link's utilization
/// does not see them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gap {
    /// None: acknowledgements and credits travel in padding.
    None,
    /// An Ack for each TLP and an UpdateFC for each request, against its direction. Each takes a
    /// symbol time of its own.
    Dllp,
    /// Two behind each completion.
    Completion,
    /// An Ack, and an UpdateFC if there was a request, in front of a TLP for all that came against
    /// it since the last one. They take 8 bytes each: from generation 3 on, a DLLP begins right
    /// behind what is before it, and so does a TLP of the device. SKP ordered sets take their part
    /// of the link. Gaps are counted where TLPs have a time alone.
    Packed,
}

/// The settings of a link, as a profile states them; [`Rules::new`] checks them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// 1 to 5.
    pub generation: u32,
    /// 1, 2, 4, 8, 16 or 32.
    pub lanes: u32,
    /// Max_Payload_Size in bytes: 128 to 4096, a power of two.
    pub mps: u32,
    /// Max_Read_Request_Size in bytes: 128 to 4096, a power of two.
    pub mrrs: u32,
    /// The cutting of completions.
    pub completions: Completions,
    /// Every TLP carries the optional 4-byte digest.
    pub ecrc: bool,
    /// The symbol times without a TLP.
    pub gap: Gap,
    /// Read requests of the device that can be outstanding, 1 to 4096. The specification allows 32
    /// tags, 256 if extended, and 1024 with 10 bits.
    pub tags: u32,
    /// Speed relative to the generation's, in parts per million: 10,000 to 10,000,000. For
    /// questions of the kind "what if it were faster".
    pub speed_ppm: u32,
}

impl Settings {
    /// A link of this generation and width with the settings most servers boot with: MPS 256,
    /// MRRS 512, merged completions, no ECRC, 32 tags; an Ack and an UpdateFC for each request.
    pub const fn link(generation: u32, lanes: u32) -> Settings {
        Settings {
            generation,
            lanes,
            mps: 256,
            mrrs: 512,
            completions: Completions::Merged,
            ecrc: false,
            gap: Gap::Dllp,
            tags: 32,
            speed_ppm: WHOLE,
        }
    }
}

/// The speed of a generation, in parts per million.
const WHOLE: u32 = 1_000_000;

const SIZES: &str = "128, 256, 512, 1024, 2048, 4096";

fn is_size(bytes: u32) -> bool {
    bytes.is_power_of_two() && (128..=4096).contains(&bytes)
}

/// The checked rules of one link. Small, `Copy`, and the same for every packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    settings: Settings,
    // The powers of two as shifts: the packet path divides by them.
    mps_shift: u32,
    mrrs_shift: u32,
    completion_shift: u32,
    /// The smaller of MRRS and the completions' window, of which a page is a multiple.
    finer_shift: u32,
    /// A memory request with a 32-bit address and no payload, link overhead included.
    request_bytes: u32,
    /// A completion without its payload.
    completion_bytes: u32,
    /// The bytes of a symbol time, less one.
    symbol_mask: u32,
    byte_time: ByteTime,
    /// Bytes of a DLLP that TLPs share; 0 if they share none.
    shared_dllp: u64,
}

impl Rules {
    /// Checks the settings.
    ///
    /// # Errors
    /// The first setting that is not allowed, with what is.
    pub fn new(settings: Settings) -> Result<Rules, RulesError> {
        let check = checker("a PCI Express");
        let Settings { generation, lanes, mps, mrrs, tags, speed_ppm, .. } = settings;
        check(
            (1..=5).contains(&generation),
            "generation",
            generation,
            "1 to 5 (6 and 7 send flits)",
        )?;
        check(lanes.is_power_of_two() && lanes <= 32, "lanes", lanes, "1, 2, 4, 8, 16, 32")?;
        check(is_size(mps), "mps", mps, SIZES)?;
        check(is_size(mrrs), "mrrs", mrrs, SIZES)?;
        let window = match settings.completions {
            Completions::Rcb(rcb) => {
                check(rcb == 64 || rcb == 128, "completions", rcb, "Rcb(64), Rcb(128), Merged")?;
                rcb
            }
            Completions::Merged => mps,
        };
        check((1..=4096).contains(&tags), "tags", tags, "1 to 4096")?;
        check(
            (10_000..=10_000_000).contains(&speed_ppm),
            "speed_ppm",
            speed_ppm,
            "10000 to 10000000 parts per million",
        )?;
        let digest = if settings.ecrc { tlp::ECRC } else { 0 };
        let mut byte_time = ByteTime::of_link(generation, lanes).at_speed(speed_ppm, WHOLE);
        if settings.gap == Gap::Packed {
            byte_time = byte_time.with_skips(generation);
        }
        Ok(Rules {
            settings,
            mps_shift: mps.trailing_zeros(),
            mrrs_shift: mrrs.trailing_zeros(),
            completion_shift: window.trailing_zeros(),
            finer_shift: window.min(mrrs).trailing_zeros(),
            request_bytes: Framing::of(generation).bytes() + tlp::HEADER_3DW + digest,
            completion_bytes: Framing::of(generation).bytes() + tlp::HEADER_3DW + digest,
            symbol_mask: lanes - 1,
            byte_time,
            shared_dllp: if settings.gap == Gap::Packed { tlp::DLLP } else { 0 },
        })
    }

    /// Returns the settings that the rules were made from.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the time of a byte on one direction of the link.
    pub const fn byte_time(&self) -> ByteTime {
        self.byte_time
    }

    /// Returns the bytes of padding behind a TLP of `bytes`, up to the end of its symbol time.
    #[inline(always)]
    pub(crate) const fn pad(&self, bytes: u64) -> u64 {
        bytes.wrapping_neg() & self.symbol_mask as u64
    }

    /// Returns whether a TLP of the device begins right behind the one before.
    pub(crate) const fn packs(&self) -> bool {
        self.shared_dllp != 0
    }

    /// Returns the bytes of DLLPs against TLPs that share them with others ([`Gap::Packed`]).
    #[inline(always)]
    pub(crate) const fn shared_dllps(&self, t: &Tlps) -> u64 {
        if matches!(t.command, Command::CplD) { self.shared_dllp } else { 2 * self.shared_dllp }
    }

    /// Returns the symbol times that TLPs make pass without one, in bytes: toward the device, and
    /// toward the host.
    #[inline(always)]
    pub(crate) const fn gaps(&self, t: &Tlps) -> [u64; 2] {
        let completes = matches!(t.command, Command::CplD);
        let symbol = self.settings.lanes as u64;
        let (each, against) = match self.settings.gap {
            Gap::None | Gap::Packed => return [0, 0],
            Gap::Dllp => (if completes { symbol } else { 2 * symbol }, true),
            Gap::Completion => (if completes { 2 * symbol } else { 0 }, false),
        };
        let bytes = t.count * each;
        match (t.toward, against) {
            (LinkDirection::Downstream, false) | (LinkDirection::Upstream, true) => [bytes, 0],
            _ => [0, bytes],
        }
    }
}

#[cfg(test)]
mod tests;
