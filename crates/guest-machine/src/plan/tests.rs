use super::{Card, Plan, Slot};
use doorbell_bus::{pci, pcie};
use doorbell_devices::{e1000, mlx5};
use doorbell_hal::Span;
use std::net::Ipv4Addr;

fn plans() -> [Plan; 2] {
    let x = pci::Protocol::X { mmrbc: 2048, outstanding: 4 };
    let settings = pci::Settings { protocol: x, latency_timer: Some(64), ..pci::Settings::POWER4 };
    let [a, b, c] = [400, 469, 50].map(Span::from_ns);
    let parallel = Slot::Parallel(settings, pci::Latencies { cpu: a, memory: b, register: c });
    let link =
        pcie::Settings { completions: pcie::Completions::Rcb(64), ..pcie::Settings::link(3, 8) };
    let express = Slot::Express(link, pcie::Latencies { link: a, memory: b });
    let addresses = [[10, 0, 0, 1], [10, 0, 0, 2]].map(Ipv4Addr::from);
    let nic = e1000::Config { mac: [2, 0, 0, 0, 0, 9], ..e1000::Config::I82545EM };
    [(Card::E1000(nic), parallel), (Card::Mlx5(mlx5::Config::CONNECTX), express)]
        .map(|(card, slot)| Plan { card, slot, rate: 1_000_000_000, delay: c, addresses })
}

#[test]
fn text_is_read_as_it_was_written() {
    for plan in plans() {
        assert_eq!(Plan::parse(&plan.text()).unwrap(), plan);
    }
}

#[test]
fn wrong_texts_are_refused_by_name() {
    let text = plans()[0].text();
    let refused = |text: &str| Plan::parse(text).unwrap_err().to_string();
    assert_eq!(refused(&text.replace("pci.mwi 1\n", "")), "`pci.mwi` is missing");
    assert_eq!(refused(&text.replace("pci.devsel 1", "pci.devsel 9")), "`pci.devsel` cannot be 9");
    assert_eq!(refused(&format!("{text}x 1\n")), "`x` is not a number of this machine");
    assert_eq!(refused("mlx5"), "`mlx5`: expected a name and a number");
}
