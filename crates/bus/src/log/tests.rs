use super::*;

fn t(ns: u64) -> Time {
    Time::ZERO + Span::from_ns(ns)
}

#[test]
fn the_last_events_stay_once_it_is_frozen() {
    let mut log = Log::default();
    for i in 0..20 {
        let step = if i % 2 == 0 { CpuStep::Read } else { CpuStep::Write };
        log.add(t(i), t(i + 3), &EventKind::Core(0, step(Reg::at(8), 4, i)));
        let (place, len) = (Iova(i), 16);
        log.transfer(Dma { at: t(i), place, len, dir: Direction::ToDevice });
    }
    log.freeze();
    log.add(t(20), t(20), &EventKind::Core(0, CpuStep::Write(Reg::at(4), 4, 20)));
    let values: Vec<u64> = log.last().map(|a| a.value).collect();
    let places: Vec<u64> = log.dma().map(|d| d.place.0).collect();
    assert_eq!((values, places), ((8..20).collect(), (16..20).collect()));
    let all: Vec<(u32, u64, u64, u64)> = log
        .registers()
        .map(|(r, n)| (r.offset, n.reads, n.writes, n.waited.as_ns_f64() as u64))
        .collect();
    assert_eq!(all, [(4, 0, 1, 0), (8, 10, 10, 60)]);
}
