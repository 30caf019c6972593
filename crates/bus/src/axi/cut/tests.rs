use super::super::{PAGE, Protocol, Settings};
use super::*;
use proptest::prelude::*;

fn list(settings: Settings, addr: u64, len: u32) -> String {
    Rules::new(settings)
        .unwrap()
        .bursts(addr, len)
        .map(|b| format!("{:#x} {:4} {:3}\n", b.addr, b.bytes, b.beats))
        .collect()
}

#[test]
fn a_frame_is_cut_at_multiples_of_the_burst() {
    insta::assert_snapshot!(list(Settings { bits: 32, ..Settings::ZYNQMP }, 0x1042, 200), @r"
        0x1042   62  16
        0x1080   64  16
        0x10c0   64  16
        0x1100   10   3
        ");
}

#[test]
fn long_bursts_end_at_4_kib() {
    let widest = Settings { bits: 1024, beats: 256, ..Settings::ZYNQMP };
    insta::assert_snapshot!(list(widest, 0x1ff0, 9000), @r"
        0x1ff0   16   1
        0x2000 4096  32
        0x3000 4096  32
        0x4000  792   7
        ");
}

#[test]
fn a_descriptor_is_one_burst() {
    insta::assert_snapshot!(list(Settings::ZYNQMP, 0x1040, 52), @"0x1040   52   7");
    insta::assert_snapshot!(
        list(Settings { bits: 32, ..Settings::ZYNQMP }, 0x1040, 52),
        @"0x1040   52  13"
    );
}

#[test]
fn axi3_ends_after_sixteen_beats() {
    let s = Settings { protocol: Protocol::Axi3, ..Settings::ZYNQMP };
    let rules = Rules::new(s).unwrap();
    assert_eq!(rules.bursts(0, 1514).count(), 12);
    assert_eq!(rules.bursts(64, 1514).count(), 13, "one more, for it starts in the middle of one");
    let long = Rules::new(Settings { beats: 256, ..Settings::ZYNQMP }).unwrap();
    assert_eq!(long.bursts(64, 1514).count(), 1);
}

fn settings() -> impl Strategy<Value = Settings> {
    (any::<bool>(), 0u32..6, 1u32..9).prop_map(|(axi3, wide, long)| {
        let protocol = if axi3 { Protocol::Axi3 } else { Protocol::Axi4 };
        let beats = (1 << long).min(protocol.most_beats());
        Settings { protocol, bits: 32 << wide, beats, ..Settings::ZYNQMP }
    })
}

proptest! {
    /// Once, in order, none over 4 KiB, none longer than allowed.
    #[test]
    fn bursts_cover_the_range(s in settings(), addr in any::<u64>(), len in 0u32..70_000) {
        let rules = Rules::new(s).unwrap();
        let (mut at, mut bytes, mut beats) = (addr, 0u64, 0u64);
        for b in rules.bursts(addr, len) {
            prop_assert_eq!(b.addr, at);
            prop_assert!(b.bytes > 0);
            let last = b.addr.wrapping_add(u64::from(b.bytes) - 1);
            prop_assert_eq!(b.addr / u64::from(PAGE), last / u64::from(PAGE), "crosses 4 KiB");
            prop_assert!((1..=s.beats).contains(&b.beats));
            at = at.wrapping_add(b.bytes.into());
            bytes += u64::from(b.bytes);
            beats += u64::from(b.beats);
        }
        prop_assert_eq!(bytes, u64::from(len));
        // Bursts end at whole beats, so cutting makes no beat twice.
        prop_assert_eq!(beats, rules.beats(addr, len));
    }

    #[test]
    fn all_but_the_first_burst_are_aligned(
        s in settings(),
        addr in 0u64..1 << 40,
        len in 0u32..70_000,
    ) {
        let rules = Rules::new(s).unwrap();
        let size = u64::from((s.bits / 8 * s.beats).min(PAGE));
        for b in rules.bursts(addr, len).skip(1) {
            prop_assert_eq!(b.addr % size, 0);
        }
    }
}
