use super::*;

fn is_marked(group: &str, name: &str, before: f64, now: f64) -> bool {
    let counter = |name| Ledger::COUNTERS.iter().find(|c| c.name == name).unwrap();
    let margin = match group {
        "instructions" => Margin::of_part(name),
        _ => Some(Margin::of_count(counter(name))),
    };
    margin.is_some_and(|m| m.exceeded(before, now))
}

/// Numbers of Debian's 5.10 and 6.12, booted twice each.
#[test]
fn two_boots_of_a_kernel_are_not_marked() {
    for (group, name, before, now) in [
        ("instructions", "driver", 287.06, 292.21),
        ("instructions", "driver_completion", 70.75, 69.45),
        ("instructions", "driver_other", 1.18, 0.67),
        ("instructions", "driver_receive", 15.35, 10.30),
        ("instructions", "driver_transmit", 201.826, 201.828),
        ("instructions", "kernel", 1303.3, 2746.8),
        ("per_packet", "messages", 0.0259, 0.0173),
        ("per_packet", "mmio_writes", 0.186, 0.135),
        ("per_packet", "pcie_down_tlp_bytes", 113.46, 111.83),
        ("per_packet", "pcie_read_bytes", 81.5, 81.4),
        ("per_packet", "pcie_write_bytes", 3.77, 3.18),
        ("per_packet", "pci_mrm", 0.0625, 0.0312),
    ] {
        assert!(!is_marked(group, name, before, now), "{name}");
    }
    assert!(!Margin::of_function("mlx5_core", "mlx5e_napi_poll").exceeded(5.66, 3.80));
}

#[test]
fn what_another_kernel_does_is_marked() {
    for (group, name, before, now) in [
        ("instructions", "driver_transmit", 201.83, 262.04),
        ("instructions", "driver_completion", 248.9, 206.8),
        ("per_packet", "mmio_writes", 3.72, 2.63),
        ("per_packet", "pcie_down_tlp_bytes", 228.8, 194.0),
        ("per_packet", "pcie_read_bytes", 81.6, 78.3),
    ] {
        assert!(is_marked(group, name, before, now), "{name}");
    }
    assert!(Margin::of_function("mlx5_core", "mlx5e_xmit").exceeded(155.25, 161.24));
}

#[test]
fn numbers_that_the_table_groups_are_those_of_the_schema() {
    use doorbell_guest::instructions::Event;
    assert_eq!(CALLS.map(|(name, _)| name), Event::ALL.map(Event::name));
}
