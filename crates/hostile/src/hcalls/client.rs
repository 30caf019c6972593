//! A plug-in with its guest, on the plug-in's own code.

use doorbell_hal::{HcallReturn, Span, Time};
use doorbell_host_io::shared::{Window, memfd};
use doorbell_layout::ibmvnic::{hcall, well_formed};
use doorbell_papr_io::{
    Adapter, Answer, CALL_AREA_BYTES, Greeted, Guest, Handshake, LocalResult, MEMORY, Newcomer,
    Unit, message,
};
use doorbell_vfio_user::send_with_fds;
use std::{cell::Cell, fs::File, os::fd::AsFd, os::unix::net::UnixStream};

/// Bytes of the guest's memory that entries may name, and of the rest.
pub(super) const MAPPED: usize = 1 << 18;
pub(super) const REST: usize = 1 << 14;
pub(super) const CANARY: u8 = 0xa5;
pub(super) const UNIT: u32 = 0x3000_0003;
pub(super) const H_PUT_TCE: u64 = 0x20;
pub(super) const H_STUFF_TCE: u64 = 0x138;
pub(super) const H_PUT_TCE_INDIRECT: u64 = 0x13c;

/// A plug-in with its guest.
pub(super) struct Client {
    pub(super) call_area: Window,
    adapter: Adapter,
    pub(super) memory: Window,
    pub(super) socket: UnixStream,
    pub(super) raised: Cell<u64>,
    /// Mask changes, and sends, that the plug-in answered.
    pub(super) switched: u64,
    pub(super) posted: u64,
    /// A send was posted while another was forwarded: room may have been promised twice.
    pub(super) crossed: bool,
    pub(super) waiting: [bool; 8],
    pub(super) answers: u64,
    /// The last answer.
    pub(super) last: HcallReturn,
}

impl Client {
    /// Makes a call of a CPU. Returns true if the plug-in answered it.
    pub(super) fn call(&mut self, cpu: usize, call: u64, a: &[u64; 9]) -> bool {
        let raise = |_| self.raised.set(self.raised.get() + 1);
        match self.adapter.answer_locally(call, a, || Some(&self.memory), raise) {
            LocalResult::NotOurs => false,
            LocalResult::Answered(answer) => {
                let switch = call == hcall::VIO_SIGNAL || call == hcall::VIOCTL;
                let send = call == hcall::SEND_SUB_CRQ || call == hcall::SEND_SUB_CRQ_INDIRECT;
                if switch || send {
                    assert_eq!(answer, Answer::Status(0));
                }
                self.switched += u64::from(switch);
                self.posted += u64::from(send);
                self.crossed |= send && self.waiting.contains(&true);
                true
            }
            LocalResult::Forward => {
                self.waiting[cpu] |= self.adapter.begin_call(cpu, call, a);
                false
            }
        }
    }

    /// Takes all answers.
    pub(super) fn take_answers(&mut self) {
        for cpu in 0..self.waiting.len() {
            if let Some(answer) = self.adapter.take_answer(cpu) {
                self.last = answer;
                self.waiting[cpu] = false;
                self.answers += 1;
            }
        }
    }
}

/// Connects a guest as the plug-in does.
pub(super) fn connect(kind: u32) -> (Client, Guest) {
    let made = "there is memory for a test";
    let (socket, ours) = UnixStream::pair().expect(made);
    let handshake = Handshake::send(&socket).expect(made);
    let call_area = Window::map(&handshake.memory, 0, CALL_AREA_BYTES, true).expect(made);
    let newcomer = Newcomer::new(ours, Time::ZERO, Span::from_ms(1000)).expect(made);
    let Greeted::Guest(guest) = newcomer.greet(Time::ZERO, Unit { address: UNIT, kind }, false)
    else {
        panic!("it is one of ours");
    };
    let adapter = handshake.finish(&socket, well_formed).expect("the server knows it");
    let memory: File = memfd(c"memory", (MAPPED + REST) as u64).expect(made);
    send_with_fds(&socket, &message(MEMORY, (MAPPED + REST) as u64), &[memory.as_fd()])
        .expect(made);
    let memory = Window::map(&memory, 0, MAPPED + REST, true).expect(made);
    memory.write(MAPPED, &[CANARY; REST]);
    let (raised, waiting) = (Cell::new(0), [false; 8]);
    let client = Client {
        call_area,
        adapter,
        memory,
        socket,
        raised,
        switched: 0,
        posted: 0,
        crossed: false,
        waiting,
        answers: 0,
        last: HcallReturn::status(0),
    };
    (client, *guest)
}
