//! A socket that passes on one request at a time: the next one only when the response to the last
//! has been written.
//!
//! actix-http decodes all requests that it can read before it answers the first. It holds them and
//! their responses in memory, and keeps flags such as "the request was a HEAD" once for all of
//! them. With this stream it never sees two at once: further requests wait in a few KiB here, and
//! then in the system's buffers. The end of a head is found by its empty line, the end of a
//! response by [`Exchange`].
//!
//! All timeouts are applied here, too: for a request's head, between requests, and for the client
//! reading a response. actix-http's own timers are off. Where actix-http answers a head that it
//! cannot parse, which has no headers of ours, the stream writes a [`Refusal`] instead and fails. A
//! TLS handshake happens within the first reads of the socket, so it has the time of the first
//! head.
//!
//! actix-http keeps reading while a request is being answered, so it notices when the client
//! disconnects. But it also treats a client that has only shut down its sending side as
//! disconnected. So the end of the stream is reported one poll after it is seen: a response that is
//! ready by then is still sent.

use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use memchr::memchr;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::bandwidth::Throttle;
use super::exchange::{Exchange, Stage};
use super::refusal::{NotTls, Refusal, TLS_HANDSHAKE};
use super::{Activity, Admission};

/// The longest head of a request, in bytes.
const LONGEST_HEAD: usize = 64 << 10;
/// How many bytes are read ahead.
const AHEAD: usize = 4 << 10;
/// How long a client may go on sending after its last response.
const LINGER: Duration = Duration::from_secs(1);
/// How many bytes it may send in that time.
const MAX_UNREAD: usize = 1 << 20;

#[derive(Debug)]
pub(in crate::http) struct SequentialStream<S> {
    socket: S,
    admission: Admission,
    exchange: Exchange,
    /// Received and not passed on.
    input: Vec<u8>,
    head: Head,
    phase: Phase,
    /// When the one timeout that applies ends, if any; see [`Self::poll_deadline`].
    deadline: Instant,
    timer: Pin<Box<Sleep>>,
    throttle: Throttle,
    /// While waiting for a request: whether the deadline is that of the head timeout rather than of
    /// the idle timeout.
    awaits_head: bool,
    /// Whether the client currently reads nothing.
    is_stalled: bool,
    /// Whether the present request is the last one on this connection.
    is_last: bool,
    /// Whether the client has ended its side.
    is_ended: bool,
}

#[derive(Debug)]
enum Phase {
    /// The head of a request is incomplete.
    Receiving,
    /// The request is being answered. The end of the client's stream is reported at the poll after
    /// it was seen.
    Answering { is_end_seen: bool },
    /// The rest of this refusal is being written.
    Refusing(Bytes),
    /// There are no more requests.
    Over,
    /// The connection is being closed; the number of bytes received and discarded.
    Closing(usize),
}

/// What has been passed on of the head of a request.
#[derive(Debug, Default)]
struct Head {
    length: usize,
    is_at_line_start: bool,
    is_tls: bool,
}

impl Head {
    /// How many of these bytes belong to the head, and whether it ends with them: after an empty
    /// line.
    fn extend(&mut self, bytes: &[u8]) -> (usize, bool) {
        self.is_tls |= self.length == 0 && bytes.first() == Some(&TLS_HANDSHAKE);
        let (mut length, mut is_complete) = (0, false);
        while length < bytes.len() && !is_complete {
            let newline = memchr(b'\n', &bytes[length..]);
            let line = &bytes[length..newline.map_or(bytes.len(), |at| length + at)];
            let is_empty = self.is_at_line_start && line.iter().all(|byte| *byte == b'\r');
            self.is_at_line_start = is_empty || newline.is_some();
            is_complete = is_empty && newline.is_some();
            length += line.len() + usize::from(newline.is_some());
        }
        self.length += length;
        (length, is_complete)
    }
}

impl<S> SequentialStream<S> {
    pub fn new(socket: S, admission: Admission) -> Self {
        let deadline = Instant::now() + admission.all.limits.head;
        let throttle = admission
            .all
            .bandwidth
            .throttle(admission.connection.client);
        Self {
            socket,
            admission,
            exchange: Exchange::default(),
            input: Vec::new(),
            head: Head::default(),
            phase: Phase::Receiving,
            deadline,
            timer: Box::pin(sleep_until(deadline)),
            throttle,
            awaits_head: true,
            is_stalled: false,
            is_last: false,
            is_ended: false,
        }
    }

    /// To be attached to the requests of this connection.
    pub fn exchange(&self) -> Exchange {
        self.exchange.clone()
    }

    fn set_deadline(&mut self, timeout: Duration) {
        self.deadline = Instant::now() + timeout;
    }

