//! pcie-model's arithmetic: Neugebauer's bandwidth estimates, for comparison.
//!
//! It averages: no padding, aligned buffers, acknowledgements as a flat share. It shows that our
//! sizes, used its way, give its numbers to the digit. It is followed where it differs from the
//! specification: limits in symbol times of one lane, SKP sets at the 8b/10b rate, two typing slips
//! in its tables (248 for 148, Gen1 x32, MPS 2048; 237 for 327, Gen2 x32, MPS 4096), guesses for
//! generations 6 and 7. Sources: `model/pcie.py`, `model/mem_bw.py` of pcie-bench/pcie-model;
//! "Understanding PCIe performance for end host networking" (SIGCOMM 2018).

use crate::pcie::tlp::{ECRC, Framing, HEADER_3DW, HEADER_4DW};
use crate::pcie::{SIZES, is_size};
use crate::rules::{RulesError, checker};

/// A configuration as pcie-model's `Cfg` takes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Config {
    /// 1 to 7.
    pub(super) generation: u32,
    /// 1, 2, 4, 8, 16 or 32.
    pub(super) lanes: u32,
    /// 32 or 64: the header form of every request.
    pub(super) address_bits: u32,
    /// Every TLP carries the digest.
    pub(super) ecrc: bool,
    /// Max_Payload_Size, bytes.
    pub(super) mps: u32,
    /// Max_Read_Request_Size, bytes.
    pub(super) mrrs: u32,
    /// Read completion boundary: 64, 128, 256 or 512 bytes.
    pub(super) rcb: u32,
    /// Completions are cut at RCB rather than MPS.
    pub(super) rcb_chunks: bool,
}

/// Bandwidth of payload in each direction, in Gb/s.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Effective {
    /// Written by the device.
    pub(super) toward_host: f64,
    /// Read by the device.
    pub(super) toward_device: f64,
}

/// The specification's Ack limit in symbol times (base specification 5.0, tables 3-7 to 3-9), which
/// is its UpdateFC guide value too (2-46 to 2-48), by formula.
const fn ack_limit(generation: u32, lanes: u32, mps: u32) -> u32 {
    let factor_tenths = match (lanes, mps) {
        (0..=4, ..512) => 14,
        (8, ..512) => 25,
        (16.., ..512) => 30,
        (16.., _) => 20,
        _ => 10,
    };
    let delay = match generation {
        1 => 19,
        2 => 70,
        _ => 115,
    };
    (mps + 28) * factor_tenths / (10 * lanes) + delay
}

/// A checked configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Model(Config);

/// Bytes on the wire in each direction.
#[derive(Clone, Copy)]
struct Wire {
    toward_host: u32,
    toward_device: u32,
}

impl Model {
    /// Checks the configuration.
    ///
    /// # Errors
    /// The first setting that the model does not know, with those it does.
    pub(super) fn new(config: Config) -> Result<Model, RulesError> {
        let check = checker("a PCI Express");
        let Config { generation, lanes, address_bits, mps, mrrs, rcb, .. } = config;
        check((1..=7).contains(&generation), "generation", generation, "1 to 7")?;
        check(lanes.is_power_of_two() && lanes <= 32, "lanes", lanes, "1, 2, 4, 8, 16, 32")?;
        check(address_bits == 32 || address_bits == 64, "address_bits", address_bits, "32, 64")?;
        check(is_size(mps), "mps", mps, SIZES)?;
        check(is_size(mrrs), "mrrs", mrrs, SIZES)?;
        check(rcb.is_power_of_two() && (64..=512).contains(&rcb), "rcb", rcb, "64, 128, 256, 512")?;
        Ok(Model(config))
    }

    /// Bandwidth of the link after coding, Gb/s in each direction.
    pub(super) fn raw_gbps(&self) -> f64 {
        let transfers = 2.5 * f64::from(1u32 << (self.0.generation - 1));
        let per_lane = match self.0.generation {
            1 | 2 => transfers * 8.0 / 10.0,
            // From here on the rate no longer doubles from 2.5: 8 GT/s came after 5.
            3..=5 => transfers * 0.8 * 128.0 / 130.0,
            _ => transfers * 0.8 * 242.0 / 256.0,
        };
        per_lane * f64::from(self.0.lanes)
    }

    /// Bandwidth left for TLPs, Gb/s in each direction.
    pub(super) fn tlp_gbps(&self) -> f64 {
        let Config { generation, lanes, mps, .. } = self.0;
        let limit = ack_limit(generation, lanes, mps);
        let ack = if (generation, lanes, mps) == (2, 32, 4096) { 237 } else { limit };
        let fc = if (generation, lanes, mps) == (1, 32, 2048) { 248 } else { limit };
        self.raw_gbps() * (1.0 - 8.0 / f64::from(ack) - 8.0 / f64::from(fc) - 4.0 / 1538.0)
    }

    /// Payload bandwidth of back-to-back writes of `size` bytes, which is not zero.
    pub(super) fn write(&self, size: u32) -> Effective {
        let gbps = self.payload_gbps(size, self.write_wire(size));
        Effective { toward_host: gbps, toward_device: 0.0 }
    }

    /// Payload bandwidth of back-to-back reads of `size` bytes, which is not zero.
    pub(super) fn read(&self, size: u32) -> Effective {
        let gbps = self.payload_gbps(size, self.read_wire(size));
        Effective { toward_host: 0.0, toward_device: gbps }
    }

    /// Payload bandwidth when each read is paired with a write of the same `size`, not zero.
    pub(super) fn read_write(&self, size: u32) -> Effective {
        let (read, write) = (self.read_wire(size), self.write_wire(size));
        let wire = Wire { toward_host: read.toward_host + write.toward_host, ..read };
        let gbps = self.payload_gbps(size, wire);
        Effective { toward_host: gbps, toward_device: gbps }
    }

    /// The direction that carries more bytes is full; payload flows at its pace.
    fn payload_gbps(&self, size: u32, wire: Wire) -> f64 {
        self.tlp_gbps() * f64::from(size) / f64::from(wire.toward_host.max(wire.toward_device))
    }

    fn write_wire(&self, size: u32) -> Wire {
        let bytes = size.div_ceil(self.0.mps) * self.request_bytes() + size;
        Wire { toward_host: bytes, toward_device: 0 }
    }

    fn read_wire(&self, size: u32) -> Wire {
        let chunk = if self.0.rcb_chunks { self.0.rcb } else { self.0.mps };
        let completion = Framing::of(self.0.generation).bytes() + HEADER_3DW + self.digest();
        Wire {
            toward_host: size.div_ceil(self.0.mrrs) * self.request_bytes(),
            toward_device: size.div_ceil(chunk) * completion + size,
        }
    }

    fn request_bytes(&self) -> u32 {
        let header = if self.0.address_bits == 64 { HEADER_4DW } else { HEADER_3DW };
        Framing::of(self.0.generation).bytes() + header + self.digest()
    }

    fn digest(&self) -> u32 {
        if self.0.ecrc { ECRC } else { 0 }
    }
}

mod tests;
