//! Properties of cutting: the pieces keep PCI Express's rules, and the closed form is their sum.

use doorbell_bus::pcie::{
    Command, Completions, LinkDirection, Operation, Piece, Pieces, ReadCost, Rules, Settings,
    WriteCost, transactions,
};
use proptest::prelude::*;

fn rules() -> impl Strategy<Value = Rules> {
    let completions = prop_oneof![
        Just(Completions::Rcb(64)),
        Just(Completions::Rcb(128)),
        Just(Completions::Merged)
    ];
    (1u32..=5, 0u32..=5, 7u32..=12, 7u32..=12, completions, any::<bool>()).prop_map(
        |(generation, lanes, mps, mrrs, completions, ecrc)| {
            let link = Settings::link(generation, 1 << lanes);
            Rules::new(Settings { mps: 1 << mps, mrrs: 1 << mrrs, completions, ecrc, ..link })
                .unwrap()
        },
    )
}

/// Ranges of a packet's size, of several pages, around 4 GiB and around the end of the address
/// space.
fn range() -> impl Strategy<Value = (u64, u32)> {
    let near = prop_oneof![Just(0u64), Just(1 << 32), Just(0x12_3456_7000), Just(u64::MAX - 4095)];
    let offset = prop_oneof![0u64..64, 0u64..20_000];
    let len = prop_oneof![0u32..200, 0u32..2_000, 0u32..70_000];
    (near, offset, any::<bool>(), len).prop_map(|(near, offset, below, len)| {
        (if below { near.wrapping_sub(offset) } else { near.wrapping_add(offset) }, len)
    })
}

/// The pieces cover the range once and in order, and none crosses 4 KiB.
fn check_cover(addr: u64, len: u32, pieces: Pieces) -> Result<Vec<Piece>, TestCaseError> {
    let pieces: Vec<Piece> = pieces.collect();
    let mut next = addr;
    for piece in &pieces {
        prop_assert!(piece.len > 0);
        prop_assert_eq!(piece.addr, next);
        prop_assert_eq!(piece.addr >> 12, (piece.addr + u64::from(piece.len - 1)) >> 12);
        next = next.wrapping_add(piece.len.into());
    }
    prop_assert_eq!(next.wrapping_sub(addr), u64::from(len));
    Ok(pieces)
}

/// Padding up to the next multiple of the link's width.
fn pad(rules: &Rules, bytes: u64) -> u64 {
    bytes.next_multiple_of(rules.settings().lanes.into()) - bytes
}

/// The Length field: double words touched, in bytes.
fn length_field(piece: &Piece) -> u64 {
    ((piece.addr & 3) + u64::from(piece.len)).next_multiple_of(4)
}

proptest! {
    #[test]
    fn reads_keep_the_rules(rules in rules(), (addr, len) in range()) {
        let Settings { mps, mrrs, completions, .. } = *rules.settings();
        let requests = check_cover(addr, len, rules.split_read(addr, len))?;
        for (i, request) in requests.iter().enumerate() {
            prop_assert!(length_field(request) <= u64::from(mrrs));
            // No request is shorter than need be: each ends where a rule or the range ends it.
            let end = request.addr.wrapping_add(request.len.into());
            let full = length_field(request) == u64::from(mrrs);
            prop_assert!(i + 1 == requests.len() || end & 4095 == 0 || full);
            let parts = rules.split_completions(request.addr, request.len);
            let parts = check_cover(request.addr, request.len, parts)?;
            let boundary = match completions {
                Completions::Rcb(rcb) => rcb,
                Completions::Merged => 128, // the larger boundary: then the smaller holds too
            };
            for (i, part) in parts.iter().enumerate() {
                prop_assert!(length_field(part) <= u64::from(mps));
                if i > 0 {
                    prop_assert_eq!(part.addr % u64::from(boundary), 0);
                }
                if let Completions::Rcb(rcb) = completions {
                    prop_assert!(part.len <= rcb);
                }
            }
        }
    }

    #[test]
    fn writes_keep_the_rules(rules in rules(), (addr, len) in range()) {
        let mps = rules.settings().mps;
        let pieces = check_cover(addr, len, rules.split_write(addr, len))?;
        for (i, piece) in pieces.iter().enumerate() {
            prop_assert!(length_field(piece) <= u64::from(mps));
            prop_assert!(i == 0 || piece.addr % u64::from(mps) == 0);
        }
    }

    #[test]
    fn the_cost_of_a_read_is_the_sum_of_its_packets(rules in rules(), (addr, len) in range()) {
        let mut sum = ReadCost::default();
        for request in rules.split_read(addr, len) {
            sum.requests += 1;
            sum.request_bytes += u64::from(rules.mrd_bytes(request.addr));
            sum.request_pad += pad(&rules, rules.mrd_bytes(request.addr).into());
            for part in rules.split_completions(request.addr, request.len) {
                sum.completions += 1;
                sum.completion_bytes += u64::from(rules.cpld_bytes(part.addr, part.len));
                sum.completion_pad += pad(&rules, rules.cpld_bytes(part.addr, part.len).into());
            }
        }
        prop_assert_eq!(rules.read_cost(addr, len), sum);
    }

    #[test]
    fn the_cost_of_a_write_is_the_sum_of_its_packets(rules in rules(), (addr, len) in range()) {
        let mut sum = WriteCost::default();
        for piece in rules.split_write(addr, len) {
            sum.requests += 1;
            sum.request_bytes += u64::from(rules.mwr_bytes(piece.addr, piece.len));
            sum.request_pad += pad(&rules, rules.mwr_bytes(piece.addr, piece.len).into());
        }
        prop_assert_eq!(rules.write_cost(addr, len), sum);
    }

    #[test]
    fn the_list_of_transactions_adds_up_to_the_cost(rules in rules(), (addr, len) in range()) {
        let (mut read, mut write) = (ReadCost::default(), WriteCost::default());
        for t in transactions(&rules, Operation::Read, addr, len) {
            let (count, bytes, pad) = match (t.command, t.toward) {
                (Command::MRd, LinkDirection::Upstream) => {
                    (&mut read.requests, &mut read.request_bytes, &mut read.request_pad)
                }
                (Command::CplD, LinkDirection::Downstream) => {
                    (&mut read.completions, &mut read.completion_bytes, &mut read.completion_pad)
                }
                other => panic!("{other:?} in a read"),
            };
            *count += 1;
            *bytes += u64::from(t.wire_bytes);
            *pad += u64::from(t.pad);
        }
        for t in transactions(&rules, Operation::Write, addr, len) {
            prop_assert_eq!(t.command, Command::MWr);
            prop_assert_eq!(t.toward, LinkDirection::Upstream);
            write.requests += 1;
            write.request_bytes += u64::from(t.wire_bytes);
            write.request_pad += u64::from(t.pad);
        }
        prop_assert_eq!(read, rules.read_cost(addr, len));
        prop_assert_eq!(write, rules.write_cost(addr, len));
    }
}
