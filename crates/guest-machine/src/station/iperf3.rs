//! A server of iperf3, with TCP in one direction and as many streams as a client wants.
//!
//! Each connection begins with a cookie of 37 bytes. The first with a new one is the control
//! connection: states of a byte each way, and two texts of JSON, each behind its length of 4 bytes
//! in network order. Source: iperf 3.12, src/iperf_api.h and the order of states in
//! src/iperf_server_api.c and src/iperf_client_api.c.

use super::connection;
use serde_json::{Value, json};
use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::tcp;

/// Its port.
const PORT: u16 = 5201;
/// Bytes of a cookie.
const COOKIE: usize = 37;
/// The longest text of a client.
const LONGEST: usize = 1 << 16;
/// The most streams of a test, and connections of any other kind.
pub(super) const MOST: usize = 128;

/// States, as they cross the control connection.
const TEST_START: u8 = 1;
const TEST_RUNNING: u8 = 2;
const TEST_END: u8 = 4;
const PARAM_EXCHANGE: u8 = 9;
const CREATE_STREAMS: u8 = 10;
const EXCHANGE_RESULTS: u8 = 13;
const DISPLAY_RESULTS: u8 = 14;
const ACCESS_DENIED: u8 = 0xff;

/// Events that the server waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Awaits {
    Parameters,
    Streams,
    End,
    Results,
    Close,
}

/// A test.
struct Test {
    control: SocketHandle,
    cookie: Vec<u8>,
    awaits: Awaits,
    /// Bytes that came on the control connection and were not read yet.
    said: Vec<u8>,
    /// The server sends.
    reverse: bool,
    /// Bytes that it sends in all.
    most: u64,
    parallel: usize,
    /// Streams with the bytes that crossed each.
    streams: Vec<(SocketHandle, u64)>,
}

/// The server.
pub(super) struct Server {
    listening: SocketHandle,
    /// Connections whose cookie has not come yet.
    fresh: Vec<SocketHandle>,
    test: Option<Test>,
}

fn listening(sockets: &mut SocketSet<'_>) -> SocketHandle {
    let mut socket = connection();
    // Refused for a port of 0 alone.
    let _ = socket.listen(PORT);
    sockets.add(socket)
}

fn socket<'s>(
    sockets: &'s mut SocketSet<'static>,
    of: SocketHandle,
) -> &'s mut tcp::Socket<'static> {
    sockets.get_mut(of)
}

/// Sends a state or a text, for which there is always room.
fn say(sockets: &mut SocketSet<'static>, to: SocketHandle, bytes: &[u8]) {
    // A connection that is closed meanwhile ends the test in the next step.
    let _ = socket(sockets, to).send_slice(bytes);
}

impl Server {
    pub(super) fn new(sockets: &mut SocketSet<'_>) -> Server {
        Server { listening: listening(sockets), fresh: Vec::new(), test: None }
    }

    /// Does all that there is to do. Returns true if it did something that TCP must see.
    pub(super) fn step(
        &mut self,
        sockets: &mut SocketSet<'static>,
        closing: &mut Vec<SocketHandle>,
    ) -> bool {
        let mut went = false;
        if !socket(sockets, self.listening).is_listening() {
            self.fresh.push(self.listening);
            self.listening = listening(sockets);
        }
        if self.fresh.len() > MOST {
            closing.push(self.fresh.remove(0));
        }
        for fresh in std::mem::take(&mut self.fresh) {
            let connection = socket(sockets, fresh);
            if connection.recv_queue() >= COOKIE {
                let mut cookie = vec![0; COOKIE];
                // As many are there.
                let _ = connection.recv_slice(&mut cookie);
                self.begin(sockets, closing, fresh, cookie);
                went = true;
            } else if connection.is_active() {
                self.fresh.push(fresh);
            } else {
                closing.push(fresh);
            }
        }
        let Some(test) = &mut self.test else { return went };
        match test.step(sockets) {
            Some(moved) => went | moved,
            None => {
                for of in [test.control].into_iter().chain(test.streams.iter().map(|s| s.0)) {
                    socket(sockets, of).close();
                    closing.push(of);
                }
                self.test = None;
                true
            }
        }
    }

    /// Handles the first bytes of a connection: a test's control, or one of its streams.
    fn begin(
        &mut self,
        sockets: &mut SocketSet<'static>,
        closing: &mut Vec<SocketHandle>,
        fresh: SocketHandle,
        cookie: Vec<u8>,
    ) {
        match &mut self.test {
            None => {
                say(sockets, fresh, &[PARAM_EXCHANGE]);
                self.test = Some(Test {
                    control: fresh,
                    cookie,
                    awaits: Awaits::Parameters,
                    said: Vec::new(),
                    reverse: false,
                    most: u64::MAX,
                    parallel: 1,
                    streams: Vec::new(),
                });
            }
            Some(test) if test.awaits == Awaits::Streams && test.cookie == cookie => {
                test.streams.push((fresh, 0));
            }
            // It has one client at a time.
            Some(_) => {
                say(sockets, fresh, &[ACCESS_DENIED]);
                socket(sockets, fresh).close();
                closing.push(fresh);
            }
        }
    }
}

