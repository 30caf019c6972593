//! The command/response queue: handshake, commands and responses, and the server's events.
//!
//! Source: ibmvnic.c `init_crq_queue`, `ibmvnic_send_crq`, `ibmvnic_send_crq_init`,
//! `ibmvnic_handle_crq`, `ibmvnic_wait_for_completion`.
//!
//! One command at a time waits for its response; capability queries are all sent at once. Events
//! that come meanwhile are noted; those that end the session end the wait.

use super::ring::{Ring, coherent};
use super::{call, config::Config, stats::Stats};
use crate::{OpenError, Opened, common::both};
use doorbell_hal::{Coherent, Hypervisor, Span, Time, fail_if};
use doorbell_layout::ibmvnic::{
    CRQ_BYTES, ERROR_FATAL, ErrorIndication, LinkStateIndication, MESSAGE, Message, RESPONSE, cmd,
    first, rc, status,
};

/// Tries of INIT while the server is not up, with a pause between them.
const INITS: u32 = 100;
const INIT_PAUSE: Span = Span::from_ms(50);
/// The time within which servers answer.
const OVERDUE: Span = Span::from_ms(1);

/// Reason for a reset (`enum ibmvnic_reset_reason`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reset {
    Failover,
    Mobility,
    Fatal,
    NonFatal,
    Timeout,
    ChangeParam,
    PassiveInit,
}

/// Failure of a step of the bring-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The session ended; the bring-up must start again.
    Again,
    Error(OpenError),
}

/// The result of a step of the bring-up.
pub(super) type Step<T = ()> = Result<T, Fault>;

impl From<OpenError> for Fault {
    fn from(e: OpenError) -> Fault {
        Fault::Error(e)
    }
}

#[derive(Debug)]
pub(super) struct Control {
    /// The adapter's counters.
    pub(super) stats: Stats,
    unit: u64,
    crq: Ring<Message>,
    /// The [`SCRATCH`] bytes that messages point at.
    pub(super) scratch: Coherent,
    init_timeout: Span,
    command_timeout: Span,
    /// The session must be reset.
    pub(super) reset: Option<Reset>,
    /// A failover has begun; the other server has not yet sent INIT.
    pub(super) failover_pending: bool,
    /// The server has sent INIT.
    init: bool,
    /// The server has answered the driver's INIT.
    complete: bool,
    /// The link state, if the server has reported it.
    pub(super) link: Option<bool>,
}

/// Two pages: the longest login buffer, and its response.
pub(super) const SCRATCH: u32 = 2 * 4096;

impl Control {
    pub(super) fn allocate<H: Hypervisor>(h: &mut H, c: &Config) -> Opened<Control> {
        let crq = Ring::allocate(h, CRQ_BYTES as u32)?;
        let scratch = coherent(h, SCRATCH, 4096);
        let (crq, scratch) = both(crq, scratch, |crq| crq.release(h))?;
        Ok(Control {
            stats: Stats::default(),
            unit: c.unit,
            crq,
            scratch,
            init_timeout: c.init_timeout,
            command_timeout: c.command_timeout,
            reset: None,
            failover_pending: false,
            init: false,
            complete: false,
            link: None,
        })
    }

    pub(super) fn release<H: Hypervisor>(self, h: &mut H) {
        h.release_coherent(self.scratch);
        self.crq.release(h);
    }

    fn clear_events(&mut self) {
        (self.reset, self.failover_pending, self.init, self.complete, self.link) =
            (None, false, false, false, None);
    }

    /// Registers the CRQ. A server that is not up is not an error.
    pub(super) fn register<H: Hypervisor>(&mut self, h: &mut H) -> Step {
        let mut answer = status::RESOURCE;
        for _ in 0..2 {
            // A previous owner may have left it registered.
            call::free_crq(h, self.unit);
            self.crq.clear(h);
            self.clear_events();
            answer = call::register_crq(h, self.unit, self.crq.ioba());
            if answer != status::RESOURCE {
                break;
            }
        }
        if answer != status::SUCCESS && answer != status::CLOSED {
            return Err(OpenError::Call("H_REG_CRQ", answer).into());
        }
        call::signal(h, self.unit, true);
        Ok(())
    }

    /// Enables the CRQ after a migration; it continues where it was.
    pub(super) fn enable<H: Hypervisor>(&mut self, h: &mut H) -> Step {
        self.clear_events();
        match call::enable_crq(h, self.unit) {
            status::SUCCESS => Ok(()),
            e => Err(OpenError::Call("H_ENABLE_CRQ", e).into()),
        }
    }

