use super::*;
use proptest::prelude::*;

const LATENCY: Key = Key::number("pcie.memory_latency", "ns", 0.0, 1e5, "");
const MPS: Key = Key::among("pcie.mps", "B", &[128.0, 256.0, 512.0], "");
const RATE: Key = Key::number("traffic.rate", "Mpps", 1e-6, 1e4, "").or(&["full"]);
const CHUNK: Key = Key::steps("nic.fetch_chunk", "B", (64.0, 4096.0, 64.0), "");
const SHARE: Key = Key::number("pcie.speed", "", 0.01, 1.0, "");
const SWITCH: Key = Key::choice("driver.mpwqe", &["on", "off"], "");

#[test]
fn units_convert_and_numbers_may_stand_alone() {
    for text in ["300", "300 ns", "300ns", "0.3 us", "0.3µs", "3e-4 ms", "300_000 ps"] {
        assert_eq!(LATENCY.parse(text), Ok(Value::Number(300.0)), "{text}");
    }
    assert_eq!(RATE.parse("36864000 pps"), Ok(Value::Number(36.864)));
    assert_eq!(RATE.parse("full"), Ok(Value::Word("full")));
    assert_eq!(CHUNK.parse("1 KiB"), Ok(Value::Number(1024.0)));
}

#[test]
fn refusals_say_what_is_allowed() {
    let e = |k: &Key, text| k.parse(text).unwrap_err();
    insta::assert_snapshot!(
        e(&LATENCY, "300 MHz"),
        @"`pcie.memory_latency` cannot be in `MHz`; allowed units: ps, ns, us, ms, s"
    );
    insta::assert_snapshot!(
        e(&LATENCY, "-1 ns"),
        @"`pcie.memory_latency` cannot be -1 ns; allowed: 0 to 100000 ns"
    );
    insta::assert_snapshot!(
        e(&LATENCY, "soon"),
        @"`pcie.memory_latency` cannot be `soon`; allowed: 0 to 100000 ns"
    );
    insta::assert_snapshot!(
        e(&LATENCY, "nan"),
        @"`pcie.memory_latency` cannot be `nan`; allowed: 0 to 100000 ns"
    );
    insta::assert_snapshot!(
        e(&MPS, "300 B"),
        @"`pcie.mps` cannot be 300 B; allowed: 128, 256, 512 B"
    );
    insta::assert_snapshot!(
        e(&RATE, "fast"),
        @"`traffic.rate` cannot be `fast`; allowed: 0.000001 to 10000 Mpps, full"
    );
    insta::assert_snapshot!(
        e(&CHUNK, "100 B"),
        @"`nic.fetch_chunk` cannot be 100 B; allowed: multiples of 64 from 64 to 4096 B"
    );
    insta::assert_snapshot!(
        e(&SHARE, "0.9 ns"),
        @"`pcie.speed` is a pure number, but the unit is `ns`; allowed: no unit"
    );
    insta::assert_snapshot!(e(&SWITCH, "1"), @"`driver.mpwqe` cannot be `1`; allowed: on, off");
}

#[test]
fn a_value_between_two_binary_numbers_is_the_allowed_one() {
    const PERIOD: Key = Key::steps("driver.moderation_period", "us", (0.0, 4095.0, 1.0), "");
    for ms in ["1.001", "0.251", "2.047", "4.095"] {
        let us = (ms.parse::<f64>().unwrap() * 1000.0).round();
        assert_eq!(PERIOD.parse(&format!("{ms} ms")), Ok(Value::Number(us)));
    }
    assert!(PERIOD.parse("1.0015 ms").is_err());
}

proptest! {
    #[test]
    fn a_number_means_the_same_in_every_unit(ns in 0.0f64..1e5, unit in 0usize..5) {
        let unit = units("ns")[unit];
        let there = convert(ns, "ns", unit).unwrap();
        let back = LATENCY.parse(&format!("{there} {unit}"));
        let same = matches!(back, Ok(Value::Number(n)) if (n - ns).abs() <= ns * 1e-12);
        prop_assert!(same, "{there} {unit}: {back:?}");
    }

    #[test]
    fn no_text_makes_a_key_panic(text in "\\PC{0,12}", number in any::<f64>()) {
        for key in [LATENCY, MPS, RATE, CHUNK, SHARE, SWITCH] {
            for text in [text.clone(), format!("{number}{text}")] {
                match key.parse(&text) {
                    Ok(Value::Number(n)) => prop_assert!(n.is_finite()),
                    Ok(_) => {}
                    Err(why) => prop_assert!(why.to_string().contains("allowed")),
                }
            }
        }
    }
}

#[test]
fn a_number_of_many_digits_is_short() {
    insta::assert_snapshot!(
        LATENCY.parse("1e308").unwrap_err(),
        @"`pcie.memory_latency` cannot be 1e308 ns; allowed: 0 to 100000 ns"
    );
}

#[test]
fn conditions_follow_each_other() {
    static KIND: Key = Key::choice("traffic.kind", &["pktgen", "pcap"], "");
    static RATE: Key = Key::number("traffic.rate", "Mpps", 0.0, 1e4, "")
        .or(&["full"])
        .default("full")
        .when(PKTGEN);
    static PAUSE: Key = Key::number("traffic.pause", "ns", 0.0, 1e4, "").when(PACED);
    static SHARE: Key = Key::number("traffic.share", "%", 0.0, 100.0, "").when(EITHER);
    static OTHER: Key = Key::number("other.key", "", 0.0, 1.0, "").when(ELSEWHERE);
    const PKTGEN: &[Needs] = &[Needs::kind(&["pktgen"])];
    const PACED: &[Needs] = &[Needs::new("traffic.rate", Is::Number)];
    const EITHER: &[Needs] =
        &[Needs::new("traffic.pause", Is::Positive).or("traffic.kind", Is::Word(&["pcap"]))];
    const ELSEWHERE: &[Needs] = &[Needs::word("of.another_system", &["on"])];
    let mut v = Values::defaults(&[&KIND, &RATE, &PAUSE, &SHARE, &OTHER]);
    let idle = |v: &Values, key| v.idle(key).unwrap_or_default();
    insta::assert_snapshot!(idle(&v, &RATE), @"");
    insta::assert_snapshot!(
        idle(&v, &PAUSE),
        @"it has an effect where `traffic.rate` is a number, and here `traffic.rate` is full"
    );
    insta::assert_snapshot!(
        idle(&v, &SHARE),
        @"it has an effect where `traffic.pause` is above 0 or `traffic.kind` is pcap, and here \
          `traffic.pause` has no effect either and `traffic.kind` is pktgen"
    );
    insta::assert_snapshot!(idle(&v, &OTHER), @"");
    v.set("traffic.rate=3").unwrap();
    insta::assert_snapshot!(idle(&v, &PAUSE), @"");
    v.set("traffic.kind=pcap").unwrap();
    insta::assert_snapshot!(
        idle(&v, &RATE),
        @"it has an effect where `traffic.kind` is pktgen, and here `traffic.kind` is pcap"
    );
    insta::assert_snapshot!(
        idle(&v, &PAUSE),
        @"it has an effect where `traffic.rate` is a number, and here `traffic.rate` has no effect \
          either"
    );
    insta::assert_snapshot!(idle(&v, &SHARE), @"");
}
