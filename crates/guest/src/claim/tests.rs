use super::Claim;

fn held(words: &[&str], frames: u64) -> Result<u64, String> {
    let claim = Claim::of("own", words).map_err(|e| e.to_string())?;
    claim.held("own", Some(frames), "nc: bad option\n").map_err(|e| e.to_string())
}

#[test]
fn each_frame_is_a_packet_without_a_claim() {
    assert_eq!(held(&[], 23_749), Ok(23_749));
}

#[test]
fn no_frame_holds_no_claim() {
    for words in [&[][..], &["200"], &["0"], &["3", "0-9"]] {
        let said = held(words, 0).unwrap_err();
        assert!(said.ends_with("but 0 crossed the wire; it said:\nnc: bad option"), "{said}");
    }
}

#[test]
fn a_claim_allows_its_own_frames_alone() {
    assert_eq!(held(&["200"], 200), Ok(200));
    let said = held(&["200"], 199).unwrap_err();
    assert!(
        said.starts_with("own: it claims 200 packets in 200 frames, but 199 crossed"),
        "{said}"
    );
    assert_eq!(held(&["200", "400"], 400), Ok(200));
    assert!(held(&["200", "400"], 200).is_err());
    for (frames, allowed) in [(399, false), (400, true), (800, true), (801, false)] {
        assert_eq!(held(&["200", "400-800"], frames).is_ok(), allowed, "{frames}");
    }
}

#[test]
fn a_claim_that_is_no_number_says_what_is_allowed() {
    for words in [&["many"][..], &["3", "-"], &["3", "4", "5"], &["3", "4-"], &["-1"]] {
        let said = held(words, 3).unwrap_err();
        assert!(said.contains("allowed are `end`, `end PACKETS`"), "{said}");
    }
}
