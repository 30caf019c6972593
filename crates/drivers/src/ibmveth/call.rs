//! The adapter's hypervisor calls, one function each.

use doorbell_hal::{Hcall, HcallReturn, Hypervisor};
use doorbell_layout::ibmveth::{self as l, ADD_BUFFERS, Descriptor, multicast, send, status};

/// Tries of a call that stays busy.
const TRIES: u32 = 1024;

fn call<H: Hypervisor>(h: &mut H, number: u64, a: &[u64]) -> HcallReturn {
    h.hcall(Hcall(number), a)
}

/// The addresses of an adapter's structures, and its MAC address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registration {
    pub(super) buffer_list: u32,
    pub(super) queue: Descriptor,
    pub(super) filter_list: u32,
    pub(super) mac: [u8; 6],
}

/// Opens the adapter. On failure closes it and retries once, because a previous owner (a boot
/// loader, a kernel that crashed) may have left it open.
pub(super) fn register<H: Hypervisor>(h: &mut H, unit: u32, r: &Registration) -> i64 {
    let a = [unit.into(), r.buffer_list.into(), r.queue.0, r.filter_list.into(), l::mac(r.mac)];
    match call(h, l::H_REGISTER_LOGICAL_LAN, &a).status {
        status::H_SUCCESS => status::H_SUCCESS,
        _ => {
            free(h, unit);
            call(h, l::H_REGISTER_LOGICAL_LAN, &a).status
        }
    }
}

/// Closes the adapter, retrying while the hypervisor is busy.
pub(super) fn free<H: Hypervisor>(h: &mut H, unit: u32) -> i64 {
    let mut s = status::H_BUSY;
    for _ in 0..TRIES {
        s = call(h, l::H_FREE_LOGICAL_LAN, &[unit.into()]).status;
        if s != status::H_BUSY {
            break;
        }
        h.relax();
    }
    s
}

pub(super) fn signal<H: Hypervisor>(h: &mut H, unit: u32, on: bool) -> i64 {
    call(h, l::H_VIO_SIGNAL, &[unit.into(), if on { l::SIGNAL_ON } else { l::SIGNAL_OFF }]).status
}

pub(super) fn add<H: Hypervisor>(h: &mut H, unit: u32, d: Descriptor) -> i64 {
    call(h, l::H_ADD_LOGICAL_LAN_BUFFER, &[unit.into(), d.0]).status
}

/// Lends several buffers. Invalid descriptors come last.
pub(super) fn add_many<H: Hypervisor>(h: &mut H, unit: u32, d: &[Descriptor; ADD_BUFFERS]) -> i64 {
    let mut a = [0; 1 + ADD_BUFFERS];
    a[0] = unit.into();
    for (to, d) in a[1..].iter_mut().zip(d) {
        *to = d.0;
    }
    call(h, l::H_ADD_LOGICAL_LAN_BUFFERS, &a).status
}

/// Descriptors of one frame.
pub(super) type Pieces = [Descriptor; send::MAX];

/// Sends, and retries with the correlator while the hypervisor is busy. `mss` is an argument only
/// where large send was negotiated. Returns the status and the number of retries.
pub(super) fn send<H: Hypervisor>(
    h: &mut H,
    unit: u32,
    d: &Pieces,
    mss: Option<u16>,
) -> (i64, u32) {
    let mut a = [0; send::LARGE];
    a[send::UNIT] = unit.into();
    for (to, d) in a[send::DESCRIPTORS..].iter_mut().zip(d) {
        *to = d.0;
    }
    let n = match mss {
        Some(mss) => {
            a[send::MSS] = mss.into();
            send::LARGE
        }
        None => send::PLAIN,
    };
    let mut again = 0;
    loop {
        let answer = call(h, l::H_SEND_LOGICAL_LAN, &a[..n]);
        if answer.status != status::H_BUSY || again == TRIES {
            return (answer.status, again);
        }
        a[send::CORRELATOR] = answer.ret[0];
        again += 1;
    }
}

/// Changes attributes, or with no bits reads them. Returns their new values.
pub(super) fn attributes<H: Hypervisor>(
    h: &mut H,
    unit: u32,
    reset: u64,
    set: u64,
) -> Result<u64, i64> {
    let answer = call(h, l::H_ILLAN_ATTRIBUTES, &[unit.into(), reset, set]);
    if answer.status == status::H_SUCCESS { Ok(answer.ret[0]) } else { Err(answer.status) }
}

pub(super) fn change_mac<H: Hypervisor>(h: &mut H, unit: u32, mac: [u8; 6]) -> i64 {
    call(h, l::H_CHANGE_LOGICAL_LAN_MAC, &[unit.into(), l::mac(mac)]).status
}

fn multicast_call<H: Hypervisor>(h: &mut H, unit: u32, command: u64, mac: u64) -> i64 {
    call(h, l::H_MULTICAST_CTRL, &[unit.into(), command, mac]).status
}
pub(super) fn all_multicast<H: Hypervisor>(h: &mut H, unit: u32) -> i64 {
    let receive = multicast::RECEIVE_MODIFY | multicast::RECEIVE_ENABLE;
    multicast_call(h, unit, receive | multicast::FILTER_MODIFY, 0)
}

/// Receives these groups; stops at the first refused call. The filter is off while its table
/// changes, so that no group is missed.
pub(super) fn some_multicast<H: Hypervisor>(h: &mut H, unit: u32, groups: &[[u8; 6]]) -> i64 {
    let receive = multicast::RECEIVE_MODIFY | multicast::RECEIVE_ENABLE;
    let mut s = multicast_call(h, unit, receive | multicast::FILTER_MODIFY | multicast::CLEAR, 0);
    for g in groups {
        if s != status::H_SUCCESS {
            return s;
        }
        s = multicast_call(h, unit, multicast::ADD, l::mac(*g));
    }
    if s != status::H_SUCCESS {
        return s;
    }
    multicast_call(h, unit, multicast::FILTER_MODIFY | multicast::FILTER_ENABLE, 0)
}
