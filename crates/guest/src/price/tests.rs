use super::Prices;

#[test]
fn qemu_never_counts_an_instruction_cheaper() {
    let of = |each| Prices { each, functions: Vec::new() };
    let shifts = [50, 280, 1000, 1001, 1500, 2000, 3000, 1_024_000].map(|each| of(each).shift());
    assert_eq!(shifts, [0, 0, 0, 1, 1, 1, 2, 10]);
    let own = [280, 1000, 1500, 2000, 4000].map(|each| of(each).of_plugin());
    assert_eq!(own, [Some(280), None, Some(1500), None, None]);
    let dearer = Prices { each: 1000, functions: vec![("f".to_owned(), 2500), ("g".into(), 50)] };
    assert_eq!((dearer.shift(), dearer.of_plugin()), (2, Some(1000)));
    assert_eq!(dearer.to_string(), "1 ns, f 2.5 ns, g 0.05 ns");
    assert_eq!(dearer.lines(), "f 2500\ng 50");
}
