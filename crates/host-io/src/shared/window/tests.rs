use super::*;

#[test]
fn an_access_is_as_wide_as_its_alignment_allows() {
    assert_eq!([width(0, 100), width(4, 100), width(6, 100), width(7, 100)], [8, 4, 2, 1]);
    assert_eq!([width(8, 7), width(8, 4), width(8, 3), width(8, 1)], [4, 4, 2, 1]);
}

#[test]
fn bytes_cross_between_two_windows_at_any_alignment() {
    let file = memfd(c"window", 8192).unwrap();
    let (ours, theirs) = (
        Window::map(&file, 0, 8192, true).unwrap(),
        Window::map(&file, 4096, 4096, false).unwrap(),
    );
    let (starts, longest) = if cfg!(miri) { (9, 18) } else { (16, 40) };
    for start in 0..starts {
        for len in 0..longest {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + start + 1) as u8).collect();
            ours.write(4096 + start, &bytes);
            let mut seen = vec![0; len];
            theirs.read(start, &mut seen);
            assert_eq!(seen, bytes, "{len} bytes at {start}");
        }
    }
}

#[test]
fn a_window_past_the_end_of_its_file_is_refused() {
    let file = memfd(c"window", 4096).unwrap();
    assert!(Window::map(&file, 0, 4097, true).is_err());
    assert!(Window::map(&file, u64::MAX, 2, true).is_err());
    assert!(Window::map(&file, 0, 4096, true).is_ok());
}

#[test]
#[should_panic(expected = "not inside a window")]
fn an_access_past_the_end_of_a_window_is_the_callers_mistake() {
    Window::map(&memfd(c"window", 4096).unwrap(), 0, 4096, true).unwrap().write(4090, &[0; 7]);
}
