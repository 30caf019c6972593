//! Checksums by application words, against the packet crate's.

use super::*;
use doorbell_layout::axienet::{rx_app, tx_app};
use doorbell_packet::checksum::Sum;
use doorbell_packet::headers::{Check, Layers, prepare_partial, verify};

/// A broadcast UDP or TCP datagram over IPv4 with `payload` bytes; checksums are wrong.
fn datagram(tcp: bool, payload: usize, tag: bool) -> Vec<u8> {
    let mut f = frame(14);
    if tag {
        f.splice(12..12, [0x81, 0, 0x20, 5]);
    }
    let l3 = f.len();
    f[l3 - 2..].copy_from_slice(&[8, 0]);
    let l4 = if tcp { 20 } else { 8 };
    let total = (20 + l4 + payload) as u16;
    f.extend_from_slice(&[0x45, 0]);
    f.extend_from_slice(&total.to_be_bytes());
    f.extend_from_slice(&[
        0,
        1,
        0,
        0,
        64,
        if tcp { 6 } else { 17 },
        0,
        0,
        10,
        0,
        0,
        1,
        10,
        0,
        0,
        2,
    ]);
    f.extend_from_slice(&[0x12, 0x34, 0x00, 0x50]);
    if tcp {
        f.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    } else {
        f.extend_from_slice(&((8 + payload) as u16).to_be_bytes());
        // Zero would be "no checksum".
        f.extend_from_slice(&[0, 1]);
    }
    f.extend((0..payload).map(|i| (i * 11 + 3) as u8));
    f
}

fn full() -> Config {
    Config { tx_checksum: Checksum::Full, rx_checksum: Checksum::Full, ..Config::ZYNQMP }
}

fn goods(f: &[u8]) -> (Check, Check) {
    let v = verify(f);
    (v.ip, v.transport)
}

fn transmit(cfg: Config, f: &[u8], app: [u32; 3]) -> Vec<u8> {
    let mut b = Bench::up(cfg);
    b.queue_frame(0x8000, f, app);
    b.kick();
    b.settle();
    b.sent().remove(0)
}

/// APP1 as Linux makes it.
fn app1(start: u16, insert: u16) -> u32 {
    u32::from(start) << tx_app::START_SHIFT | u32::from(insert)
}

#[test]
fn partial_sums_from_start_to_end_with_what_is_in_the_field() {
    for (tcp, payload, tag) in [(true, 999, false), (false, 1000, false), (true, 64, true)] {
        let mut f = datagram(tcp, payload, tag);
        let todo = prepare_partial(&mut f).unwrap();
        let app = [tx_app::PARTIAL, app1(todo.start, todo.start + todo.offset), 0];
        let got = transmit(Config::ZYNQMP, &f, app);
        assert_eq!(verify(&got).transport, Check::Good, "{tcp} {payload} {tag}");
        assert_ne!(got, f);
    }
}

#[test]
fn partial_begins_with_the_seed() {
    let mut f = datagram(true, 100, false);
    let todo = prepare_partial(&mut f).unwrap();
    let at = usize::from(todo.start + todo.offset);
    let seed = u32::from(u16::from_be_bytes([f[at], f[at + 1]]));
    f[at..at + 2].fill(0);
    let got = transmit(Config::ZYNQMP, &f, [tx_app::PARTIAL, app1(todo.start, at as u16), seed]);
    assert_eq!(verify(&got).transport, Check::Good, "the pseudo-header by another way");
}

#[test]
fn words_of_later_descriptors_are_not_looked_at() {
    let mut f = datagram(true, 500, false);
    let todo = prepare_partial(&mut f).unwrap();
    let app = [tx_app::PARTIAL, app1(todo.start, todo.start + todo.offset), 0];
    let mut b = Bench::up(Config::ZYNQMP);
    b.fill(0x8000, &f);
    b.piece_app(0x8000, 100, Descriptor::SOF, [0; 3]);
    b.piece_app(0x8064, f.len() - 100, Descriptor::EOF, app);
    b.piece_app(0x8000, 100, Descriptor::SOF, app);
    b.piece_app(0x8064, f.len() - 100, Descriptor::EOF, [tx_app::FULL, !0, !0]);
    b.kick();
    b.settle();
    assert_eq!(b.sent()[0], f);
    assert_eq!(verify(&b.sent()[1]).transport, Check::Good);
}

