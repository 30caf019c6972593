//! The driver alone: its bytes, its doorbells, and its behaviour after a refusal. Sources: qp.h,
//! en_tx.c, txrx.h, params.c of Linux; section numbers of comments are the mlx5 fact sheet's.

mod byte_limit;
mod completions;
mod drops;
mod harness;
mod inline;
mod limits;
mod measured;
mod queue;
mod recovery;
mod sessions;
mod tunnels;
mod wqes;

use super::{Config, Cqs, Sizing};
use crate::{Alarm, Driver, Irq, OpenError, Poll, Tx};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use doorbell_hal::{CpuWork, Host};
use doorbell_layout::mlx5::{Caps, CmdStatus, SqState, cqe_opcode, dbr, event, opcode, uar};
use doorbell_packet::{CsumPartial, Gso, GsoKind, OffloadRequest, Packet};
use harness::{CAPS, DriverHarness, FakeFirmware, Wqe};

/// Bytes in hexadecimal, 16 to a line.
fn hex(bytes: &[u8]) -> String {
    let line = |l: &[u8]| l.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" ");
    bytes.chunks(16).map(line).collect::<Vec<_>>().join("\n")
}

const UDP: CsumPartial = CsumPartial { start: 34, offset: 6 };

/// Opcode, data segments and whether a CQE is asked for, of each.
fn shapes(d: &mut DriverHarness) -> Vec<(u8, u32, bool)> {
    d.announced().iter().map(|w| (w.opcode, w.ds, w.asks)).collect()
}

const SEND: u8 = opcode::SEND;
const MPSW: u8 = opcode::ENHANCED_MPSW;
const NOP: u8 = opcode::NOP;
const LSO: u8 = opcode::LSO;

/// An Ethernet frame up to its transport header, and `payload` bytes.
fn frame(tags: usize, ethertype: u16, ip: &[u8], transport: &[u8], payload: usize) -> Vec<u8> {
    let mut f = vec![2; 12];
    for _ in 0..tags {
        f.extend([0x81, 0, 0, 5]);
    }
    f.extend(ethertype.to_be_bytes());
    f.extend(ip);
    f.extend(transport);
    f.resize(f.len() + payload, 0xee);
    f
}
