//! Integration tests, one program: drivers with our devices, and judges that need no QEMU. Some
//! need root or other programs and say so.

mod axienet;
mod e1000;
mod e1000_reordered;
mod ibmveth;
mod ibmvnic;
mod ibmvnic_adaptive;
mod ibmvnic_limits;
mod mlx5_function;
mod mlx5_received;
mod mlx5_redirected;
mod mlx5_reordered;
mod mlx5_together;
mod offloads;
mod packet_socket;
mod real_capture;
mod replay;
mod segmentation_kernel;
mod tap_and_netns;

/// The two others are programs of their own: each says why.
#[test]
fn no_file_is_forgotten() {
    let others = doorbell_testkit::forgotten(env!("CARGO_MANIFEST_DIR"));
    assert_eq!(others, ["instructions.rs", "iperf_shape.rs"]);
}
