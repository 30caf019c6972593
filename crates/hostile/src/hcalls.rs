//! Any guest of the vNIC and the logical LAN behind the plug-in: any calls from any CPU through the
//! plug-in's own code ([`Adapter`](doorbell_papr_io::Adapter)), a driver that knows commands,
//! descriptors and buffers, any contents of call area, table and memory, frames, failovers, time.
//!
//! Neither side panics, and the server takes a bounded number of calls a pass. The device reaches
//! only mapped memory: the second half, which no entry maps, stays unchanged. Half of the guests
//! have an honest plug-in, which alone writes the call area: each of their calls is counted, and no
//! posted send is refused while the session lives.

mod action;
mod client;
mod guest;
mod seeds;

pub use action::Action;
pub use guest::{header_entries, login_buffer};
pub use seeds::seeds;

use arbitrary::Unstructured;
use client::UNIT;
use doorbell_devices::veth::{self, Config, Uplink, Veth};
use doorbell_devices::vnic::{self, VnicServer};
use doorbell_hal::Time;
use doorbell_layout::ibmvnic::{desc, first, hcall};
use doorbell_papr_io::{
    DeviceCallbacks, Partition, SendQueue, VETH, VNIC, sub_crq_interrupts, unit_interrupt,
};
use doorbell_vfio_user::{Crossing, Observer};
use guest::Harness;
use std::collections::BTreeMap;

/// Counts the frames on the wire.
#[derive(Debug, Default)]
struct Wire(u64);

impl Observer for Wire {
    fn crossed(&mut self, _: Time, what: Crossing<'_>) {
        if let Crossing::Frame(frame) = what {
            assert!(!frame.is_empty());
            self.0 += 1;
        }
    }
}

type Port = Partition<Wire>;

/// The counters of the device after an attack.
#[derive(Clone, Debug, Default)]
pub struct Reached {
    /// The vNIC's.
    pub vnic: vnic::Counters,
    /// The first logical LAN adapter's.
    pub veth: veth::Counters,
    /// Frames on the wire.
    pub frames: u64,
    /// vNIC: commands that were answered, each with its code, and their number.
    pub answers: BTreeMap<(u8, u8), u32>,
    /// Sends that the plug-in answered, which were posted to the server.
    pub posted: u64,
    /// Interrupts of the guest.
    pub raised: u64,
}

/// Runs a guest whose actions the input gives. Returns what was reached.
///
/// # Panics
/// Panics if it lets itself be harmed.
pub fn attack(input: &[u8]) -> Reached {
    let mut u = Unstructured::new(input);
    let how = u.arbitrary::<u8>().unwrap_or(0);
    let mut reached = Reached::default();
    let honest = how & 2 == 0;
    match how % 2 {
        0 => {
            // Some servers insist on the headers that they ask for.
            let insists = how & 8 != 0;
            let server = vnic::Server { backing_needs_headers: insists, ..vnic::Server::POWERVM };
            let config = vnic::Config {
                servers: [server; 2],
                unit_address: UNIT.into(),
                crq_vector: unit_interrupt(UNIT),
                first_vector: sub_crq_interrupts(UNIT),
                ..vnic::Config::POWERVM
            };
            let callbacks = DeviceCallbacks {
                queues: |d: &VnicServer, client, each| {
                    d.open_queues(client).for_each(|q| {
                        each(SendQueue { handle: q.handle, buffers: q.buffers, room: q.room });
                    });
                },
                has_waiting: VnicServer::has_waiting,
            };
            let mut d = VnicServer::new(config, 2);
            let outside = |d: &mut VnicServer, what: u8, at| match what % 4 {
                0 => d.fail_over(0, at),
                1 => d.migrate(0, at),
                2 => d.set_link(0, at, what & 4 != 0),
                _ => d.report_error(0, at, what.into(), what & 4 != 0),
            };
            let mut bench = Harness::new(VNIC, &mut d, &callbacks, honest);
            if how & 4 == 0 {
                bench.log_in();
                assert_eq!(bench.client.switched, 3, "interrupts are switched without the server");
                let handles: Vec<u64> = bench.d.open_queues(0).map(|q| q.handle).collect();
                assert_eq!(handles.len(), 2, "the script ends with a session that is up");
                let first = u64::from_be_bytes([first::VALID, desc::TX, 1, 1, 0, 0, 0, 0]);
                handles.iter().for_each(|h| bench.must(hcall::SEND_SUB_CRQ, &[*h, first, 0, 0, 0]));
                assert_eq!(bench.client.posted, 2, "whose queues can be posted to");
            }
            let ended = bench.d.counters.sessions_ended;
            let handles = |d: &VnicServer, n: u8| {
                let mut all = d.open_queues(0).map(|q| q.handle);
                all.nth(usize::from(n % 2)).unwrap_or(u64::from(n) << 32 | 0x7_0000)
            };
            let (refused, crossed) = bench.run(&mut u, outside, handles, &mut reached);
            reached.vnic = d.counters;
            if honest && !crossed && d.counters.sessions_ended == ended {
                assert_eq!(refused, 0, "what was posted is refused, and the session lives");
            }
        }
        _ => {
            let adapter = |i: usize| veth::Adapter {
                unit: UNIT.into(),
                vector: unit_interrupt(UNIT),
                tagged: if how & 8 != 0 { vec![5, 7] } else { vec![] },
                ..veth::Adapter::new(i, i as u8)
            };
            let mut config = Config::new(vec![adapter(0), adapter(1)]);
            config.uplink = Some(Uplink { port: 0, pvid: 1 });
            if how & 4 != 0 {
                // Long calls are cut.
                (config.slice, config.release) = (1024, 4);
            }
            let callbacks =
                DeviceCallbacks { queues: |_: &Veth, _, _| (), has_waiting: |_, _| false };
            let mut d = Veth::new(config);
            let bench = Harness::new(VETH, &mut d, &callbacks, honest);
            let (refused, _) = bench.run(&mut u, |_, _, _| (), |_, n| n.into(), &mut reached);
            reached.veth = *d.counters(0);
            assert!(refused == 0 || !honest);
        }
    }
    reached
}
