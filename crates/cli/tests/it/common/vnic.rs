//! A vNIC guest of `doorbell serve vnic`: a plug-in and a driver's part, by hand.

use doorbell_host_io::shared::{Window, memfd};
use doorbell_hostile::hcalls::login_buffer;
use doorbell_layout::ibmvnic::well_formed;
use doorbell_layout::ibmvnic::{
    AddressLength, Capability, ChangeMac, ControlIpOffload, Login, LoginResponse, RequestMap, Tx,
    VersionExchange, cap, cmd, desc, first, hcall, link, status, tx,
};
use doorbell_papr_io::{Adapter, Answer, Handshake, LocalResult, MEMORY, message};
use doorbell_vfio_user::send_with_fds;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use zerocopy::byteorder::big_endian::{U16, U32, U64};

const PAGE: u64 = 4096;
const CRQ: u64 = PAGE;
const RINGS: u64 = 2 * PAGE;
const LOGIN: u64 = 4 * PAGE;
const ANSWER: u64 = 5 * PAGE;
const OFFLOADS: u64 = 6 * PAGE;
const DESCRIPTORS: u64 = 7 * PAGE;
const FRAME: u64 = 16 * PAGE;
const BYTES: usize = 1 << 20;
/// The command of the translation table.
const PUT_TCE: u64 = 0x20;
const READ_WRITE: u64 = 3;

/// A guest that has logged in with one queue of each direction, offloads on and its link up.
pub(crate) struct VnicGuest {
    _socket: UnixStream,
    adapter: Adapter,
    memory: Window,
    /// Entries of the CRQ that have been taken.
    taken: u64,
    /// Handle of the transmit queue.
    queue: u64,
}

impl VnicGuest {
    /// Connects and logs in.
    ///
    /// # Errors
    /// If the server refuses it, or a call or command fails.
    pub(crate) fn log_in(dir: &Path) -> io::Result<VnicGuest> {
        let socket = UnixStream::connect(dir.join("s"))?;
        let adapter = Handshake::send(&socket)?.finish(&socket, well_formed)?;
        let file = memfd(c"memory", BYTES as u64)?;
        let memory = Window::map(&file, 0, BYTES, true)?;
        send_with_fds(&socket, &message(MEMORY, BYTES as u64), &[file.as_fd()])?;
        let mut guest = VnicGuest { _socket: socket, adapter, memory, taken: 0, queue: 0 };
        for at in (0..BYTES as u64).step_by(PAGE as usize) {
            guest.must(PUT_TCE, &[at, at | READ_WRITE])?;
        }
        guest.open()?;
        Ok(guest)
    }

    fn open(&mut self) -> io::Result<()> {
        let w = U32::new;
        self.must(hcall::REG_CRQ, &[CRQ, PAGE])?;
        let mut m = [0; 16];
        (m[0], m[1]) = (first::HANDSHAKE, first::INIT);
        self.command(m)?;
        let (first, version) = (first::VALID, U16::new(1));
        let v =
            VersionExchange { first, cmd: cmd::VERSION_EXCHANGE, version, ..Default::default() };
        self.command(v.bytes())?;
        let (capability, number) = (U16::new(cap::REQ_TX_ENTRIES), U64::new(1024));
        let cmd = cmd::REQUEST_CAPABILITY;
        let c = Capability { first, cmd, capability, number, ..Default::default() };
        self.command(c.bytes())?;
        for n in 0..2 {
            self.must(hcall::REG_SUB_CRQ, &[RINGS + n * PAGE, PAGE])?;
        }
        self.write(LOGIN, &login_buffer(ANSWER as u32, PAGE as u32));
        let (ioba, len) = (w(LOGIN as u32), w(56));
        self.command(Login { first, cmd: cmd::LOGIN, reserved: [0; 6], ioba, len }.bytes())?;
        let answer: [u8; 36] = self.read(ANSWER);
        let handle = LoginResponse::of(answer).off_txsubm_subcrqs.get();
        self.queue = u64::from_be_bytes(self.read(ANSWER + u64::from(handle)));
        let want =
            ControlIpOffload { len: w(136), version: w(1), want: [1; 8], ..Default::default() };
        self.write(OFFLOADS, &want.bytes());
        let (ioba, len, cmd) = (w(OFFLOADS as u32), w(136), cmd::CONTROL_IP_OFFLOAD);
        self.command(AddressLength { first, cmd, ioba, len, ..Default::default() }.bytes())?;
        let (ioba, len, cmd) = (w(FRAME as u32), w(BYTES as u32 - FRAME as u32), cmd::REQUEST_MAP);
        let map = RequestMap { first, cmd, map_id: 1, ioba, len, ..Default::default() };
        self.command(map.bytes())?;
        let mut m = [0; 16];
        (m[0], m[1], m[2]) = (first, cmd::LOGICAL_LINK_STATE, link::UP);
        self.command(m).map(drop)
    }

