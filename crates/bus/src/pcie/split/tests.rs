use super::super::{Completions, Settings};
use super::*;

const HIGH: u64 = 0x12_3456_0000;

fn rules() -> Rules {
    Rules::new(Settings::link(3, 16)).unwrap()
}

fn lens(pieces: Pieces) -> Vec<u32> {
    pieces.map(|p| p.len).collect()
}

/// facts: the worked example and the accounting recipes of section 6.
#[test]
fn a_1514_byte_frame_is_72_bytes_up_and_1636_down() {
    let cost = rules().read_cost(HIGH, 1514);
    assert_eq!(
        cost,
        ReadCost {
            requests: 3,
            request_bytes: 72,
            request_pad: 3 * 8,
            completions: 6,
            completion_bytes: 1636,
            // 276 bytes end 12 before a symbol time does, the last 256 at its end.
            completion_pad: 5 * 12,
        }
    );
    let descriptor = rules().read_cost(HIGH, 16);
    assert_eq!((descriptor.request_bytes, descriptor.completion_bytes), (24, 36));
    assert_eq!(rules().write_cost(HIGH, 4).request_bytes, 28, "doorbell, MSI-X");
    assert_eq!(rules().write_cost(HIGH, 64).request_bytes, 88, "CQE");
    assert_eq!(rules().write_cost(HIGH, 1514).request_bytes, 6 * 24 + 1516);
}

/// facts: mlx5 per packet.
#[test]
fn a_session_of_58_packets_is_48_bytes_up_and_1040_down() {
    let cost = rules().read_cost(HIGH, 960);
    assert_eq!((cost.requests, cost.request_bytes), (2, 48));
    assert_eq!((cost.completions, cost.completion_bytes), (4, 1040));
    let send = rules().read_cost(HIGH, 64);
    assert_eq!((send.request_bytes, send.completion_bytes), (24, 84));
    assert_eq!(rules().read_cost(HIGH, 256).completion_bytes, 276, "four blocks merged");
}

/// PG346: 128 bytes from 0x10020 with RCB 64 may come as 32+64+32, 96+32, 32+96 or 128.
#[test]
fn completions_are_cut_as_pg346_allows() {
    let cut = |mps, completions, addr| {
        let rules = Rules::new(Settings { mps, completions, ..Settings::link(3, 16) }).unwrap();
        lens(rules.split_completions(addr, 128))
    };
    assert_eq!(cut(256, Completions::Rcb(64), 0x10020), [32, 64, 32]);
    assert_eq!(cut(128, Completions::Merged, 0x10020), [96, 32]);
    assert_eq!(cut(256, Completions::Merged, 0x10020), [128]);
    assert_eq!(cut(256, Completions::Rcb(128), 0x10020), [96, 32]);
}

#[test]
fn the_length_field_of_a_read_never_exceeds_mrrs() {
    // 512 bytes from an odd address touch 129 double words: two requests.
    assert_eq!(lens(rules().split_read(0x1002, 512)), [510, 2]);
    assert_eq!(lens(rules().split_read(0x1004, 512)), [512]);
    assert_eq!(lens(rules().split_read(0x1F02, 1024)), [254, 512, 258]);
}

#[test]
fn buffers_below_4_gib_save_four_bytes_a_request() {
    assert_eq!(rules().read_cost(0xFFFF_F000, 4096).request_bytes, 8 * 20);
    assert_eq!(rules().read_cost(0xFFFF_F000, 8192).request_bytes, 8 * 20 + 8 * 24);
    assert_eq!(rules().write_cost(0xFFFF_FF00, 512).request_bytes, 20 + 24 + 512);
}

/// A symbol time carries a byte on each lane, and a packet starts in lane 0.
#[test]
fn a_packet_is_padded_to_the_width_of_the_link() {
    let pads = |lanes, addr, len| {
        let rules = Rules::new(Settings::link(3, lanes)).unwrap();
        (rules.read_cost(addr, len).completion_pad, rules.write_cost(addr, len).request_pad)
    };
    // 84 bytes toward the device, 88 toward the host.
    let table = [(1, (0, 0)), (4, (0, 0)), (8, (4, 0)), (16, (12, 8)), (32, (12, 8))];
    for (lanes, pad) in table {
        assert_eq!(pads(lanes, HIGH, 64), pad, "x{lanes}");
    }
    // Two bytes into a line the completion has 88 bytes, the write 92.
    assert_eq!(pads(16, HIGH + 2, 64), (8, 4));
}

#[test]
fn nothing_costs_nothing() {
    assert_eq!(rules().read_cost(3, 0), ReadCost::default());
    assert_eq!(rules().write_cost(3, 0), WriteCost::default());
    assert_eq!(rules().split_read(3, 0).next(), None);
}
