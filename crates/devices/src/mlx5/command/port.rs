//! The port: its registers, its state, and the event of a change.
//!
//! The link is up when the driver wants it up (`PAOS`) and there is a carrier, which
//! is whoever owns the device to say ([`Mlx5::set_carrier`]). It does not come up by
//! the driver's word alone.

use super::{super::device::Mlx5, vport::WireCounters};
use super::{Answer, CmdStatus, Unknown, answer_prefix, check, input, tail};
use alloc::boxed::Box;
use doorbell_hal::{Port, Time};
use doorbell_layout::mlx5::command::{
    AccessReg, Paos, Pmlp, Pmtu, Ppcnt, Ptys, op, paos, ppcnt, ptys, register,
};
use doorbell_layout::mlx5::{event, port_change};
use doorbell_packet::ethernet::FCS;
use zerocopy::{FromBytes, IntoBytes, KnownLayout};

/// Requested state of the port, by the driver and from outside.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct PortState {
    pub(in super::super) admin_up: bool,
    /// Somebody is there.
    pub(in super::super) carrier: bool,
    /// `PMTU` administrative MTU, header and FCS included; `None`: all that the port can.
    mtu: Option<u32>,
}

impl Default for PortState {
    fn default() -> PortState {
        PortState { admin_up: true, carrier: true, mtu: None }
    }
}

impl PortState {
    pub(in super::super) fn is_up(&self) -> bool {
        self.admin_up && self.carrier
    }
}

const LANES: u32 = 4;

impl Mlx5 {
    /// Returns true if frames can leave and arrive.
    pub fn link_is_up(&self) -> bool {
        self.firmware.port.is_up()
    }

    /// Somebody is, or is no longer, at the other end of the wire.
    pub fn set_carrier<P: Port>(&mut self, p: &mut P, at: Time, there: bool) {
        self.change_port(p, at, |port| port.carrier = there);
    }

    /// Both directions follow the port.
    pub(in super::super) fn apply_port(&mut self) {
        let port = self.firmware.port;
        self.pipe.link_up = port.is_up();
        self.rx.port_up = port.is_up();
        self.rx.port_mtu = port.mtu.unwrap_or(self.cfg.max_frame + FCS as u32);
    }

    pub(super) fn change_port<P, F>(&mut self, p: &mut P, at: Time, change: F)
    where
        P: Port,
        F: FnOnce(&mut PortState),
    {
        let before = self.firmware.port.is_up();
        change(&mut self.firmware.port);
        let up = self.firmware.port.is_up();
        self.apply_port();
        if up != before {
            let sub = if up { port_change::ACTIVE } else { port_change::DOWN };
            self.asynchronous_event(p, at, (event::PORT_CHANGE, sub, &[(2, 1 << 28)]));
        }
    }

    pub(super) fn access_reg<P: Port>(
        &mut self,
        p: &mut P,
        at: Time,
        write: bool,
        bytes: &[u8],
        out: &mut [u8],
    ) -> Answer {
        let head = *input::<AccessReg>(bytes)?;
        let r = head.get(AccessReg::REGISTER) as u16;
        let data = tail(bytes, AccessReg::LEN);
        // The answer is what was asked with, where the register says nothing else.
        let mut content: Box<Content> = Box::new([0; 0x100]);
        let n = data.len().min(content.len());
        content[..n].copy_from_slice(&data[..n]);
        match r {
            register::PMLP => Mlx5::pmlp(&mut content)?,
            register::PMTU => self.pmtu(write, &mut content)?,
            register::PTYS => self.ptys(write, &mut content)?,
            register::PAOS => self.paos(p, at, write, &mut content)?,
            register::PPCNT => self.ppcnt(&mut content)?,
            // The host's byte order: what is said is taken.
            register::HOST_ENDIANNESS => {}
            // Flow control, buffers, FEC, cables, what management could do: nothing to say.
            register::PFCC
            | register::PBMC
            | register::PVLC
            | register::PPLM
            | register::PDDR
            | register::PCMR => {}
            register::PCAM | register::MCAM | register::MPCNT => {}
            _ => {
                self.firmware.remember(Unknown { opcode: op::ACCESS_REG, modifier: r });
                return Err(CmdStatus::BadParam);
            }
        }
        answer_prefix(out, 8, &head.0[8..]);
        answer_prefix(out, AccessReg::LEN, &content[..n]);
        Ok(())
    }

