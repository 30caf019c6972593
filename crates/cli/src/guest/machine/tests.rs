use super::{Machine, prices_of, profile};
use doorbell_guest::{Device, Prices};
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
    let prices = Prices { each: 2000, functions: Vec::new() };
    assert_eq!((m.prices, m.inside), (prices, vec![("mtu".to_owned(), "9000".to_owned())]));
}

#[test]
fn an_instruction_costs_a_fraction_or_what_its_function_costs() {
    let each = |text| machine("mlx5", &[("cpu.instruction", text)]).unwrap().prices.each;
    assert_eq!(["0.28", "280 ps", "1.5 ns", "1 us"].map(each), [280, 280, 1500, 1_000_000]);
    let text = "instruction = \"0.28 ns\"\n[functions]\nmlx5e_xmit = \"400 ps\"\n";
    let read = |text: &str| prices_of("c.toml", text).map_err(|e| e.to_string());
    let functions = vec![("mlx5e_xmit".to_owned(), 400)];
    assert_eq!(read(text), Ok(Prices { each: 280, functions }));
    let wrong = |more: &str| read(&format!("{text}{more}")).unwrap_err();
    assert!(wrong("f = \"1 B\"\n").starts_with("c.toml:4: "), "{}", wrong("f = \"1 B\"\n"));
    assert!(wrong("f = 3\n").contains("a string such as"));
    assert!(wrong("\"a b\" = \"1 ns\"\n").contains("`a b` is no function"));
    assert!(wrong("[function]\nf = \"1 ns\"\n").starts_with("c.toml:5: allowed are"));
    assert!(read("[functions]\n").unwrap_err().contains("`instruction"));
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
    let least = refusal("mlx5", &[("cpu.instruction", "0.01")]);
    assert!(least.contains("cpu.instruction=0.01") && least.contains("from 50 ps"), "{least}");
    assert!(refusal("mlx5", &[("cpu.instruction", "0.2805")]).contains("whole picoseconds"));
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
