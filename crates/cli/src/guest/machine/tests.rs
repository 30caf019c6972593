use super::{Machine, profile};
use doorbell_guest::Device;
use std::sync::Arc;

fn machine(device: &str, settings: &[(&str, &str)]) -> Result<Machine, String> {
    let device = Device::find(device).unwrap();
    let settings = settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let profile = profile(&doorbell_systems::DOORBELL, &device, None).map_err(|e| e.to_string())?;
    Machine::of(&device, &profile, &settings, &Arc::default()).map_err(|e| e.to_string())
}

fn refusal(device: &str, settings: &[(&str, &str)]) -> String {
    machine(device, settings).err().expect("a refusal")
}

#[test]
fn settings_go_to_machine_or_guest() {
    let m = machine("mlx5", &[("pcie.lanes", "8"), ("mtu", "9000"), ("cpu.instruction", "2 ns")]);
    let m = m.unwrap();
    assert!(m.plan.lines().any(|l| l == "pcie.lanes 8"), "{}", m.plan);
    assert_eq!((m.shift, m.inside), (1, vec![("mtu".to_owned(), "9000".to_owned())]));
}

#[test]
fn part_of_an_e1000_is_the_device() {
    let variant = |device: &str| {
        let plan = machine(device, &[]).unwrap().plan;
        plan.lines().find(|l| l.starts_with("nic.variant")).unwrap().to_owned()
    };
    let all = ["e1000-82544gc", "e1000", "e1000-82545em", "e1000-82574l"].map(variant);
    assert_eq!(all, ["nic.variant 0", "nic.variant 1", "nic.variant 2", "nic.variant 3"]);
}

#[test]
fn refusals_name_the_key() {
    let half = refusal("mlx5", &[("cpu.instruction", "0.5")]);
    assert!(half.contains("cpu.instruction=0.5") && half.contains("1, 2, 4"), "{half}");
    assert!(refusal("mlx5", &[("pcie.lanes", "3")]).contains("pcie.lanes"));
    assert!(refusal("e1000", &[("nic.part", "82545em")]).contains("the device's"));
    assert!(refusal("qemu:igb", &[]).contains("QEMU's own"));
    assert!(refusal("axi-ethernet", &[("nic.rx_memory", "4")]).contains("device tree"));
    assert!(refusal("vnic", &[("tce.pages", "1")]).contains("tce.pages"));
}

#[test]
fn adapter_has_the_prices_of_its_profile() {
    let [vnic, veth] = ["vnic", "veth"].map(|device| machine(device, &[]).unwrap().plan);
    let has = |plan: &str, line: &str| plan.lines().any(|l| l == line);
    // 3,300 ns beside the 300 ns of any call.
    assert!(has(&vnic, "hcall.send_sub_crq 3600000"), "{vnic}");
    assert!(has(&vnic, "nic.crq_vector 4592") && has(&vnic, "link.rate 100000000000"), "{vnic}");
    assert!(has(&veth, "hcall.send 1000000") && has(&veth, "link.delay 5000000"), "{veth}");
}