    /// Ready at the deadline. The timer may be set for an earlier time, and is set again when that
    /// comes: each request moves the deadline, and setting a timer is slow.
    fn poll_deadline(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.timer.deadline() > self.deadline {
            self.timer.as_mut().reset(self.deadline);
        }
        loop {
            ready!(self.timer.as_mut().poll(context));
            if self.timer.deadline() == self.deadline {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(self.deadline);
        }
    }

    /// Closes the connection if it has been evicted. A request in progress is answered first,
    /// unless its client does not read the response.
    fn poll_eviction(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if self.admission.is_evicted(context.waker()) {
            match self.phase {
                Phase::Receiving => self.phase = Phase::Over,
                _ if self.is_stalled => {
                    let reason = "closed to make room for a new connection";
                    return Err(io::Error::new(ErrorKind::ConnectionAborted, reason));
                }
                _ => self.is_last = true,
            }
        }
        Ok(())
    }

    /// Passes on bytes of the head.
    fn pass_on(&mut self, buffer: &mut ReadBuf<'_>) {
        let most = self.input.len().min(buffer.remaining());
        let (length, is_complete) = self.head.extend(&self.input[..most]);
        if self.head.length > LONGEST_HEAD {
            return self.refuse(Refusal::TooLarge);
        }
        buffer.put_slice(&self.input[..length]);
        self.input.drain(..length);
        if is_complete {
            self.admission.set_activity(Activity::Busy);
            self.phase = Phase::Answering { is_end_seen: false };
        } else if !std::mem::replace(&mut self.awaits_head, true) {
            self.set_deadline(self.admission.all.limits.head);
        }
    }

    /// Ends a connection on which the next head has not arrived in time.
    fn time_out(&mut self) {
        if self.head.length > 0 {
            return self.refuse(Refusal::Late);
        }
        let metrics = &self.admission.all.metrics;
        let count = if self.awaits_head {
            &metrics.head_timeout
        } else {
            &metrics.idle_timeout
        };
        count.inc();
        self.phase = Phase::Over;
    }

    fn refuse(&mut self, refusal: Refusal) {
        self.admission.count_refusal(refusal);
        self.is_last = true;
        self.phase = Phase::Refusing(refusal.response());
    }

    /// Ends a connection whose input cannot be read. `InvalidData` comes only from TLS: the
    /// client's fault.
    fn fail(&mut self, error: io::Error) -> io::Result<()> {
        match error
            .get_ref()
            .filter(|_| error.kind() == ErrorKind::InvalidData)
        {
            Some(cause) if cause.is::<NotTls>() => self.refuse(Refusal::NotTls),
            Some(cause) => {
                self.admission
                    .count_failed_handshake(&format!("the TLS handshake failed: {cause}"));
                self.is_last = true;
                self.phase = Phase::Over;
            }
            None => return Err(error),
        }
        Ok(())
    }

    /// Waits for a client that reads nothing, until the write timeout.
    fn poll_stalled<T>(&mut self, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if !std::mem::replace(&mut self.is_stalled, true) {
            self.admission
                .set_activity(Activity::Stalled(Instant::now()));
            self.set_deadline(self.admission.all.limits.write);
        }
        ready!(self.poll_deadline(context));
        self.admission.all.metrics.write_timeout.inc();
        Poll::Ready(Err(ErrorKind::TimedOut.into()))
    }

    fn reads_again(&mut self) {
        if std::mem::take(&mut self.is_stalled) {
            self.admission.set_activity(Activity::Busy);
        }
    }
}

impl<S: AsyncRead + Unpin> SequentialStream<S> {
    /// Reads once from the socket. Pending (without a wake-up) if the input is full or the client
    /// has ended its side.
    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_ended || self.input.len() == AHEAD {
            return Poll::Pending;
        }
        let mut space = [MaybeUninit::uninit(); AHEAD];
        let mut received = ReadBuf::uninit(&mut space[self.input.len()..]);
        ready!(Pin::new(&mut self.socket).poll_read(context, &mut received))?;
        self.is_ended = received.filled().is_empty();
        self.input.extend_from_slice(received.filled());
        Poll::Ready(Ok(()))
    }

    /// Moves on to the next request after a response has been written.
    fn finish(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        self.phase = if self.is_last {
            Phase::Over
        } else {
            Phase::Receiving
        };
        self.exchange.set(Stage::Unanswered);
        self.head = Head::default();
        self.awaits_head = false;
        let now = Instant::now();
        self.admission.set_activity(Activity::Idle(now));
        self.deadline = now + self.admission.all.limits.idle;
        // actix-http has read before it wrote: have it read again, unless there is nothing yet to
        // be read.
        let is_waiting = !self.is_last
            && self.input.is_empty()
            && self.poll_receive(context)?.is_pending()
            && !self.is_ended
            && self.poll_deadline(context).is_pending();
        if !is_waiting {
            context.waker().wake_by_ref();
        }
        Ok(())
    }