    pub(super) fn close<H: Hypervisor>(&mut self, h: &mut H) {
        call::signal(h, self.unit, false);
        call::free_crq(h, self.unit);
        self.clear_events();
    }

    // ---- receive ----

    /// Takes the next message. Returns `Some(None)` for an event, which is noted.
    pub(super) fn next<H: Hypervisor>(&mut self, h: &mut H) -> Option<Option<Message>> {
        let m = self.crq.next(h)?;
        self.stats.messages += 1;
        match (m.first, m.cmd) {
            (first::HANDSHAKE, first::INIT) => self.init = true,
            (first::HANDSHAKE, first::INIT_COMPLETE) => self.complete = true,
            (first::TRANSPORT, first::MIGRATED) => {
                self.stats.migrations += 1;
                self.failover_pending = false;
                self.reset = Some(Reset::Mobility);
            }
            (first::TRANSPORT, first::FAILOVER) => {
                self.stats.failovers += 1;
                // The old server's messages are void.
                (self.failover_pending, self.init, self.complete) = (true, false, false);
                if self.reset != Some(Reset::Mobility) {
                    self.reset = None;
                }
            }
            (first::TRANSPORT, _) => self.reset = Some(Reset::Fatal),
            (first::VALID, cmd::LINK_STATE_INDICATION) => {
                let l = LinkStateIndication::of(m.bytes());
                self.link = Some(l.phys_link_state != 0 && l.logical_link_state != 0);
            }
            (first::VALID, cmd::ERROR_INDICATION) => {
                let fatal = ErrorIndication::of(m.bytes()).flags & ERROR_FATAL != 0;
                self.stats.errors += 1;
                self.stats.fatal_errors += u64::from(fatal);
                if fatal {
                    self.reset = Some(Reset::Fatal);
                } else if self.reset.is_none() {
                    self.reset = Some(Reset::NonFatal);
                }
            }
            (first::VALID, c) if c & RESPONSE != 0 => return Some(Some(m)),
            _ => {}
        }
        Some(None)
    }

    /// Handles all messages, between commands. Each of a second lap has an interrupt of its own.
    pub(super) fn drain<H: Hypervisor>(&mut self, h: &mut H) {
        for _ in 0..self.crq.lap() {
            let Some(m) = self.next(h) else { break };
            self.stats.stale_answers += u64::from(m.is_some());
        }
        // The other server is up, or this one has restarted.
        if core::mem::take(&mut self.init) {
            let why = if self.failover_pending { Reset::Failover } else { Reset::PassiveInit };
            self.failover_pending = false;
            self.reset.get_or_insert(why);
        }
    }

    fn over(&self) -> bool {
        self.failover_pending || self.init || self.reset.is_some_and(|r| r != Reset::NonFatal)
    }

    // ---- send ----

    pub(super) fn handshake<H: Hypervisor>(&mut self, h: &mut H) -> Step {
        (self.init, self.complete) = (false, false);
        for _ in 0..INITS {
            match call::send_crq(h, self.unit, handshake(first::INIT)) {
                status::SUCCESS => {
                    let limit = h.now() + self.init_timeout;
                    let came = self.await_init(h, limit)?;
                    return came.then_some(()).ok_or(OpenError::Timeout("INIT").into());
                }
                // The server is not up. It sends INIT when it is.
                status::CLOSED => {
                    self.stats.init_retries += 1;
                    let limit = h.now() + INIT_PAUSE;
                    if self.await_init(h, limit)? {
                        return Ok(());
                    }
                }
                e => return Err(OpenError::Call("H_SEND_CRQ", e).into()),
            }
        }
        Err(OpenError::Timeout("INIT").into())
    }

    /// Waits until the server has answered INIT, or has sent INIT and was answered. Returns false
    /// after `limit`, or a lap of other messages.
    fn await_init<H: Hypervisor>(&mut self, h: &mut H, limit: Time) -> Step<bool> {
        let begun = h.now();
        loop {
            let mut others = 0;
            while let Some(m) = self.next(h) {
                self.stats.stale_answers += u64::from(m.is_some());
                fail_if(self.reset.is_some(), Fault::Again)?;
                if core::mem::take(&mut self.init) {
                    self.failover_pending = false;
                    match call::send_crq(h, self.unit, handshake(first::INIT_COMPLETE)) {
                        status::SUCCESS => return Ok(true),
                        status::CLOSED => {}
                        e => return Err(OpenError::Call("H_SEND_CRQ", e).into()),
                    }
                }
                if core::mem::take(&mut self.complete) {
                    return Ok(true);
                }
                others += 1;
                if others == self.crq.lap() {
                    return Ok(false);
                }
            }
            if h.now() >= limit {
                return Ok(false);
            }
            pause(h, begun);
        }
    }

