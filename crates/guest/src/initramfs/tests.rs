use super::*;
use proptest::prelude::*;

/// Reads an archive back: names, modes and data.
fn entries(archive: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
    let (mut at, mut all) = (0, Vec::new());
    loop {
        assert_eq!(&archive[at..at + 6], b"070701");
        let field = |n: usize| {
            let digits = &archive[at + 6 + 8 * n..][..8];
            u32::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap()
        };
        let (mode, length, name_length) = (field(1), field(6) as usize, field(11) as usize);
        let name = &archive[at + 110..][..name_length - 1];
        let data = (at + 110 + name_length).next_multiple_of(4);
        let name = String::from_utf8(name.to_vec()).unwrap();
        if name == "TRAILER!!!" {
            return all;
        }
        all.push((name, mode, archive[data..data + length].to_vec()));
        at = (data + length).next_multiple_of(4);
    }
}

#[test]
fn directories_stand_before_what_is_in_them_and_each_name_is_there_once() {
    let mut archive = Archive::default();
    archive.plain("a/b/c", b"one");
    archive.executable("a/b/d", b"two");
    archive.plain("a/b/c", b"again");
    let all = entries(&archive.finish());
    let names: Vec<&str> = all.iter().map(|(n, ..)| n.as_str()).collect();
    assert_eq!(names, ["a", "a/b", "a/b/c", "a/b/d"]);
    assert_eq!(all[1].1, DIRECTORY);
    assert_eq!((all[2].1, &all[2].2[..]), (PLAIN, &b"one"[..]));
    assert_eq!(all[3].1, EXECUTABLE);
}

proptest! {
    #[test]
    fn any_data_come_back(
        files in prop::collection::btree_map("[a-z]{1,9}", any::<Vec<u8>>(), 0..9),
    ) {
        let mut archive = Archive::default();
        for (name, data) in &files {
            archive.plain(name, data);
        }
        let back = entries(&archive.finish());
        let back: std::collections::BTreeMap<_, _> =
            back.into_iter().map(|(name, _, data)| (name, data)).collect();
        prop_assert_eq!(back, files);
    }
}
