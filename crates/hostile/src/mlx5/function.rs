//! Any guest: registers, its whole memory, also while the device reads it, firmware commands whole
//! and spoilt, a driver that makes queues, hashes and rules, posts, sends, and frames, time. The
//! device does a bounded amount of work for each, and after a reset of the function it touches
//! nothing.

mod action;
mod commands;
mod guest;
mod seeds;

pub use action::Action;
pub use seeds::seeds;

use super::CommandHarness;
use crate::fuzz::next;
use arbitrary::Unstructured;
use doorbell_devices::mlx5::receive::Counters as RxCounters;
use doorbell_devices::mlx5::{Compress, Config, Counters, Mlx5};
use doorbell_hal::{Device, Span};
use doorbell_layout::mlx5::receive::{L4_OK, RxCqe};
use doorbell_layout::mlx5::{Caps, CompressionLayout};
use doorbell_testkit::mlx5::Access;
use guest::Guest;
use std::collections::BTreeSet;
use zerocopy::FromBytes;

/// Accesses of one step at the most: what the longest send queue can ask for.
const BOUND: usize = 1 << 20;

/// Counters of the device after an attack.
#[derive(Clone, Debug)]
pub struct Reached {
    /// Of the transmit side.
    pub sent: Counters,
    /// Of the receive side.
    pub received: RxCounters,
    /// Receive queues of the driver with a completion,
    pub queues: usize,
    /// completions with a hash,
    pub hashed: u64,
    /// and those whose transport checksum was checked.
    pub checked: u64,
    /// Frames in a tunnel that left with a new checksum of the inner transport.
    pub tunnelled: u64,
    /// Commands that were done; of `ACCESS_REG` the registers too, of `SET_FLOW_TABLE_ENTRY` the
    /// modifier.
    pub done: BTreeSet<(u16, u16)>,
}

/// Attacks a device as `input` says. Returns the counters of the device.
///
/// # Panics
/// Panics if it lets itself be harmed.
pub fn attack(input: &[u8]) -> Reached {
    let mut u = Unstructured::new(input);
    // Doorbell pages are registers, or memory that is looked at.
    let shape = u.arbitrary::<u8>().unwrap_or(0);
    let polled_doorbells = shape & 1 == 1;
    let mut g = Guest::new(CommandHarness::running(Mlx5::new(Config {
        boot_pages: 1,
        init_pages: 1,
        polled_doorbells,
        checksum_full: shape & 4 != 0,
        caps: Caps {
            striding: shape & 8 != 0,
            compression: [
                None,
                Some(CompressionLayout::Basic),
                None,
                Some(CompressionLayout::Enhanced),
            ][usize::from(shape >> 4 & 3)],
            second_port: shape & 0x40 != 0,
            ..Config::CONNECTX.caps
        },
        compress: Compress { pressure: 0, wait: Span::from_us(5), most: 9 },
        ..Config::CONNECTX
    })));
    g.c.port.log.clear();
    // Another CPU of the guest writes while the device reads.
    g.c.port.racing = (shape & 2 != 0).then_some(shape);
    let mut tunnelled = 0;
    while let Some(action) = next(&mut u) {
        g.act(action);
        if polled_doorbells {
            let memory = &g.c.port.memory;
            g.c.device.look_again(g.c.now, |at| {
                memory.get(usize::try_from(at.0).ok()?..)?.first_chunk().copied()
            });
        }
        assert!(g.c.port.log.len() < BOUND, "{} accesses for one step", g.c.port.log.len());
        let inner = |a: &Access| matches!(a, Access::Frame(_, f) if f.ends_with(&g.inner));
        if !g.inner.is_empty() {
            tunnelled += g.c.port.log.iter().filter(|a| inner(a)).count() as u64;
        }
        g.c.port.log.clear();
    }
    let mut c = g.c;
    c.settle();
    assert!(c.port.log.len() < BOUND);
    assert!(c.device.unknown_commands().len() <= 64);
    let mut reached = Reached {
        sent: c.device.counters,
        received: *c.device.received(),
        queues: 0,
        hashed: 0,
        checked: 0,
        tunnelled,
        done: g.done,
    };
    let at = CommandHarness::page(1) as usize;
    let cqes =
        c.port.memory[at..at + 4096].chunks(64).filter_map(|b| RxCqe::read_from_bytes(b).ok());
    let mut queues: Vec<u32> = Vec::new();
    for cqe in cqes.filter(|c| g.rqs.iter().any(|q| q.0 == c.flags_rqpn.get() & 0xff_ffff)) {
        queues.push(cqe.flags_rqpn.get() & 0xff_ffff);
        reached.hashed += u64::from(cqe.rss_hash_type != 0);
        reached.checked += u64::from(cqe.hds_ip_ext & L4_OK != 0);
    }
    queues.sort_unstable();
    queues.dedup();
    reached.queues = queues.len();
    let now = c.now;
    c.device.reset(&mut c.port, now);
    c.port.forbidden = true;
    c.settle();
    reached
}
