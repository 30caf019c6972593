use super::*;

#[test]
fn entries_are_written_one_by_one_in_a_row_and_from_a_list() {
    let (t, _) = Table::create().unwrap();
    assert_eq!(t.put(0x3000, 0x10003, 1), SUCCESS);
    assert_eq!(t.put(0x4000, 0x20001, 2), SUCCESS);
    let memory = Window::map(&memfd(c"m", 8192).unwrap(), 0, 8192, true).unwrap();
    memory.write(4096, &0x30002u64.to_be_bytes());
    assert_eq!(t.put_list(&memory, 0x8000, 4096, 2), SUCCESS);
    let seen: Vec<_> =
        [0x3000, 0x4000, 0x5000, 0x6000, 0x8000, 0x9000].map(|a| t.entry(a).unwrap()).into();
    assert_eq!(seen, [0x10003, 0x20001, 0x20001, 0, 0x30002, 0]);
    assert_eq!(t.translate(0x3ffc, true), Some((0x10ffc, 4)));
    assert_eq!(t.translate(0x4000, true), None, "to be read only");
    assert_eq!(
        t.translate(0x8010, false),
        Some((0x30010, 4080)),
        "what may be written may be read"
    );
    assert_eq!(t.translate(0x6000, false), None);
}

#[test]
fn what_is_outside_is_refused_and_changes_nothing() {
    let (t, _) = Table::create().unwrap();
    let memory = Window::map(&memfd(c"m", 8192).unwrap(), 0, 8192, true).unwrap();
    let last = (ENTRIES - 1) * PAGE;
    assert_eq!(t.put(last, 3, 2), PARAMETER);
    assert_eq!(t.put(u64::MAX, 3, u64::MAX), PARAMETER);
    assert_eq!(t.put_list(&memory, 0, 8192, 1), PARAMETER);
    assert_eq!(t.put_list(&memory, 0, 8, 1), PARAMETER);
    assert_eq!(t.put_list(&memory, 0, u64::MAX - 4095, 1), PARAMETER);
    assert_eq!(t.put_list(&memory, 0, 0, 513), PARAMETER);
    assert_eq!((t.entry(last), t.entry(last + PAGE)), (Some(0), None));
}
