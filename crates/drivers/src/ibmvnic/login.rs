//! Login: passes the completion sub-CRQs to the server, and gets the handles to send to.
//!
//! Source: ibmvnic.c `send_login`, `vnic_add_client_data`, `handle_login_rsp`.
//!
//! The response finds its arrays by offsets, all of which are checked. Handles are opaque.

use super::control::{Control, SCRATCH, Step, plain};
use crate::OpenError;
use alloc::vec::Vec;
use doorbell_hal::{Coherent, Hypervisor, fail_if};
use doorbell_layout::ibmvnic::{Login, LoginBuffer, LoginResponse, VERSION, client_data, cmd, rc};
use zerocopy::byteorder::big_endian::{U32, U64};

/// Offset of the response: the scratch memory's second page.
const ANSWER: u32 = SCRATCH / 2;

#[derive(Debug, Default)]
pub(super) struct Handles {
    pub(super) tx: Vec<u64>,
    pub(super) rx: Vec<u64>,
    /// Bytes of a receive buffer of each receive queue.
    pub(super) sizes: Vec<u32>,
}

/// Logs in with these sub-CRQs. Returns `None` when the server has fewer queues than it granted.
pub(super) fn login<H: Hypervisor>(
    h: &mut H,
    k: &mut Control,
    tx: &[u64],
    rx: &[u64],
) -> Step<Option<Handles>> {
    let names = names();
    let off_rx = size_of::<LoginBuffer>() + 8 * tx.len();
    let off_names = off_rx + 8 * rx.len();
    let len = off_names + names.len();
    let word = |n: usize| U32::new(n as u32);
    let base = k.scratch.iova().0 as u32;
    let buffer = LoginBuffer {
        len: word(len),
        version: U32::new(VERSION.into()),
        num_txcomp_subcrqs: word(tx.len()),
        off_txcomp_subcrqs: word(size_of::<LoginBuffer>()),
        num_rxcomp_subcrqs: word(rx.len()),
        off_rxcomp_subcrqs: word(off_rx),
        login_rsp_ioba: U32::new(base + ANSWER),
        login_rsp_len: U32::new(SCRATCH - ANSWER),
        client_data_offset: word(off_names),
        client_data_len: word(names.len()),
    };
    h.store(&k.scratch, 0, buffer);
    for (i, n) in tx.iter().chain(rx).enumerate() {
        h.store(&k.scratch, (size_of::<LoginBuffer>() + 8 * i) as u32, U64::new(*n));
    }
    for (i, b) in names.iter().enumerate() {
        h.store(&k.scratch, (off_names + i) as u32, *b);
    }
    h.store(&k.scratch, ANSWER, LoginResponse::default());
    let m = Login { ioba: U32::new(base), len: word(len), ..Login::of(plain(cmd::LOGIN)) };
    let answer = k.ask(h, m.bytes())?;
    match answer.rc.code {
        rc::SUCCESS => {}
        rc::PARTIAL_SUCCESS => return Ok(None),
        code => return Err(OpenError::Refused("LOGIN", code).into()),
    }
    let r: LoginResponse = h.load(&k.scratch, ANSWER);
    let handles = Handles {
        tx: numbers(h, &k.scratch, r.num_txsubm_subcrqs, r.off_txsubm_subcrqs, tx.len())?,
        rx: numbers(h, &k.scratch, r.num_rxadd_subcrqs, r.off_rxadd_subcrqs, rx.len())?,
        sizes: numbers(h, &k.scratch, r.num_rxadd_subcrqs, r.off_rxadd_buff_size, rx.len())?
            .into_iter()
            .map(|n| u32::try_from(n).unwrap_or(0))
            .collect(),
    };
    // This driver has descriptors of version 1 only.
    let (versions, at) = (r.num_supp_tx_desc.get(), r.off_supp_tx_desc.get());
    let fits = at.checked_add(versions).is_some_and(|end| end <= SCRATCH - ANSWER);
    let known = fits && (0..versions).any(|i| h.load::<u8>(&k.scratch, ANSWER + at + i) == 1);
    if !known || handles.sizes.iter().any(|n| !(64..=128 << 10).contains(n)) {
        return Err(OpenError::Answer("LOGIN").into());
    }
    Ok(Some(handles))
}

/// Reads `n` 64-bit numbers of the response, which must be as many as were asked for.
fn numbers<H: Hypervisor>(
    h: &mut H,
    at: &Coherent,
    n: U32,
    offset: U32,
    asked: usize,
) -> Step<Vec<u64>> {
    let start = offset.get();
    let fits = start.checked_add(8 * asked as u32).is_some_and(|end| end <= SCRATCH - ANSWER);
    fail_if(n.get() as usize != asked || !fits, OpenError::Answer("LOGIN"))?;
    Ok((0..asked as u32).map(|i| h.load::<U64>(at, ANSWER + start + 8 * i).get()).collect())
}

/// Returns the client's names: type, length, string; type 0 ends them.
fn names() -> Vec<u8> {
    let mut all = Vec::new();
    for (kind, name) in
        [(client_data::OS, "Doorbell"), (client_data::NODE, "lab"), (client_data::NETDEV, "vnic0")]
    {
        all.push(kind);
        all.extend((name.len() as u16 + 1).to_be_bytes());
        all.extend(name.bytes());
        all.push(0);
    }
    all.push(0);
    all
}