    pub(super) fn send<H: Hypervisor>(&mut self, h: &mut H, m: [u8; MESSAGE]) -> Step {
        self.stats.commands += 1;
        match call::send_crq(h, self.unit, m) {
            status::SUCCESS => Ok(()),
            status::CLOSED => {
                // An event gives the reason, now or soon.
                self.drain(h);
                self.reset.get_or_insert(Reset::Failover);
                Err(Fault::Again)
            }
            e => Err(OpenError::Call("H_SEND_CRQ", e).into()),
        }
    }

    /// Waits for the response to command `c`.
    pub(super) fn wait<H: Hypervisor>(&mut self, h: &mut H, c: u8) -> Step<Message> {
        let begun = h.now();
        let limit = begun + self.command_timeout;
        loop {
            let mut others = 0;
            while let Some(m) = self.next(h) {
                match m {
                    Some(m) if m.cmd == c | RESPONSE => return Ok(m),
                    Some(_) => self.stats.stale_answers += 1,
                    None if self.over() => {
                        if core::mem::take(&mut self.init) {
                            self.reset.get_or_insert(Reset::PassiveInit);
                        }
                        return Err(Fault::Again);
                    }
                    None => {}
                }
                others += 1;
                // Who floods the queue does not answer.
                fail_if(others == self.crq.lap(), OpenError::Timeout(name(c)))?;
            }
            if h.now() >= limit {
                return Err(OpenError::Timeout(name(c)).into());
            }
            pause(h, begun);
        }
    }

    /// Sends a command and waits for its response.
    pub(super) fn ask<H: Hypervisor>(&mut self, h: &mut H, m: [u8; MESSAGE]) -> Step<Message> {
        self.send(h, m)?;
        self.wait(h, m[1])
    }

    /// Sends a command, waits for its response, and checks that it reports success.
    pub(super) fn demand<H: Hypervisor>(&mut self, h: &mut H, m: [u8; MESSAGE]) -> Step<Message> {
        let answer = self.ask(h, m)?;
        match answer.rc.code {
            rc::SUCCESS => Ok(answer),
            code => Err(OpenError::Refused(name(m[1]), code).into()),
        }
    }
}

/// Pauses between two looks for a message that has been waited for since `begun`. One that is
/// overdue was lost, perhaps, and is looked for less often.
fn pause<H: Hypervisor>(h: &mut H, begun: Time) {
    let waited = h.now().since(begun);
    if waited < OVERDUE { h.relax() } else { h.delay(Span::from_ps(waited.ps() / 64)) }
}

fn handshake(command: u8) -> [u8; MESSAGE] {
    Message { first: first::HANDSHAKE, cmd: command, ..Message::default() }.bytes()
}

/// Returns a command without arguments.
pub(super) fn plain(c: u8) -> [u8; MESSAGE] {
    Message { first: first::VALID, cmd: c, ..Message::default() }.bytes()
}

/// Returns a command's name, for errors.
const fn name(c: u8) -> &'static str {
    match c {
        cmd::VERSION_EXCHANGE => "VERSION_EXCHANGE",
        cmd::QUERY_CAPABILITY => "QUERY_CAPABILITY",
        cmd::REQUEST_CAPABILITY => "REQUEST_CAPABILITY",
        cmd::LOGIN => "LOGIN",
        cmd::LOGICAL_LINK_STATE => "LOGICAL_LINK_STATE",
        cmd::REQUEST_STATISTICS => "REQUEST_STATISTICS",
        cmd::CHANGE_MAC_ADDR => "CHANGE_MAC_ADDR",
        cmd::MULTICAST_CTRL => "MULTICAST_CTRL",
        cmd::GET_VPD_SIZE => "GET_VPD_SIZE",
        cmd::GET_VPD => "GET_VPD",
        cmd::QUERY_IP_OFFLOAD => "QUERY_IP_OFFLOAD",
        cmd::CONTROL_IP_OFFLOAD => "CONTROL_IP_OFFLOAD",
        cmd::QUERY_MAP => "QUERY_MAP",
        cmd::REQUEST_MAP => "REQUEST_MAP",
        cmd::REQUEST_UNMAP => "REQUEST_UNMAP",
        _ => "a command",
    }
}
