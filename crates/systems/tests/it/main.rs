//! Integration tests, one program.

mod allocations;
mod arrivals;
mod closed_loop;
mod e1000_answers;
mod errors;
mod keys;
mod mlx5_receive;
mod mlx5_tcp;
mod rates;
mod registers;
mod sound;
mod standstill;
#[expect(unreachable_pub, dead_code, reason = "shared with doorbell-conformance")]
mod toy;
mod trivial;
mod until;
mod words;

#[test]
fn no_file_is_forgotten() {
    assert_eq!(doorbell_testkit::forgotten(env!("CARGO_MANIFEST_DIR")), [""; 0]);
}