#[test]
fn full_makes_both_checksums_whatever_was_there() {
    for (tcp, tag) in [(true, false), (false, false), (true, true)] {
        let mut f = datagram(tcp, 333, tag);
        let l = Layers::of(&f).unwrap();
        f[usize::from(l.l3) + 10] = 0x77;
        f[usize::from(l.l4 + l.partial().unwrap().offset)] = 0x55;
        let got = transmit(full(), &f, [tx_app::FULL, 0, 0]);
        assert_eq!(goods(&got), (Check::Good, Check::Good), "{tcp} {tag}");
    }
}

#[test]
fn full_leaves_fragments_transport_alone_and_other_protocols_all() {
    let mut fragment = datagram(false, 100, false);
    fragment[20] = 0x20;
    let got = transmit(full(), &fragment, [tx_app::FULL, 0, 0]);
    assert_eq!((verify(&got).ip, &got[34..]), (Check::Good, &fragment[34..]));
    let arp = frame(60);
    assert_eq!(transmit(full(), &arp, [tx_app::FULL, 0, 0]), arp);
    let mut two_tags = datagram(true, 50, true);
    two_tags.splice(12..12, [0x88, 0xa8, 0, 1]);
    assert_eq!(transmit(full(), &two_tags, [tx_app::FULL, 0, 0]), two_tags);
}

#[test]
fn a_core_does_only_what_it_was_built_for() {
    let mut f = datagram(true, 100, false);
    let todo = prepare_partial(&mut f).unwrap();
    let words = app1(todo.start, todo.start + todo.offset);
    let none = Config { tx_checksum: Checksum::None, ..Config::ZYNQMP };
    for (cfg, app0) in [
        (none, tx_app::PARTIAL),
        (none, tx_app::FULL),
        (Config::ZYNQMP, tx_app::FULL),
        (full(), tx_app::PARTIAL),
    ] {
        assert_eq!(transmit(cfg, &f, [app0, words, 0]), f);
    }
}

#[test]
fn an_insert_beyond_the_frame_changes_nothing() {
    let f = frame(100);
    for (start, insert) in [(14, 99), (14, 0xffff), (0xffff, 200)] {
        assert_eq!(
            transmit(Config::ZYNQMP, &f, [tx_app::PARTIAL, app1(start, insert), 0]),
            f,
            "{start} {insert}"
        );
    }
    let got = transmit(Config::ZYNQMP, &f, [tx_app::PARTIAL, app1(0xffff, 50), 0x1234]);
    assert_eq!(got[50..52], (!0x1234u16).to_be_bytes(), "a sum of nothing");
}

#[test]
fn received_partial_sum_is_big_endian_words_from_byte_14() {
    let mut b = Bench::up(Config::ZYNQMP);
    b.post(0, 4, 1600);
    let f = frame(301);
    b.receive(&f);
    b.settle();
    let app = b.desc(Bench::rx(0)).app;
    assert_eq!(app[3].get(), u32::from(Sum::of(&f[14..]).value()));
    assert_eq!(app[2].get(), 0);
    // As the driver sees it: be32_to_cpu(app3 & 0xffff), folded, is the sum in the order of memory.
    let loaded = (app[3].get() & rx_app::SUM).swap_bytes();
    assert_eq!((loaded >> 16) as u16, Sum::of(&f[14..]).value().swap_bytes());
}

#[test]
fn received_full_status() {
    let good = |tcp, tag| transmit(full(), &datagram(tcp, 100, tag), [tx_app::FULL, 0, 0]);
    let with = |f: Vec<u8>, at: usize| {
        let mut f = f;
        f[at] ^= 0x10;
        f
    };
    let mut fragment = datagram(false, 100, false);
    fragment[20] = 0x20;
    let fragment = transmit(full(), &fragment, [tx_app::FULL, 0, 0]);
    for (f, status) in [
        (frame(60), rx_app::NONE),
        (good(true, false), rx_app::TCP_GOOD),
        (good(true, true), rx_app::TCP_GOOD),
        (good(false, false), rx_app::UDP_GOOD),
        (fragment, rx_app::IP_GOOD),
        (with(good(true, false), 30), rx_app::IP_BAD),
        (with(good(true, false), 70), rx_app::TRANSPORT_BAD),
    ] {
        let mut b = Bench::up(full());
        b.post(0, 4, 1600);
        b.receive(&f);
        b.settle();
        let app = b.desc(Bench::rx(0)).app;
        assert_eq!((app[2].get(), app[3].get()), (status << rx_app::STATUS_SHIFT, 0), "{status}");
    }
}
