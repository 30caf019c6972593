use super::*;

#[test]
fn what_is_in_another_count_is_not_added_again() {
    let bill = |names: &[&str]| -> Vec<String> {
        let run: Vec<(String, f64)> = names.iter().map(|n| ((*n).to_owned(), 1.0)).collect();
        PARTS.iter().flat_map(|p| p.of(&run)).map(|(name, _, _)| name).collect()
    };
    let counts = [
        "pcie_read_bytes",
        "pcie_down_tlp_bytes",
        "tce_hcalls",
        "hcalls",
        "axi_lite_writes",
        "mmio_writes",
    ];
    assert_eq!(bill(&counts), ["pcie_down_tlp_bytes", "hcalls", "mmio_writes"]);
    assert_eq!(bill(&["cycles", "cycles_stack"]), ["cycles_stack"], "the sum is no item");
}
