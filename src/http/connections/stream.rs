//! A socket that passes on one request at a time: the next one only when the response to the last has been written.
//!
//! actix-http decodes all requests that it can read before it answers the first. It holds them and their responses in
//! memory, and keeps flags such as "the request was a HEAD" once for all of them. With this stream it never sees two
//! at once: further requests wait in a few KiB here, and then in the system's buffers.
//!
//! All timeouts are applied here, too: for a request's head, between requests, and for the client reading a response.
//! actix-http's own timers are off. Input that is not HTTP is answered here, and actix-http sees the end of the
//! stream. A TLS handshake happens within the first reads of the socket, so it has the time of the first head.
//!
//! actix-http keeps reading while a request is being answered, so it notices when the client disconnects. But it also
//! treats a client that has only shut down its sending side as disconnected. So the end of the stream is reported one
//! poll after it is seen: a response that is ready by then is still sent.

use std::borrow::Cow;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::Admission;
use super::alarm::Alarm;
use super::answer::Answer;
use super::bandwidth::Throttle;
use super::head::{Head, Request};
use super::input::Input;
use super::refusal::{NotTls, Refusal};

/// The longest head of a request, in bytes.
const LONGEST_HEAD: usize = 64 << 10;
/// How many bytes are read ahead while a request is being answered.
const AHEAD: usize = 4 << 10;
/// How long a client may go on sending after its last response.
const LINGER: Duration = Duration::from_secs(1);
/// How many bytes it may send in that time.
const MOST_UNREAD: usize = 1 << 20;

#[derive(Debug)]
pub(in crate::http) struct SequentialStream<S> {
    socket: S,
    admission: Admission,
    input: Input,
    phase: Phase,
    alarm: Alarm,
    throttle: Throttle,
    /// While waiting for a request: whether the alarm is set for the head timeout rather than the idle timeout.
    awaits_head: bool,
    /// Whether the client currently reads nothing.
    is_stalled: bool,
    /// Whether the present request is the last one on this connection.
    is_last: bool,
    end: End,
    waker: Option<Waker>,
}

/// The state of the request at the start of the input.
#[derive(Debug)]
enum Phase {
    /// Its head is incomplete.
    Waiting,
    /// This many bytes of its head have yet to be passed on.
    Handing(usize, Answer),
    /// It is being answered.
    Answering(Answer),
    /// This refusal is being written; the number of bytes written.
    Refusing(Vec<u8>, usize),
    /// There are no more requests.
    Over,
    /// The connection is being closed; the number of bytes received and discarded.
    Closing(usize),
}

/// Whether the end of the client's stream has been seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    NotSeen,
    Seen,
    /// Seen while a response was in progress; reported at the next poll unless the response is complete by then.
    Due,
}

impl<S> SequentialStream<S> {
    pub fn new(socket: S, admission: Admission) -> Self {
        let alarm = Alarm::at(Instant::now() + admission.limits().head);
        let throttle = admission.throttle();
        Self {
            socket,
            admission,
            input: Input::default(),
            phase: Phase::Waiting,
            alarm,
            throttle,
            awaits_head: true,
            is_stalled: false,
            is_last: false,
            end: End::NotSeen,
            waker: None,
        }
    }

