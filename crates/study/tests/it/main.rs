//! Integration tests, one program.

mod advise;
mod published_choices;
mod set_follows_sensitivity;

#[test]
fn no_file_is_forgotten() {
    assert_eq!(doorbell_testkit::forgotten(env!("CARGO_MANIFEST_DIR")), [""; 0]);
}