    /// Makes a call, of which this is the status.
    fn call(&self, call: u64, a: &[u64]) -> io::Result<i64> {
        let mut all = [0; 9];
        all[0] = self.adapter.unit.into();
        all[1..=a.len()].copy_from_slice(a);
        match self.adapter.answer_locally(call, &all, || Some(&self.memory), |_| ()) {
            LocalResult::Answered(Answer::Status(done)) => Ok(done),
            LocalResult::Forward => {
                let gone = || io::Error::other("the server is gone");
                self.adapter.forward(0, call, &all).map(|done| done.status).ok_or_else(gone)
            }
            other => Err(io::Error::other(format!("call {call:#x}: {other:?}"))),
        }
    }

    /// Makes a call that must succeed.
    fn must(&self, call: u64, a: &[u64]) -> io::Result<()> {
        match self.call(call, a)? {
            status::SUCCESS => Ok(()),
            // It is registered, but its server is not ready.
            status::CLOSED if call == hcall::REG_CRQ => Ok(()),
            refused => Err(io::Error::other(format!("call {call:#x}: {refused}"))),
        }
    }

    /// Asks for another address. Returns the answer's code.
    ///
    /// # Errors
    /// If the server has gone.
    pub(crate) fn change_mac(&mut self, mac_addr: [u8; 6]) -> io::Result<u8> {
        let (first, cmd) = (first::VALID, cmd::CHANGE_MAC_ADDR);
        let m = ChangeMac { first, cmd, mac_addr, ..Default::default() };
        self.command(m.bytes()).map(|answer| answer[12])
    }

    /// Returns true if the server grants promiscuous reception.
    ///
    /// # Errors
    /// If the server has gone.
    pub(crate) fn may_be_promiscuous(&mut self) -> io::Result<bool> {
        let (first, cmd) = (first::VALID, cmd::QUERY_CAPABILITY);
        let capability = U16::new(cap::PROMISC_SUPPORTED);
        let m = Capability { first, cmd, capability, ..Default::default() };
        self.command(m.bytes()).map(|answer| Capability::of(answer).number.get() != 0)
    }

    /// Sends a command and waits for its answer.
    fn command(&mut self, m: [u8; 16]) -> io::Result<[u8; 16]> {
        let word = |b: &[u8]| b.iter().fold(0, |v, b| v << 8 | u64::from(*b));
        self.must(hcall::SEND_CRQ, &[word(&m[..8]), word(&m[8..])])?;
        let answers = if m[0] == first::HANDSHAKE { first::INIT_COMPLETE } else { m[1] | 0x80 };
        for _ in 0..1000 {
            let at = CRQ + self.taken % 256 * 16;
            let answer: [u8; 16] = self.read(at);
            if answer[0] == 0 {
                // The server writes at its next turn.
                std::thread::sleep(std::time::Duration::from_millis(1));
                continue;
            }
            self.write(at, &[0]);
            self.taken += 1;
            if (answer[0], answer[1]) == (m[0], answers) {
                return Ok(answer);
            }
        }
        Err(io::Error::other(format!("command {:#x} has no answer", m[1])))
    }

    fn read<const N: usize>(&self, at: u64) -> [u8; N] {
        let mut bytes = [0; N];
        assert!(self.memory.read(at as usize, &mut bytes));
        bytes
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        assert!(self.memory.write(at as usize, bytes));
    }

    /// Makes `n` calls, each with 16 large sends of 65,535 bytes, whether or not the queue takes
    /// them.
    ///
    /// # Errors
    /// If the server has gone.
    pub(crate) fn post_large_sends(&self, n: usize, mss: u16) -> io::Result<()> {
        let mut frame = vec![0; 65_535];
        let ip = [0x45, 0, 0xff, 0xf1, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let tcp = [0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0x10, 0, 0, 0, 0, 0];
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14..34].copy_from_slice(&ip);
        frame[34..54].copy_from_slice(&tcp);
        self.write(FRAME, &frame);
        let d = Tx {
            first: first::VALID,
            kind: desc::TX,
            n_crq_elem: 1,
            n_sge: 1,
            flags1: tx::LSO | tx::PROT_TCP | tx::PROT_IPV4,
            mss: U16::new(mss),
            dma_reg: U16::new(1),
            sge_len: U32::new(frame.len() as u32),
            ioba: U64::new(FRAME),
            ..Tx::default()
        };
        self.write(DESCRIPTORS, [d.bytes(); 16].as_flattened());
        let send = hcall::SEND_SUB_CRQ_INDIRECT;
        (0..n).try_for_each(|_| self.call(send, &[self.queue, DESCRIPTORS, 16]).map(drop))
    }
}
