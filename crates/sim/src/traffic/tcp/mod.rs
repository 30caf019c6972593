//! Closed-loop traffic: bulk TCP and request-response, on both ends of a link.
//!
//! A connection is two [`Socket`]s, each with an [`App`]: the machine's in a [`Stack`] above its
//! driver (an [`Endpoint`](crate::napi::Endpoint)), the peer's in [`Hosts`] on the other end
//! of a [`Wired`](crate::link::Wired) device. They exchange real frames, and both ends check
//! them. The code is independent of the NIC.

mod app;
pub mod frame;
mod peer;
mod socket;
mod stack;
mod timers;

pub use app::{App, Client, Step};
pub use peer::{End, Hosts};
pub use socket::{Config, Counters, LargeSend, QUEUE_LIMIT, Segment, Socket};
pub use stack::{Connection, Counters as StackCounters, FRAGMENT, Offloads, Prices, Stack};

use frame::SocketAddress;

/// Port of the peer of connection 0. Connection `i` has the `i`-th port after it.
pub const PEER_PORT: u16 = 20_000;
/// Port of the machine.
pub const MACHINE_PORT: u16 = 5201;

/// Returns the addresses of connection `i`: the machine's, with `mac`, and its peer's.
pub fn stations(mac: [u8; 6], i: u16) -> (SocketAddress, SocketAddress) {
    let [hi, lo] = (i + 1).to_be_bytes();
    let machine = SocketAddress { mac, ip: [198, 18, 0, 1], port: MACHINE_PORT };
    let peer =
        SocketAddress { mac: [2, 0xdb, 0, 1, hi, lo], ip: [198, 19, hi, lo], port: PEER_PORT + i };
    (machine, peer)
}

/// Creates both ends of `connections` connections. `ends(i)` returns the socket settings and
/// applications of connection `i`, first the machine's, then the peer's. If `peer_opens`, the peer
/// opens the connections once it is started ([`Hosts::start`]).
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
        // Initial sequence numbers that wrap soon, to test the wrap.
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
