//! Login: which sub-CRQs the client reads completions from, and where it may send to.
//!
//! The buffer is parsed for what it is: offsets into itself, all of them checked. More queues
//! than the server has left is PARTIALSUCCESS: the session is not logged in, the client may request
//! capabilities again and log in with fewer.
//!
//! Handles are the session's: one that an earlier session gave stands for nothing.

use super::device::VnicServer;
use super::session::{Queues, RxQueue, TxQueue};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use doorbell_hal::{Iova, Port, Time, fail_if};
use doorbell_layout::ibmvnic::{Login, LoginBuffer, LoginResponse, MAX_COMPLETIONS, rc};
use zerocopy::byteorder::big_endian::U32;

/// Login buffers of more bytes are refused.
const MAX_LOGIN: usize = 16 << 10;
/// Offset of the arrays in the response: behind the header, on a multiple of 8.
const ARRAYS: usize = size_of::<LoginResponse>().next_multiple_of(8);
/// Versions of transmit descriptors that the server takes.
const TX_DESC_VERSIONS: [u8; 1] = [1];

/// `n` numbers of 64 bits at `offset` of `buffer`.
fn numbers(buffer: &[u8], n: U32, offset: U32) -> Option<Vec<u64>> {
    let start = offset.get() as usize;
    let end = start.checked_add((n.get() as usize).checked_mul(8)?)?;
    let (words, _) = buffer.get(start..end)?.as_chunks();
    Some(words.iter().map(|w| u64::from_be_bytes(*w)).collect())
}

/// Returns the number of strings in the client's data; `None` when they do not end inside.
fn client_data(mut data: &[u8]) -> Option<u32> {
    let mut n = 0;
    while let Some((&kind, rest)) = data.split_first() {
        if kind == 0 {
            break;
        }
        let (len, rest) = rest.split_first_chunk()?;
        data = rest.get(usize::from(u16::from_be_bytes(*len))..)?;
        n += 1;
    }
    Some(n)
}

impl VnicServer {
    /// Logs in. The code of the answer, if it is another than success, is the error.
    pub(super) fn login<P: Port>(
        &mut self,
        p: &mut P,
        client: usize,
        at: Time,
        l: Login,
    ) -> Result<(), u8> {
        let len = l.len.get() as usize;
        fail_if(!(size_of::<LoginBuffer>()..=MAX_LOGIN).contains(&len), rc::INVALID_LENGTH)?;
        let mut buffer = vec![0; len];
        if p.read(at, Iova(l.ioba.get().into()), &mut buffer).is_err() {
            self.counters.dma_faults += 1;
            return Err(rc::INVALID_IOBA);
        }
        let head = LoginBuffer::of(*buffer.first_chunk().ok_or(rc::INVALID_LENGTH)?);
        fail_if(head.len.get() as usize != len, rc::INVALID_LENGTH)?;
        fail_if(head.version.get() == 0, rc::PARAMETER)?;
        let list = |n, offset| numbers(&buffer, n, offset).ok_or(rc::PARAMETER);
        let tx = list(head.num_txcomp_subcrqs, head.off_txcomp_subcrqs)?;
        let rx = list(head.num_rxcomp_subcrqs, head.off_rxcomp_subcrqs)?;
        let data = head.client_data_offset.get() as usize;
        let end = data.checked_add(head.client_data_len.get() as usize);
        let data = end.and_then(|end| buffer.get(data..end));
        data.and_then(client_data).ok_or(rc::PARAMETER)?;

        let c = &mut self.clients[client];
        let (s, server) = (&mut c.session, &self.cfg.servers[c.active]);
        let all: Vec<u64> = tx.iter().chain(&rx).copied().collect();
        let registered = |n: &u64| {
            usize::try_from(*n).ok().and_then(|n| c.sub.get(n)).is_some_and(Option::is_some)
        };
        let twice = (0..all.len()).any(|i| all[..i].contains(&all[i]));
        if tx.len() as u64 != s.granted.tx_queues || rx.len() as u64 != s.granted.rx_queues {
            return Err(rc::PARAMETER);
        }
        fail_if(twice || !all.iter().all(registered), rc::PARAMETER)?;
        if s.granted.tx_queues.max(s.granted.rx_queues) > server.queues.min(c.queue_limit) {
            return Err(rc::PARTIAL_SUCCESS);
        }

        let (n_tx, n_rx) = (tx.len(), rx.len());
        let off_rx = ARRAYS + 8 * n_tx;
        let off_sizes = off_rx + 8 * n_rx;
        let off_versions = off_sizes + 8 * n_rx;
        let total = off_versions + TX_DESC_VERSIONS.len();
        fail_if((head.login_rsp_len.get() as usize) < total, rc::INVALID_LENGTH)?;
        let word = |n: usize| U32::new(n as u32);
        let response = LoginResponse {
            len: word(total),
            version: U32::new(1),
            num_txsubm_subcrqs: word(n_tx),
            off_txsubm_subcrqs: word(ARRAYS),
            num_rxadd_subcrqs: word(n_rx),
            off_rxadd_subcrqs: word(off_rx),
            off_rxadd_buff_size: word(off_sizes),
            num_supp_tx_desc: word(TX_DESC_VERSIONS.len()),
            off_supp_tx_desc: word(off_versions),
        };
        let mut bytes = response.bytes().to_vec();
        bytes.resize(ARRAYS, 0);
        bytes.extend((0..n_tx).flat_map(|i| s.tx_handle(i).to_be_bytes()));
        bytes.extend((0..n_rx).flat_map(|i| s.rx_handle(i).to_be_bytes()));
        bytes.extend((0..n_rx).flat_map(|_| s.buffer_size(server).to_be_bytes()));
        bytes.extend(TX_DESC_VERSIONS);
        let written = p.write(at, Iova(head.login_rsp_ioba.get().into()), &bytes);
        c.written = c.written.max(written.map_err(|_| rc::INVALID_IOBA)?);
        let tx_queue = |n: u64| TxQueue {
            ring: n as usize,
            outstanding: 0,
            done: Vec::with_capacity(MAX_COMPLETIONS),
        };
        let rx_queue = |n: u64| RxQueue { ring: n as usize, posted: VecDeque::new() };
        s.queues = Some(Queues {
            tx: tx.into_iter().map(tx_queue).collect(),
            rx: rx.into_iter().map(rx_queue).collect(),
        });
        Ok(())
    }
}