impl Test {
    /// Goes on. Returns true if something was sent or read, and `None` at the end.
    fn step(&mut self, sockets: &mut SocketSet<'static>) -> Option<bool> {
        let mut went = self.stream(sockets);
        let control = socket(sockets, self.control);
        while control.can_recv() && self.said.len() < LONGEST {
            let said = &mut self.said;
            // It can receive.
            let _ = control.recv(|bytes| (bytes.len(), said.extend_from_slice(bytes)));
            went = true;
        }
        // The client has closed it, or lost it.
        if !control.may_recv() && self.said.is_empty() {
            return None;
        }
        went |= match self.awaits {
            Awaits::Parameters => match self.text()? {
                Some(text) => self.agree(sockets, &text)?,
                None => false,
            },
            Awaits::Streams if self.streams.len() == self.parallel => {
                say(sockets, self.control, &[TEST_START, TEST_RUNNING]);
                self.awaits = Awaits::End;
                true
            }
            Awaits::Streams => false,
            Awaits::End => {
                let ended = self.state() == Some(TEST_END);
                if ended {
                    say(sockets, self.control, &[EXCHANGE_RESULTS]);
                    self.awaits = Awaits::Results;
                }
                ended
            }
            Awaits::Results => match self.text()? {
                Some(text) => {
                    self.conclude(sockets, &text);
                    true
                }
                None => false,
            },
            // The client says that it is done.
            Awaits::Close => match self.state() {
                Some(_) => return None,
                None => false,
            },
        };
        Some(went)
    }

    /// Takes the next state that the client said.
    fn state(&mut self) -> Option<u8> {
        (!self.said.is_empty()).then(|| self.said.remove(0))
    }

    /// Takes the text that the client said, once it is whole. `None` if it is none.
    fn text(&mut self) -> Option<Option<Value>> {
        let Some((length, rest)) = self.said.split_first_chunk() else { return Some(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if length > LONGEST {
            return None;
        }
        let Some(text) = rest.get(..length) else { return Some(None) };
        let text = serde_json::from_slice(text).ok()?;
        self.said.drain(..4 + length);
        Some(Some(text))
    }

    /// Takes the client's parameters. `None` if there is no such test here.
    fn agree(&mut self, sockets: &mut SocketSet<'static>, text: &Value) -> Option<bool> {
        let is = |name: &str| text[name].as_bool() == Some(true);
        self.parallel = text["parallel"].as_u64().unwrap_or(1) as usize;
        self.reverse = is("reverse");
        // Without a number of bytes the client ends it after a time.
        self.most = text["num"].as_u64().filter(|n| *n > 0).unwrap_or(u64::MAX);
        if !is("tcp") || is("bidirectional") || !(1..=MOST).contains(&self.parallel) {
            say(sockets, self.control, &[ACCESS_DENIED]);
            return None;
        }
        say(sockets, self.control, &[CREATE_STREAMS]);
        self.awaits = Awaits::Streams;
        Some(true)
    }

    /// Moves data. Returns true if there was any.
    fn stream(&mut self, sockets: &mut SocketSet<'static>) -> bool {
        let sends = self.reverse && self.awaits == Awaits::End;
        let mut left = self.most.saturating_sub(self.streams.iter().map(|s| s.1).sum());
        let mut went = false;
        for (stream, bytes) in &mut self.streams {
            let connection = socket(sockets, *stream);
            while connection.can_recv() {
                // It can receive.
                *bytes += connection.recv(|data| (data.len(), data.len())).unwrap_or(0) as u64;
                went = true;
            }
            while sends && left > 0 && connection.can_send() {
                let sent = connection.send(|room| {
                    let len = room.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    room[..len].fill(0x5a);
                    (len, len)
                });
                let sent = sent.unwrap_or(0) as u64;
                (*bytes, left, went) = (*bytes + sent, left - sent, true);
            }
        }
        went
    }

    /// Answers the client's results with the server's, by the client's numbers of the streams.
    fn conclude(&mut self, sockets: &mut SocketSet<'static>, text: &Value) {
        let theirs = text["streams"].as_array().map_or(&[][..], Vec::as_slice);
        let streams = self.streams.iter().zip(theirs).map(|((stream, bytes), their)| {
            // What waits to be sent did not cross.
            let bytes = bytes - socket(sockets, *stream).send_queue() as u64;
            json!({
                "id": their["id"], "bytes": bytes, "retransmits": -1, "jitter": 0, "errors": 0,
                "packets": 0,
            })
        });
        let results = json!({
            "cpu_util_total": 0, "cpu_util_user": 0, "cpu_util_system": 0,
            "sender_has_retransmits": -1, "streams": streams.collect::<Vec<_>>(),
        });
        let results = results.to_string();
        let length = (results.len() as u32).to_be_bytes();
        say(sockets, self.control, &[&length, results.as_bytes(), &[DISPLAY_RESULTS]].concat());
        self.awaits = Awaits::Close;
    }
}
