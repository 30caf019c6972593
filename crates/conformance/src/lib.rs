//! One body of tests per driver, run on every arm; and the judges that nobody here
//! wrote.

pub mod axienet;
pub mod e1000;
mod frames;
pub mod hcalls;
pub mod ibmveth;
pub mod ibmvnic;
pub mod mlx5;
pub mod tshark;
pub mod vfio_user;

/// Whether a test that needs more than Rust is to run: `make test` sets `DOORBELL_FULL=1`, and then
/// what is missing is a failure. Otherwise the test is told to return, and `needs` (such as "root
/// and tshark") is printed.
pub fn full(needs: &str) -> bool {
    let full = std::env::var_os("DOORBELL_FULL").is_some_and(|v| v == "1");
    if !full {
        println!("skipped: needs {needs}; `make test` sets all of it up");
    }
    full
}
