use super::*;
use doorbell_hal::Time;

#[test]
fn what_is_asked_for_is_understood() {
    let text = "lost-interrupt@3, late-completion@every=50:200us,dma-fault@random=1000,\
                link-flap@every=2ms:0.5 ms";
    let p = parse(text).unwrap();
    let kinds: Vec<_> = p.rules.iter().map(|r| (r.kind, r.when)).collect();
    assert_eq!(
        kinds,
        [
            (Kind::LostInterrupt, When::Nth(3)),
            (Kind::LateCompletion(Span::from_us(200)), When::Every(50)),
            (Kind::DmaFault, When::OneIn(1000)),
        ]
    );
    assert_eq!(p.flaps, [Flap { after: Span::from_ms(2), lasts: Span::from_us(500), again: true }]);
    assert!(parse("").unwrap().is_empty());
}

#[test]
fn refusals_say_what_is_allowed() {
    let e = |t: &str| {
        let e = parse(t).unwrap_err().to_string();
        e.strip_suffix(&format!("; allowed: {ALLOWED}")).unwrap().to_owned()
    };
    insta::assert_snapshot!(
        e("lost-irq@3"),
        @"`lost-irq@3`: no fault is called `lost-irq`; the nearest is `lost-interrupt`"
    );
    insta::assert_snapshot!(
        e("lost-interrupt"),
        @"`lost-interrupt`: it does not say which, counted from 1: @3, @every=3 or @random=3"
    );
    insta::assert_snapshot!(
        e("lost-interrupt@0"),
        @"`lost-interrupt@0`: it does not say which, counted from 1: @3, @every=3 or @random=3"
    );
    insta::assert_snapshot!(
        e("lost-interrupt@often=3"),
        @"`lost-interrupt@often=3`: it does not say which, counted from 1: @3, @every=3 or \
          @random=3"
    );
    insta::assert_snapshot!(e("dma-fault@3:1us"), @"`dma-fault@3:1us`: dma-fault takes no time");
    insta::assert_snapshot!(
        e("late-completion@3"),
        @"`late-completion@3`: late-completion takes a time behind a colon, such as :200us"
    );
    insta::assert_snapshot!(
        e("late-completion@3:200"),
        @"`late-completion@3:200`: `200` is no time such as 200us"
    );
    insta::assert_snapshot!(e("link-flap@3:1ms"), @"`link-flap@3:1ms`: `3` is no time such as 2ms");
    insta::assert_snapshot!(
        e("late-completion@1:51ms"),
        @"`late-completion@1:51ms`: a completion is late by 50 ms at most, as long as a host waits"
    );
    insta::assert_snapshot!(
        e("link-flap@every=1ms:1ms"),
        @"`link-flap@every=1ms:1ms`: the link would never be up"
    );
}

/// Returns the changes of the link up to `until`, in us, `true` for up.
fn changes(f: &mut doorbell_sim::fault::Flaps, until: u64) -> Vec<(u64, bool)> {
    let mut seen = Vec::new();
    while f.next() <= Time::ZERO + Span::from_us(until) {
        let t = f.next();
        seen.extend(f.step(t).map(|up| (t.since(Time::ZERO).ps() / 1_000_000, up)));
    }
    seen
}

#[test]
fn a_link_is_down_while_any_flap_lasts() {
    let p = parse("link-flap@10us:5us,link-flap@12us:9us,link-flap@every=40us:1us").unwrap();
    let mut f = p.flaps(Time::ZERO);
    let all = [(10, false), (21, true), (40, false), (41, true), (80, false), (81, true)];
    assert_eq!(changes(&mut f, 85), all);
    assert_eq!(f.times, 3);
}

#[test]
fn flaps_that_begin_or_end_together_are_as_many() {
    for (flaps, up) in [
        ("link-flap@1us:2us,link-flap@2us:1us", 3),
        ("link-flap@1us:2us,link-flap@1us:4us", 5),
        ("link-flap@1us:2us,link-flap@1us:2us", 3),
        ("link-flap@1us:2us,link-flap@3us:2us", 5),
    ] {
        let mut f = parse(flaps).unwrap().flaps(Time::ZERO);
        assert_eq!(changes(&mut f, 10), [(1, false), (up, true)], "{flaps}");
    }
}
