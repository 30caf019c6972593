//! What the CPU charges, by key: the prices of drivers' work, and of the TCP above them.
//!
//! A system declares the keys it has, with its own words for what they mean; what
//! it does not declare is free. Prices of work are in cycles, so that a faster
//! core makes all of them shorter.

use crate::key::{Key, Needs, Values};
use crate::traffic::tcp;
use doorbell_bus::{Costs, Price};
use doorbell_hal::{Span, WorkKind};

/// Which keys price a kind of work: each occurrence, each unit.
const WORK: [(WorkKind, &str, &str); WorkKind::ALL.len()] = [
    (WorkKind::Stack, "cpu.stack", ""),
    (WorkKind::Copy, "", "cpu.copy"),
    (WorkKind::Sum, "", "cpu.sum"),
    (WorkKind::TxDescriptor, "cpu.tx_descriptor", "cpu.tx_descriptor_entry"),
    (WorkKind::TxShared, "cpu.tx_shared", ""),
    (WorkKind::TxSession, "cpu.tx_session", ""),
    (WorkKind::TxPad, "cpu.tx_pad", "cpu.tx_pad_entry"),
    (WorkKind::TxNotify, "cpu.tx_notify", ""),
    (WorkKind::TxDone, "cpu.tx_done", "cpu.tx_done_packet"),
    (WorkKind::Completion, "cpu.completion", ""),
    (WorkKind::RxPost, "cpu.rx_post", ""),
    (WorkKind::RxPacket, "cpu.rx_packet", ""),
    (WorkKind::Interrupt, "cpu.interrupt", ""),
    (WorkKind::Poll, "cpu.poll", ""),
    (WorkKind::Wake, "cpu.wake", ""),
    (WorkKind::Map, "cpu.map", ""),
];

/// The prices of drivers' work.
pub fn costs(v: &Values) -> Costs {
    let cycles = |key: &str| cycles(v, key);
    let mut work = Costs::FREE.work;
    for (kind, each, per_unit) in WORK {
        work[kind as usize] = Price { each: cycles(each), per_unit: cycles(per_unit) };
    }
    Costs {
        work,
        mmio_write: cycles("cpu.mmio_write"),
        mmio_write_spacing: span(v, "cpu.mmio_write_spacing"),
        fence: cycles("cpu.fence"),
        relax: cycles("cpu.relax"),
    }
}

/// The prices of TCP: [`TCP`].
pub fn tcp_prices(v: &Values) -> tcp::Prices {
    let cycles = |key: &str| cycles(v, key);
    tcp::Prices {
        gro: cycles("cpu.tcp_gro"),
        receive: cycles("cpu.tcp_receive"),
        acknowledgment: cycles("cpu.tcp_ack"),
        send: cycles("cpu.tcp_send"),
        sum: cycles("cpu.sum"),
        wake: cycles("cpu.tcp_wake"),
        sleep: cycles("cpu.tcp_sleep"),
        call: Price { each: cycles("cpu.call"), per_unit: cycles("cpu.call_byte") },
        switch: cycles("cpu.switch"),
    }
}

const CARRIED: &[Needs] = &[Needs::kind(&["send", "receive", "transactions"])];
/// Frames that arrive go up to an application, too.
const RECEIVED: &[Needs] = &[Needs::kind(&["send", "receive", "transactions", "arrivals"])];

/// What a profile says of the TCP above a driver.
pub static TCP: [Key; 8] = [
    Key::cycles("cpu.tcp_gro", "a received frame through GRO").when(RECEIVED),
    Key::cycles("cpu.tcp_receive", "a segment, merged or not, through IP and TCP on receive")
        .when(RECEIVED),
    Key::cycles("cpu.tcp_ack", "an acknowledgment without data that came").when(CARRIED),
    Key::cycles("cpu.tcp_send", "a segment or large send made by TCP and IP").when(CARRIED),
    Key::cycles("cpu.tcp_wake", "an application woken").when(RECEIVED),
    Key::cycles("cpu.call", "a system call").when(RECEIVED),
    Key::number("cpu.call_byte", "cycles/B", 0.0, 1e3, "each byte that a system call copies")
        .when(RECEIVED),
    Key::cycles("cpu.switch", "a change from one application to another").when(CARRIED),
];

/// A price in cycles; free where the system has no such key.
fn cycles(v: &Values, key: &str) -> Span {
    let cycles = v.number_if_any(key).unwrap_or(0.0);
    Span::from_ps((cycles / v.number("cpu.frequency") * 1e3).round() as u64)
}

/// A key in nanoseconds; nothing where the system has no such key.
pub fn span(v: &Values, key: &str) -> Span {
    Span::from_ps((v.number_if_any(key).unwrap_or(0.0) * 1e3).round() as u64)
}