    /// Closes the connection if the registry has evicted it. A request in progress is answered first, unless its
    /// client does not read the response.
    fn poll_eviction(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if !self.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            self.admission.connection.register_waker(context.waker());
            self.waker = Some(context.waker().clone());
        }
        if self.admission.connection.is_told_to_close() {
            match self.phase {
                Phase::Waiting => self.phase = Phase::Over,
                _ if self.is_stalled => {
                    return Err(io::Error::new(
                        ErrorKind::ConnectionAborted,
                        "closed to make room for a new connection",
                    ));
                }
                _ => self.is_last = true,
            }
        }
        Ok(())
    }

    fn begin(&mut self, request: Request) {
        self.admission.set_busy();
        self.alarm.clear();
        self.is_last |= request.is_last;
        self.phase = Phase::Handing(request.length, Answer::to(request.is_head));
    }

    /// Moves on to the next request after a response has been written.
    fn finish(&mut self, context: &mut Context<'_>) {
        self.input.skip_empty_lines();
        self.input.shrink();
        if self.end == End::Due {
            self.end = End::Seen;
        }
        let now = Instant::now();
        self.admission.set_idle(now);
        self.phase = if self.is_last { Phase::Over } else { Phase::Waiting };
        self.awaits_head = !self.input.is_empty();
        let limits = self.admission.limits();
        self.alarm.set(now + if self.awaits_head { limits.head } else { limits.idle });
        // Poll the alarm now so that it wakes the task: there may be no other poll before it is due. If there is
        // already something to do, wake the task now, since the socket may never do so.
        let is_due = self.alarm.is_due(context);
        if is_due || self.awaits_head || self.is_last || self.end != End::NotSeen {
            context.waker().wake_by_ref();
        }
    }

    fn refuse(&mut self, refusal: &Refusal) {
        self.admission.refused(refusal);
        self.is_last = true;
        self.alarm.set(Instant::now() + self.admission.limits().write);
        self.phase = Phase::Refusing(refusal.answer(), 0);
    }

    /// Applies the head and idle timeouts. Returns whether one has expired; if so, the phase has changed.
    fn times_out(&mut self, context: &mut Context<'_>) -> bool {
        if !self.awaits_head && !self.input.is_empty() {
            self.awaits_head = true;
            self.alarm.set(Instant::now() + self.admission.limits().head);
        }
        let is_due = self.alarm.is_due(context);
        if is_due && !self.input.is_empty() {
            self.refuse(&Refusal::Late);
        } else if is_due {
            let metrics = self.admission.metrics();
            let count = if self.awaits_head { &metrics.head_timeout } else { &metrics.idle_timeout };
            count.inc();
            self.phase = Phase::Over;
        }
        is_due
    }

    /// Takes note of bytes that the socket has accepted; returns whether they complete the response.
    fn wrote(&mut self, bytes: &[u8]) -> bool {
        self.reads_again();
        self.throttle.wrote(bytes.len());
        self.admission.metrics().sent.inc_by(bytes.len() as u64);
        let Phase::Answering(answer) = &mut self.phase else { return false };
        answer.wrote(bytes);
        answer.is_complete()
    }

    fn reads_again(&mut self) {
        if std::mem::take(&mut self.is_stalled) {
            self.admission.set_busy();
            self.alarm.clear();
        }
    }

    /// Waits for a client that reads nothing, until the write timeout.
    fn stalled<T>(&mut self, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if !std::mem::replace(&mut self.is_stalled, true) {
            let now = Instant::now();
            self.admission.set_stalled(now);
            self.alarm.set(now + self.admission.limits().write);
        }
        if self.alarm.is_due(context) {
            self.admission.metrics().write_timeout.inc();
            return Poll::Ready(Err(ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> SequentialStream<S> {
    /// Reads once from the socket, until at most `most` bytes are buffered. Pending if nothing has arrived, or (without
    /// a wake-up) if the buffer is full or the end was seen.
    fn fill(&mut self, context: &mut Context<'_>, most: usize) -> Poll<io::Result<()>> {
        if self.end != End::NotSeen || self.input.len() >= most {
            return Poll::Pending;
        }
        if ready!(self.input.poll_fill(&mut self.socket, context, most))? == 0 {
            self.end = End::Seen;
        }
        Poll::Ready(Ok(()))
    }

    /// Looks for the next request's head; ready when the phase has changed.
    fn poll_head(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match self.input.head() {
                Head::Complete(request) => self.begin(request),
                Head::Refused(refusal) => self.refuse(&refusal),
                Head::Partial if self.end != End::NotSeen => self.phase = Phase::Over,
                Head::Partial if self.input.len() >= LONGEST_HEAD => self.refuse(&Refusal::TooLarge),
                Head::Partial => match self.fill(context, LONGEST_HEAD) {
                    Poll::Ready(Ok(())) => continue,
                    Poll::Ready(Err(error)) => self.fail(error)?,
                    Poll::Pending if self.times_out(context) => {}
                    Poll::Pending => return Poll::Pending,
                },
            }
            return Poll::Ready(Ok(()));
        }
    }

    /// Ends a connection whose input cannot be read. `InvalidData` comes only from TLS: the client's fault.
    fn fail(&mut self, error: io::Error) -> io::Result<()> {
        let invalid = error.get_ref().filter(|_| error.kind() == ErrorKind::InvalidData);
        match invalid {
            Some(cause) if cause.is::<NotTls>() => {
                self.refuse(&Refusal::Malformed(Cow::Owned(cause.to_string())));
            }
            Some(cause) => {
                self.admission.failed_handshake(&format!("the TLS handshake failed: {cause}"));
                self.is_last = true;
                self.phase = Phase::Over;
            }
            None => return Err(error),
        }
        Ok(())
    }

    /// Watches for a disconnect while a request is being answered; ready when the client is gone.
    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Poll::Ready(filled) = self.fill(context, AHEAD) {
            filled?;
        }
        match self.end {
            End::NotSeen => Poll::Pending,
            End::Seen => {
                self.end = End::Due;
                context.waker().wake_by_ref();
                Poll::Pending
            }
            End::Due => Poll::Ready(Ok(())),
        }
    }

    /// Reads and discards what a client still sends after its last response: closing a socket with unread bytes
    /// resets the connection, and the client may lose the response.
    fn poll_linger(&mut self, context: &mut Context<'_>, unread: &mut usize) -> Poll<()> {
        let mut scrap = [0; 4096];
        loop {
            let mut room = ReadBuf::new(&mut scrap);
            match Pin::new(&mut self.socket).poll_read(context, &mut room) {
                Poll::Ready(Ok(())) if !room.filled().is_empty() && *unread < MOST_UNREAD => {
                    *unread += room.filled().len();
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => {
                    let is_sending = self.is_last || *unread > 0;
                    let is_patient = is_sending && !self.admission.connection.is_told_to_close();
                    let is_over = !is_patient || self.alarm.is_due(context);
                    return if is_over { Poll::Ready(()) } else { Poll::Pending };
                }
            }
        }
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
            match &mut this.phase {
                Phase::Waiting => ready!(this.poll_head(context))?,
                Phase::Handing(left, answer) => {
                    *left -= this.input.hand_on(*left, buffer);
                    if *left == 0 {
                        let answer = std::mem::replace(answer, Answer::to(false));
                        this.phase = Phase::Answering(answer);
                    }
                    return Poll::Ready(Ok(()));
                }
                Phase::Answering(_) => return this.poll_gone(context),
                Phase::Refusing(..) => ready!(this.poll_refusal(context))?,
                Phase::Over | Phase::Closing(_) => return Poll::Ready(Ok(())),
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> SequentialStream<S> {
    fn poll_refusal(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Phase::Refusing(text, at) = &mut self.phase {
            let written = match Pin::new(&mut self.socket).poll_write(context, &text[*at..]) {
                Poll::Ready(written) => written?,
                Poll::Pending if self.alarm.is_due(context) => 0,
                Poll::Pending => return Poll::Pending,
            };
            self.admission.metrics().sent.inc_by(written as u64);
            *at += written;
            if written == 0 || *at == text.len() {
                self.phase = Phase::Over;
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> SequentialStream<S> {
    /// Flushes the socket, which may have a buffer of its own, as TLS does. A response is complete only when
    /// it has been flushed.
    fn poll_sent(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.socket).poll_flush(context) {
            Poll::Ready(Ok(())) => {
                self.reads_again();
                if matches!(&self.phase, Phase::Answering(answer) if answer.is_complete()) {
                    self.finish(context);
                }
                Poll::Ready(Ok(()))
            }
            // The timeouts for a head and between requests apply.
            Poll::Pending if matches!(self.phase, Phase::Waiting) => Poll::Pending,
            Poll::Pending => self.stalled(context),
            failed => failed,
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for SequentialStream<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.poll_eviction(context)?;
        let waited = &this.admission.metrics().throttled;
        let most = ready!(this.throttle.poll_grant(bytes.len(), context, waited));
        match Pin::new(&mut this.socket).poll_write(context, &bytes[..most]) {
            Poll::Ready(Ok(written)) => {
                if this.wrote(&bytes[..written])
                    && let Poll::Ready(sent) = this.poll_sent(context)
                {
                    sent?;
                }
                Poll::Ready(Ok(written))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => this.stalled(context),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.poll_eviction(context)?;
        this.poll_sent(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.poll_eviction(context)?;
        let mut unread = match this.phase {
            Phase::Closing(unread) => unread,
            _ => {
                match Pin::new(&mut this.socket).poll_shutdown(context) {
                    Poll::Ready(ended) => ended?,
                    Poll::Pending => return this.stalled(context),
                }
                this.alarm.set(Instant::now() + LINGER);
                this.admission.set_idle(Instant::now());
                this.input.len()
            }
        };
        let is_over = this.end != End::NotSeen || this.poll_linger(context, &mut unread).is_ready();
        this.phase = Phase::Closing(unread);
        if is_over { Poll::Ready(Ok(())) } else { Poll::Pending }
    }
}