    /// Waits for bytes of a head and passes them on; also ready when the phase has changed.
    fn poll_head(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if self.head.length == 0 {
                // A client may send empty lines before a request (RFC 9112, section 2.2).
                let empty = self
                    .input
                    .iter()
                    .take_while(|byte| matches!(byte, b'\r' | b'\n'))
                    .count();
                self.input.drain(..empty);
            }
            if !self.input.is_empty() {
                self.pass_on(buffer);
                return Poll::Ready(Ok(()));
            }
            match self.poll_receive(context) {
                Poll::Ready(Ok(())) => continue,
                Poll::Ready(Err(error)) => self.fail(error)?,
                Poll::Pending if self.is_ended => self.phase = Phase::Over,
                Poll::Pending if self.poll_deadline(context).is_ready() => self.time_out(),
                Poll::Pending => return Poll::Pending,
            }
            return Poll::Ready(Ok(()));
        }
    }

    /// Watches for a disconnect while a request is being answered; ready when the client is gone.
    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Poll::Ready(received) = self.poll_receive(context) {
            received?;
        }
        match &mut self.phase {
            Phase::Answering { is_end_seen } if self.is_ended => {
                if std::mem::replace(is_end_seen, true) {
                    return Poll::Ready(Ok(()));
                }
                context.waker().wake_by_ref();
                Poll::Pending
            }
            _ => Poll::Pending,
        }
    }

    /// Reads and discards what a client still sends after its last response: closing a socket with
    /// unread bytes resets the connection, and the client may lose the response.
    fn poll_linger(&mut self, context: &mut Context<'_>, mut unread: usize) -> Poll<()> {
        let is_over = loop {
            unread += self.input.len();
            self.input.clear();
            match self.poll_receive(context) {
                Poll::Ready(Ok(())) if unread < MAX_UNREAD => {}
                Poll::Ready(_) => break true,
                Poll::Pending => {
                    let is_sending = self.is_last || unread > 0;
                    let is_patient = is_sending && !self.admission.is_evicted(context.waker());
                    break self.is_ended || !is_patient || self.poll_deadline(context).is_ready();
                }
            }
        };
        self.phase = Phase::Closing(unread);
        if is_over {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> SequentialStream<S> {
    fn poll_close(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let unread = match self.phase {
            Phase::Closing(unread) => unread,
            _ => {
                match Pin::new(&mut self.socket).poll_shutdown(context) {
                    Poll::Ready(ended) => ended?,
                    Poll::Pending => return self.poll_stalled(context),
                }
                self.set_deadline(LINGER);
                self.admission.set_activity(Activity::Idle(Instant::now()));
                0
            }
        };
        self.poll_linger(context, unread).map(Ok)
    }

    /// Writes a refusal and closes the connection; then fails, so that actix-http does nothing more
    /// with it.
    fn poll_refusal<T>(&mut self, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        while let Phase::Refusing(rest) = &mut self.phase
            && rest.has_remaining()
        {
            match Pin::new(&mut self.socket).poll_write(context, rest) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(written)) => {
                    rest.advance(written);
                    self.reads_again();
                    self.admission.all.metrics.sent.inc_by(written as u64);
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return self.poll_stalled(context),
            }
        }
        ready!(self.poll_close(context))?;
        Poll::Ready(Err(ErrorKind::ConnectionAborted.into()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for SequentialStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.poll_eviction(context)?;
        loop {
            match this.phase {
                Phase::Receiving => ready!(this.poll_head(context, buffer))?,
                Phase::Answering { .. } => return this.poll_gone(context),
                Phase::Refusing(_) | Phase::Closing(_) => return this.poll_refusal(context),
                Phase::Over => return Poll::Ready(Ok(())),
            }
            if !buffer.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for SequentialStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.poll_eviction(context)?;
        if matches!(this.phase, Phase::Refusing(_) | Phase::Closing(_)) {
            return this.poll_refusal(context);
        }
        if this.exchange.stage() == Stage::Unanswered {
            // actix-http could not parse the head. Its status line is the one thing that says why.
            let is_too_large = bytes
                .get("HTTP/1.1 ".len()..)
                .is_some_and(|rest| rest.starts_with(b"431"));
            this.refuse(match (this.head.is_tls, is_too_large) {
                (true, _) => Refusal::Tls,
                (false, true) => Refusal::TooLarge,
                (false, false) => Refusal::Malformed,
            });
            return this.poll_refusal(context);
        }
        let waited = &this.admission.all.metrics.throttled;
        let most = ready!(this.throttle.poll_grant(bytes.len(), context, waited));
        match Pin::new(&mut this.socket).poll_write(context, &bytes[..most]) {
            Poll::Ready(Ok(written)) => {
                this.reads_again();
                this.throttle.wrote(written);
                this.admission.all.metrics.sent.inc_by(written as u64);
                Poll::Ready(Ok(written))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => this.poll_stalled(context),
        }
    }

    /// Flushes the socket, which may have a buffer of its own, as TLS does. actix-http calls this
    /// when the socket has accepted all that it has to write.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.poll_eviction(context)?;
        match Pin::new(&mut this.socket).poll_flush(context) {
            Poll::Ready(Ok(())) => {
                this.reads_again();
                if let Stage::Answered { is_last } = this.exchange.stage() {
                    this.is_last |= is_last;
                    this.finish(context)?;
                }
                Poll::Ready(Ok(()))
            }
            // The timeouts for a head and between requests apply.
            Poll::Pending if matches!(this.phase, Phase::Receiving) => Poll::Pending,
            Poll::Pending => this.poll_stalled(context),
            failed => failed,
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.poll_eviction(context)?;
        this.poll_close(context)
    }
}
