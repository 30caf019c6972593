//! A hypervisor that records calls to a vNIC server and refuses some.

use doorbell_devices::vnic::VnicServer;
use doorbell_hal::{
    EventSource, Hcall, HcallDevice, HcallReturn, Port, Reply, RxVerdict, Span, Time,
};

/// A call: number, arguments, status, time.
pub type Call = (u64, [u64; 9], i64, Time);

/// A vNIC server with recorded calls and injected events.
#[derive(Debug)]
pub struct RecordingServer {
    /// The wrapped server.
    pub server: VnicServer,
    /// Recorded calls.
    pub calls: Vec<Call>,
    /// Calls are recorded.
    pub keep: bool,
    /// Refusals: call, value of one of its arguments, status, number of times.
    pub refuse: Vec<(u64, Option<u64>, i64, u32)>,
    /// A call, whose first occurrence limits the servers' queues to this number.
    pub limit_at: Option<(u64, u64)>,
    /// A call with an argument, before whose next occurrence this frame arrives. It is in memory
    /// when the call returns.
    pub frame_at: Option<(u64, u64, Vec<u8>)>,
}

impl RecordingServer {
    /// Wraps `server` and records calls.
    pub fn new(server: VnicServer) -> RecordingServer {
        RecordingServer {
            server,
            calls: vec![],
            keep: true,
            refuse: vec![],
            limit_at: None,
            frame_at: None,
        }
    }

    /// Returns the arguments of the recorded calls with this number.
    pub fn called(&self, number: u64) -> Vec<[u64; 9]> {
        self.calls.iter().filter(|c| c.0 == number).map(|c| c.1).collect()
    }
}

impl EventSource for RecordingServer {
    fn next_due(&self) -> Option<Time> {
        self.server.next_due()
    }
}

impl<P: Port> HcallDevice<P> for RecordingServer {
    fn hcall(&mut self, ports: &mut [P], from: usize, at: Time, c: Hcall, a: &[u64; 9]) -> Reply {
        if let Some((_, most)) = self.limit_at.take_if(|l| l.0 == c.0) {
            self.server.limit_queues(from, most);
        }
        let frame = self.frame_at.take_if(|f| f.0 == c.0 && a[1..].contains(&f.1));
        if let Some((_, _, frame)) = &frame {
            self.server.receive(ports, at, frame);
        }
        let refused = self
            .refuse
            .iter_mut()
            .find(|r| r.0 == c.0 && r.3 > 0 && r.1.is_none_or(|v| a[1..].contains(&v)));
        let mut answer = match refused {
            Some(r) => {
                r.3 -= 1;
                (HcallReturn::status(r.2), at)
            }
            None => self.server.hcall(ports, from, at, c, a),
        };
        if frame.is_some() {
            answer.1 += Span::from_us(1);
        }
        if self.keep {
            self.calls.push((c.0, *a, answer.0.status, at));
        }
        answer
    }
    fn receive(&mut self, ports: &mut [P], at: Time, frame: &[u8]) -> RxVerdict {
        self.server.receive(ports, at, frame)
    }
    fn advance(&mut self, ports: &mut [P], until: Time) {
        HcallDevice::<P>::advance(&mut self.server, ports, until);
    }
    fn reset(&mut self, ports: &mut [P], at: Time) {
        HcallDevice::<P>::reset(&mut self.server, ports, at);
    }
}
