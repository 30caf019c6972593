use super::{Adapter, Card, Hypervisor, Plan, Slot};
use doorbell_bus::{axi, pci, pcie};
use doorbell_devices::{axi_ethernet, e1000, mlx5, vnic};
use doorbell_hal::Span;
use doorbell_layout::{ibmveth, ibmvnic};
use std::net::Ipv4Addr;

fn plans() -> [Plan; 5] {
    let x = pci::Protocol::X { mmrbc: 2048, outstanding: 4 };
    let settings = pci::Settings { protocol: x, latency_timer: Some(64), ..pci::Settings::POWER4 };
    let [a, b, c] = [400, 469, 50].map(Span::from_ns);
    let parallel = Slot::Parallel(settings, pci::Latencies { cpu: a, memory: b, register: c });
    let link =
        pcie::Settings { completions: pcie::Completions::Rcb(64), ..pcie::Settings::link(3, 8) };
    let express = Slot::Express(link, pcie::Latencies { link: a, memory: b });
    let addresses = [[10, 0, 0, 1], [10, 0, 0, 2]].map(Ipv4Addr::from);
    let nic = e1000::Config { mac: [2, 0, 0, 0, 0, 9], ..e1000::Config::I82545EM };
    let axi = Slot::Axi(
        axi::Settings { protocol: axi::Protocol::Axi3, ..axi::Settings::ZYNQMP },
        axi::Latencies { read: a, write: b, cpu: c },
    );
    let mut lan = crate::partition::alone();
    (lan.slice, lan.adapters[0].vector) = (4096, 0x11f0);
    let mut hypervisor = Hypervisor::free(&ibmveth::CALLS);
    (hypervisor.calls[0].1.fixed, hypervisor.calls[0].1.serial) = (a, b);
    let mut nic_behind = vnic::Config { completion_wait: a, ..vnic::Config::POWERVM };
    nic_behind.servers.iter_mut().for_each(|s| s.desc_req = [0xf0, 0, 0, 0, 0, 0, 0, 1]);
    [
        (Card::E1000(nic), parallel),
        (Card::Mlx5(mlx5::Config::CONNECTX), express),
        (Card::Axi(axi_ethernet::Config::ZYNQMP, [2, 0, 0, 0, 0, 9]), axi),
        (Card::Adapter(Adapter::Veth(lan)), Slot::Hypervisor(hypervisor)),
        (
            Card::Adapter(Adapter::Vnic(nic_behind)),
            Slot::Hypervisor(Hypervisor::free(&ibmvnic::CALLS)),
        ),
    ]
    .map(|(card, slot)| Plan {
        card,
        slot,
        rate: 1_000_000_000,
        delay: c,
        addresses,
        captured: Default::default(),
    })
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
    let other = text.replace("card 0", "card 9");
    assert_eq!(refused(&other), "card 9 in slot 0 is not known");
    let odd = refused("frame 0 0a0");
    assert_eq!(odd, "`frame 0 0a0`: expected a name and a number");
    assert_eq!(refused("mlx5"), "`mlx5`: expected a name and a number");
}