    fn pmlp(content: &mut Content) -> Answer {
        let m = register_in::<Pmlp>(content)?;
        *m = Pmlp::ZERO;
        m.set(Pmlp::PORT, 1).set(Pmlp::WIDTH, LANES);
        // Each lane of the module, in its place.
        for lane in 0..LANES as usize {
            let word = (lane as u32) << 16 | (lane as u32) << 8;
            content[4 + 4 * lane..8 + 4 * lane].copy_from_slice(&word.to_be_bytes());
        }
        Ok(())
    }

    fn pmtu(&mut self, write: bool, content: &mut Content) -> Answer {
        let max = self.cfg.max_frame + FCS as u32;
        let m = register_in::<Pmtu>(content)?;
        if write {
            let mtu = m.get(Pmtu::ADMIN);
            check((64..=max).contains(&mtu))?;
            self.firmware.port.mtu = Some(mtu);
            self.apply_port();
        }
        let mtu = self.rx.port_mtu;
        m.set(Pmtu::PORT, 1).set(Pmtu::MAX, max).set(Pmtu::ADMIN, mtu).set(Pmtu::OPER, mtu);
        Ok(())
    }

    /// There is one speed: what is asked for is noted nowhere.
    fn ptys(&self, write: bool, content: &mut Content) -> Answer {
        if write {
            return Ok(());
        }
        let oper = if self.firmware.port.is_up() { ptys::CR4_100G } else { 0 };
        let m = register_in::<Ptys>(content)?;
        m.set(Ptys::PORT, 1).set(Ptys::ETH_CAPABILITY, ptys::CR4_100G);
        m.set(Ptys::ETH_ADMIN, ptys::CR4_100G).set(Ptys::ETH_OPER, oper);
        Ok(())
    }

    fn paos<P: Port>(&mut self, p: &mut P, at: Time, write: bool, c: &mut Content) -> Answer {
        let m = register_in::<Paos>(c)?;
        if write {
            let up = match m.get(Paos::ADMIN) {
                paos::UP => true,
                paos::DOWN => false,
                _ => return Err(CmdStatus::BadParam),
            };
            self.change_port(p, at, |port| port.admin_up = up);
        }
        let status = |up| if up { paos::UP } else { paos::DOWN };
        let port = self.firmware.port;
        m.set(Paos::PORT, 1).set(Paos::ADMIN, status(port.admin_up));
        m.set(Paos::OPER, status(port.is_up()));
        Ok(())
    }

    /// Counters of the wire, in the groups that have any.
    fn ppcnt(&self, content: &mut Content) -> Answer {
        let group = input::<Ppcnt>(&content[..])?.get(Ppcnt::GROUP);
        // The port counts whatever came; `wire_counters` what was for somebody here.
        let w = WireCounters { rx: self.rx_wire, ..self.wire_counters() };
        let (tx, rx) = (w.tx.packets(), w.rx.packets());
        // The port counts what is on the wire, and so the FCS.
        let (tx_octets, rx_octets) =
            (w.tx.octets() + FCS as u64 * tx, w.rx.octets() + FCS as u64 * rx);
        let (tx_uni, tx_multi, tx_broad) = w.tx.frames();
        let (rx_uni, rx_multi, rx_broad) = w.rx.frames();
        let (tx_lost, rx_lost) = (w.tx_discards, w.rx_discards);
        let mut set = |all: &[u64]| {
            for (place, v) in content[8..].as_chunks_mut().0.iter_mut().zip(all) {
                *place = v.to_be_bytes();
            }
        };
        match group {
            // a_frames_transmitted_ok, a_frames_received_ok, FCS and alignment errors,
            // octets both ways, multicast and broadcast both ways.
            ppcnt::IEEE_802_3 => {
                set(&[tx, rx, 0, 0, tx_octets, rx_octets, tx_multi, tx_broad, rx_multi, rx_broad]);
            }
            // if_in_octets, ucast, discards, errors, unknown; if_out_octets, ucast,
            // discards, errors; then in multicast and broadcast, out likewise.
            ppcnt::RFC_2863 => {
                set(&[
                    rx_octets, rx_uni, rx_lost, 0, 0, tx_octets, tx_uni, tx_lost, 0, rx_multi,
                    rx_broad, tx_multi, tx_broad,
                ]);
            }
            // ether_stats_drop_events, octets, pkts, broadcast, multicast: received ones.
            ppcnt::RFC_2819 => set(&[rx_lost, rx_octets, rx, rx_broad, rx_multi]),
            _ => {}
        }
        Ok(())
    }
}

type Content = [u8; 0x100];

/// Returns a register that its contents begin with.
fn register_in<T>(content: &mut Content) -> Answer<&mut T>
where
    T: FromBytes + IntoBytes + KnownLayout,
{
    T::mut_from_prefix(content).map(|(t, _)| t).map_err(|_| CmdStatus::BadInputLength)
}
