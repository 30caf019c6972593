//! Closed-loop traffic: bulk TCP and request-response, on both ends of a link.
//!
//! Open-loop sources send what they are told; here what is sent follows from what comes back.
//! A connection is two [`Socket`]s, each with an [`App`]: the machine's in a [`Stack`] above its
//! driver (an [`Endpoint`](crate::sim::napi::Endpoint), scheduled by [`crate::sim::napi`]), the
//! peer's in [`Hosts`] on the other end of a [`Wired`](crate::sim::link::Wired) device. Between
//! them travel real frames, so that a capture can be read with any tool, and either end checks
//! them.
//!
//! No NIC is known here: a system gives its driver, its device and its prices.

mod app;
pub mod frame;
mod peer;
mod socket;
mod stack;
mod timers;

pub use app::{App, Client, Step};
pub use peer::{End, Hosts};
pub use socket::{Config, Counters, LargeSend, Segment, Socket};
pub use stack::{Connection, Counters as StackCounters, Offloads, Prices, Stack};

use frame::SocketAddress;

/// First port of the peers; connection `i` has the `i`-th after it.
pub const PEER_PORT: u16 = 20_000;
/// Port of the machine.
pub const MACHINE_PORT: u16 = 5201;

/// Addresses of connection `i`: the machine's, with `mac`, and a peer's of its own.
pub fn stations(mac: [u8; 6], i: u16) -> (SocketAddress, SocketAddress) {
    let [hi, lo] = (i + 1).to_be_bytes();
    let machine = SocketAddress { mac, ip: [198, 18, 0, 1], port: MACHINE_PORT };
    let peer =
        SocketAddress { mac: [2, 0xdb, 0, 1, hi, lo], ip: [198, 19, hi, lo], port: PEER_PORT + i };
    (machine, peer)
}

/// A machine's stack and the hosts on the other end for a number of connections.
/// `ends(i)` gives the socket settings and application of connection `i`, first the
/// machine's, then the peer's. The peer opens the connections if `peer_opens`, once it
/// has been started ([`Hosts::start`]).
pub fn pair(
    mac: [u8; 6],
    connections: u16,
    peer_opens: bool,
    mut ends: impl FnMut(u16) -> ((Config, App), (Config, App)),
) -> (Vec<Connection>, Hosts) {
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    for i in 0..connections {
        let (here, there) = stations(mac, i);
        let ((config, app), (peer_config, peer_app)) = ends(i);
        // Any numbers do; those that wrap soon find more.
        let (a, b) = (0xffff_0000u32.wrapping_add(u32::from(i) << 20), 0x1000_0000 + u32::from(i));
        let peer_config = Config { large_send: LargeSend::Off, ..peer_config };
        let (mine, other) = if peer_opens {
            (Socket::listen(config, a), Socket::connect(peer_config, b))
        } else {
            (Socket::connect(config, a), Socket::listen(peer_config, b))
        };
        ours.push(Connection::new(mine, app, here, there));
        theirs.push(End::new(other, peer_app, there, here));
    }
    (ours, Hosts::new(theirs))
}
