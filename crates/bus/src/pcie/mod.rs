//! PCI Express: the packets, bytes and time of a transfer on the link.
//!
//! [`Rules`] is a plain value; [`Pcie`] books by it. Requests, writes and completions are all cut
//! at multiples of a power of two, at most a limit each ([`Pieces`]), so totals have a closed form
//! ([`Rules::read_cost`], [`Rules::write_cost`]). [`ByteClock`] turns bytes into picoseconds,
//! [`DllpState`] says which link-layer packets answer. docs/buses.md has the rules. Sources: PCI
//! Express base specification 3.0 chapters 2 to 4; AMD PG213, PG346; Intel AN 456 and AN 829
//! (protocol overhead); pcie-bench/pcie-model, whose own arithmetic the tests compare with.

mod dllp;
mod link;
mod rate;
mod split;
mod tlp;
mod transactions;

use crate::rules::{RulesError, checker};

pub use dllp::{Class, DLLP_BYTES, DllpRule, DllpState, Dllps, ack_limit};
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
    /// The DLLPs that are booked.
    pub dllp: DllpRule,
    /// Ack limit in symbol times, 32 to 65535; `None` for the specification's ([`ack_limit`]).
    pub ack_limit: Option<u32>,
    /// UpdateFC limit in symbol times, 32 to 65535; `None` for the specification's, which is the
    /// same number.
    pub fc_limit: Option<u32>,
    /// Share of the link's byte rate that traffic can use, in parts per million: 10,000 to
    /// 2,000,000. What it stands for (SKP sets, gaps of the implementation) is the profile's to
    /// say. Above a million it is a link that is faster by so much than its generation's.
    pub usable_ppm: u32,
}

impl Settings {
    /// A link of this generation and width with the settings most servers boot with: MPS 256,
    /// MRRS 512, merged completions, no ECRC; the full rate, an Ack and an UpdateFC per request.
    pub const fn link(generation: u32, lanes: u32) -> Settings {
        Settings {
            generation,
            lanes,
            mps: 256,
            mrrs: 512,
            completions: Completions::Merged,
            ecrc: false,
            dllp: DllpRule::PerRequest,
            ack_limit: None,
            fc_limit: None,
            usable_ppm: 1_000_000,
        }
    }
}

/// All of a link, in parts per million.
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
    byte_time: ByteTime,
    ack_limit: u32,
    fc_limit: u32,
}

impl Rules {
    /// Checks the settings.
    ///
    /// # Errors
    /// The first setting that is not allowed, with what is.
    pub fn new(settings: Settings) -> Result<Rules, RulesError> {
        let check = checker("a PCI Express");
        let Settings { generation, lanes, mps, mrrs, usable_ppm, .. } = settings;
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
        let limit = |setting, given: Option<u32>| match given {
            Some(symbols) => {
                check(
                    (32..=65535).contains(&symbols),
                    setting,
                    symbols,
                    "32 to 65535 symbol times",
                )?;
                Ok(symbols)
            }
            None => Ok(ack_limit(generation, lanes, mps)),
        };
        let (ack_limit, fc_limit) =
            (limit("ack_limit", settings.ack_limit)?, limit("fc_limit", settings.fc_limit)?);
        check(
            (10_000..=2_000_000).contains(&usable_ppm),
            "usable_ppm",
            usable_ppm,
            "10000 to 2000000 parts per million",
        )?;
        let mut byte_time =
            ByteTime::of_link(generation, lanes).slowed(WHOLE.into(), usable_ppm.into());
        if settings.dllp == DllpRule::Flat {
            let (whole, left) = dllp::flat_share(ack_limit, fc_limit);
            byte_time = byte_time.slowed(whole, left);
        }
        let digest = if settings.ecrc { tlp::ECRC } else { 0 };
        Ok(Rules {
            settings,
            mps_shift: mps.trailing_zeros(),
            mrrs_shift: mrrs.trailing_zeros(),
            completion_shift: window.trailing_zeros(),
            finer_shift: window.min(mrrs).trailing_zeros(),
            request_bytes: Framing::of(generation).bytes() + tlp::HEADER_3DW + digest,
            completion_bytes: Framing::of(generation).bytes() + tlp::HEADER_3DW + digest,
            byte_time,
            ack_limit,
            fc_limit,
        })
    }

    /// Returns the settings that the rules were made from.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The time of a byte on one direction of the link, with the usable share and, under
    /// [`DllpRule::Flat`], pcie-model's deduction.
    pub const fn byte_time(&self) -> ByteTime {
        self.byte_time
    }

    /// The time of a byte on one direction of the bare link, all of it usable.
    pub const fn raw_byte_time(&self) -> ByteTime {
        let Settings { generation, lanes, usable_ppm, .. } = self.settings;
        let left = if usable_ppm > WHOLE { usable_ppm } else { WHOLE };
        ByteTime::of_link(generation, lanes).slowed(WHOLE as u64, left as u64)
    }

    /// The Ack limit in force, in symbol times.
    pub const fn ack_limit(&self) -> u32 {
        self.ack_limit
    }

    /// The UpdateFC limit in force, in symbol times.
    pub const fn fc_limit(&self) -> u32 {
        self.fc_limit
    }
}

#[cfg(test)]
mod tests;
