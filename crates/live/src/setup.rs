//! Settings of LAN and drivers in each state.

use super::State;
use crate::args;
use doorbell_devices::veth;
use doorbell_drivers::ibmveth::{Config, LargeSend, Transmit};
use doorbell_layout::ibmveth::attribute;

/// The MAC address of the VM's interface and of its adapter.
pub(super) const VM_MAC: [u8; 6] = [0x52, 0x54, 0, 0xdb, 0, 1];
const TRUNK_MAC: [u8; 6] = [0x52, 0x54, 0, 0xdb, 0, 2];

/// The user's choices.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) transmit: args::Transmit,
    pub(super) large_send: args::LargeSend,
    /// Bytes that a send copies before the hypervisor returns H_BUSY.
    pub(super) slice: u32,
    /// Receive buffers of 64 KiB of each adapter.
    pub(super) large_buffers: u32,
}

impl Setup {
    /// Returns the settings of the LAN, and of the drivers of VM and trunk.
    pub(super) fn configs(&self, state: State) -> (veth::Config, [Config; 2]) {
        let old = self.large_send == args::LargeSend::Old;
        let mut adapters = [VM_MAC, TRUNK_MAC].map(|mac| {
            let n = mac[5] - 1;
            let mut a = veth::Adapter::new(usize::from(n), n);
            a.mac = mac;
            if old {
                // Firmware without large sends.
                a.options = a.options.map(|o| o & !attribute::LRG_SND_SUPPORT);
            }
            a
        });
        adapters[1].trunk = 1;
        let drivers = adapters.each_ref().map(|a| {
            let mut c = Config::new(a.unit as u32, a.mac);
            c.vector = a.vector;
            c.transmit = match self.transmit {
                args::Transmit::Map => Transmit::Map { copybreak: 128 },
                args::Transmit::Copy => Transmit::Copy,
            };
            c.pools[4].count = self.large_buffers;
            let on = state == State::On;
            c.checksum = on;
            c.large_send = match on {
                false => LargeSend::Off,
                true if old => LargeSend::Old,
                true => LargeSend::Firmware,
            };
            c
        });
        let mut lan = veth::Config::new(adapters.into());
        lan.slice = self.slice;
        (lan, drivers)
    }
}
