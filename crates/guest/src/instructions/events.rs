//! Functions that the kernel calls in a driver, by their names from Linux 5.10 to 7.3. Their
//! addresses are taken, so that no compiler inlines them.

/// A reason for which the kernel calls a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// A packet is sent (`ndo_start_xmit`).
    Transmit,
    /// NAPI polls.
    Poll,
    /// The device interrupts.
    Interrupt,
}

impl Event {
    /// All events.
    pub const ALL: [Event; 3] = [Event::Transmit, Event::Poll, Event::Interrupt];
    /// Those whose calls the plug-in follows, in its order.
    pub(crate) const FOLLOWED: [Event; 2] = [Event::Transmit, Event::Poll];

    /// Returns its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Event::Transmit => "transmit",
            Event::Poll => "poll",
            Event::Interrupt => "interrupt",
        }
    }

    /// Returns the names of a module's functions for it.
    pub fn functions(self, module: &str) -> impl Iterator<Item = &'static str> {
        let of = MODULES.iter().find(|(name, _)| *name == module);
        of.map_or("", |(_, names)| names[self as usize]).split_ascii_whitespace()
    }
}

/// Modules with the names of their functions for each event, in the order of [`Event::ALL`].
const MODULES: [(&str, [&str; 3]); 9] = [
    ("mlx5_core", ["mlx5e_xmit", "mlx5e_napi_poll", "irq_int_handler mlx5_irq_int_handler"]),
    ("e1000", ["e1000_xmit_frame", "e1000_clean", "e1000_intr"]),
    (
        "e1000e",
        [
            "e1000_xmit_frame",
            "e1000e_poll",
            "e1000_intr e1000_intr_msi e1000_intr_msix_rx e1000_intr_msix_tx e1000_msix_other",
        ],
    ),
    ("igb", ["igb_xmit_frame", "igb_poll", "igb_intr igb_intr_msi igb_msix_ring igb_msix_other"]),
    ("virtio_net", ["start_xmit", "virtnet_poll virtnet_poll_tx", ""]),
    ("virtio_ring", ["", "", "vring_interrupt"]),
    ("ibmveth", ["ibmveth_start_xmit", "ibmveth_poll", "ibmveth_interrupt"]),
    (
        "ibmvnic",
        [
            "ibmvnic_xmit",
            "ibmvnic_poll",
            "ibmvnic_interrupt ibmvnic_interrupt_rx ibmvnic_interrupt_tx",
        ],
    ),
    (
        "xilinx_emac",
        [
            "axienet_start_xmit axienet_start_xmit_dmaengine",
            "axienet_poll axienet_rx_poll axienet_tx_poll",
            "axienet_rx_irq axienet_tx_irq axienet_eth_irq",
        ],
    ),
];
