//! Integration tests, one program: the bodies of the fuzz targets on seeds, on kept corpora, and on
//! bytes that proptest makes.

mod device;
mod fuzz_corpora;
mod fuzz_seeds;
mod hcalls;
mod mlx5;
mod settings;
mod vfio_user;

#[test]
fn no_file_is_forgotten() {
    assert!(doorbell_testkit::forgotten(env!("CARGO_MANIFEST_DIR")).is_empty());
}
