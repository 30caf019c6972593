use super::*;

fn config(generation: u32, lanes: u32, mps: u32) -> Config {
    Config {
        generation,
        lanes,
        address_bits: 64,
        ecrc: false,
        mps,
        mrrs: 512,
        rcb: 64,
        rcb_chunks: false,
    }
}

fn tlp_gbps(generation: u32, lanes: u32, mps: u32) -> f64 {
    Model::new(config(generation, lanes, mps)).unwrap().tlp_gbps()
}

/// facts: bandwidth left for TLPs, Gb/s.
#[test]
fn tlp_bandwidth_is_that_of_the_table() {
    for (generation, lanes, row) in [
        (1, 4, [6.23, 6.89, 7.15]),
        (2, 8, [27.58, 28.68, 28.18]),
        (3, 8, [56.67, 57.88, 57.31]),
        (3, 16, [111.70, 113.70, 114.62]),
        (4, 16, [223.40, 227.40, 229.25]),
    ] {
        for (mps, gbps) in [128, 256, 512].into_iter().zip(row) {
            let ours = tlp_gbps(generation, lanes, mps);
            assert!(
                (ours - gbps).abs() < 0.005_001,
                "gen{generation} x{lanes} {mps}: {ours} {gbps}"
            );
        }
    }
}

/// Printed by pcie-model itself.
#[test]
fn typing_slips_and_guessed_generations_are_pcie_models() {
    for (generation, lanes, mps, gbps) in [
        (1, 32, 2048, 58.30957),
        (2, 32, 4096, 120.21493),
        (2, 16, 256, 55.50835),
        (6, 16, 256, 873.29197),
        (7, 8, 128, 870.46404),
    ] {
        let ours = tlp_gbps(generation, lanes, mps);
        assert!((ours - gbps).abs() < 0.000_006, "gen{generation} x{lanes} {mps}: {ours} {gbps}");
    }
}

/// Printed by pcie-model's `mem_bw.write`, `read` and `read_write`, fed with its TLP bandwidth.
#[test]
fn memory_bandwidths_are_pcie_models_to_four_digits() {
    let gen3 = config(3, 8, 256);
    let chunks = Config { rcb_chunks: true, ..gen3 };
    let gen2 = Config { address_bits: 32, ecrc: true, mrrs: 128, ..config(2, 16, 128) };
    let gen1 = Config { mrrs: 256, ..config(1, 4, 128) };
    let gen5 = Config { mrrs: 4096, ..config(5, 16, 512) };
    for (config, size, write, read, both) in [
        (gen3, 1, 2.3154, 2.4119, 1.1813),
        (gen3, 64, 42.0980, 44.1027, 33.0770),
        (gen3, 256, 52.9232, 53.6902, 48.7451),
        (gen3, 257, 48.7750, 50.0888, 45.2170),
        (gen3, 512, 52.9232, 53.6902, 50.7483),
        (gen3, 1500, 52.8146, 53.5970, 50.5986),
        (chunks, 64, 42.0980, 44.1027, 33.0770),
        (chunks, 512, 52.9232, 44.1027, 44.1027),
        (chunks, 1500, 52.8146, 43.8521, 43.8521),
        (gen2, 64, 38.9019, 38.9019, 30.5658),
        (gen2, 1500, 44.8743, 44.8743, 38.6489),
        (gen1, 64, 4.5278, 4.7434, 3.5576),
        (gen1, 1024, 5.2428, 5.3844, 4.8591),
        (gen5, 4, 65.4991, 76.4156, 35.2687),
        (gen5, 4096, 437.9639, 441.2569, 435.5262),
    ] {
        let model = Model::new(config).unwrap();
        let ours = [model.write(size).toward_host, model.read(size).toward_device];
        let paired = model.read_write(size);
        let ours = [ours[0], ours[1], paired.toward_host, paired.toward_device];
        for (ours, theirs) in ours.into_iter().zip([write, read, both, both]) {
            assert!((ours - theirs).abs() < 0.000_051, "{config:?} {size}: {ours} {theirs}");
        }
    }
}

#[test]
fn an_unknown_boundary_is_refused() {
    let error = Model::new(Config { rcb: 32, ..config(3, 8, 256) }).unwrap_err();
    assert_eq!(
        error.to_string(),
        "rcb = 32 is not a PCI Express setting; allowed: 64, 128, 256, 512"
    );
}
