//! A socket that passes on one request at a time: the next one only when the response to the last
//! has been written.
//!
//! actix-http decodes all requests that it can read before it answers the first. It holds them and
//! their responses in memory (4 KiB for each request of 28 bytes), and has one flag such as "the
//! request was a HEAD" for all of them. With this stream it never sees two requests at once: later
//! ones wait in a few KiB here, and beyond that in the system's buffers. The stream finds the end
//! of a head by its empty line, and the end of a response by [`ResponseProgress`].
//!
//! actix-http limits the time of the first head of a connection, but not that of later heads. So
//! its timers are off, and this stream limits the time of each head and the time between requests.
//!
//! actix-http keeps reading while a request is being answered, so it notices when the client
//! disconnects. But it also treats a client that has only shut down its sending side as
//! disconnected. So the end of the stream is reported one poll after it is seen: a response that is
//! ready by then is still sent.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use memchr::memchr;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::progress::{AnswerStage, ResponseProgress};
use super::{ConnectionTimeouts, OpenConnection};

/// The maximum number of received bytes that wait here to be passed on.
const MAX_AHEAD: usize = 4 << 10;
/// How long a client may go on sending after the last response of its connection.
const LINGER: Duration = Duration::from_secs(1);
/// The maximum number of bytes that a client may send after that response.
const MAX_UNREAD: usize = 1 << 20;
/// The answer to a request whose head is not complete in time.
const TIMEOUT_ANSWER: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

#[derive(Debug)]
pub(in crate::http) struct SequentialStream<S> {
    socket: S,
    progress: ResponseProgress,
    /// The bytes that were received and have not been passed on.
    input: Vec<u8>,
    head: HeadProgress,
    phase: RequestPhase,
    timeouts: ConnectionTimeouts,
    /// When the timeout of the present phase ends; see [`Self::poll_deadline`].
    deadline: Instant,
    timer: Pin<Box<Sleep>>,
    /// Whether the present request is the last one on this connection.
    is_last: bool,
    /// Whether the client has ended its side: it will send nothing more.
    is_ended: bool,
    _open: OpenConnection,
}

#[derive(Debug)]
enum RequestPhase {
    /// The head of a request is incomplete.
    Receiving,
    /// The request is being answered. The end of the client's stream is reported to actix-http one
    /// poll after it is seen.
    Answering { is_end_seen: bool },
    /// There are no more requests.
    Over,
    /// The connection is being closed; the number of bytes that were received and discarded
    /// meanwhile.
    Closing(usize),
}

/// The part of a request's head that has been passed on.
#[derive(Debug, Default)]
struct HeadProgress {
    /// In bytes.
    length: usize,
    /// Whether the present line is not the first, and has no bytes but `\r` so far: a newline would
    /// then end the head.
    is_at_line_start: bool,
}

impl HeadProgress {
    /// Adds bytes up to the empty line that ends the head. Returns the number of bytes added, and
    /// whether the head is complete.
    fn extend(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut length = 0;
        let mut is_complete = false;
        while length < bytes.len() && !is_complete {
            let rest = &bytes[length..];
            let newline = memchr(b'\n', rest);
            let line = &rest[..newline.unwrap_or(rest.len())];
            let has_newline = newline.is_some();
            let is_empty = self.is_at_line_start && line.iter().all(|byte| *byte == b'\r');
            self.is_at_line_start = is_empty || has_newline;
            is_complete = is_empty && has_newline;
            length += line.len() + usize::from(has_newline);
        }
        self.length += length;
        (length, is_complete)
    }
}

impl<S> SequentialStream<S> {
    pub fn new(socket: S, timeouts: ConnectionTimeouts, open: OpenConnection) -> Self {
        let deadline = Instant::now() + timeouts.head;
        Self {
            socket,
            progress: ResponseProgress::default(),
            input: Vec::new(),
            head: HeadProgress::default(),
            phase: RequestPhase::Receiving,
            timeouts,
            deadline,
            timer: Box::pin(sleep_until(deadline)),
            is_last: false,
            is_ended: false,
            _open: open,
        }
    }

    /// Through this, the requests of this connection report how far they have been answered.
    pub fn progress(&self) -> ResponseProgress {
        self.progress.clone()
    }

    /// Ready at the deadline. Each request moves the deadline, but setting a timer is slow: a timer
    /// that is set for an earlier time is left as it is, and set again when it ends.
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

    /// Passes on bytes of the head.
    fn pass_on(&mut self, buffer: &mut ReadBuf<'_>) {
        let is_begun = self.head.length > 0;
        let fitting = self.input.len().min(buffer.remaining());
        let (length, is_complete) = self.head.extend(&self.input[..fitting]);
        buffer.put_slice(&self.input[..length]);
        self.input.drain(..length);
        if is_complete {
            self.phase = RequestPhase::Answering { is_end_seen: false };
        } else if !is_begun {
            // The first byte of a head ends the time between requests.
            self.deadline = Instant::now() + self.timeouts.head;
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> SequentialStream<S> {
    /// Reads once from the socket. Pending (without a wake-up) if the input is full or the client
    /// has ended its side.
    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_ended || self.input.len() == MAX_AHEAD {
            return Poll::Pending;
        }
        let mut space = [MaybeUninit::uninit(); MAX_AHEAD];
        let mut received = ReadBuf::uninit(&mut space[self.input.len()..]);
        ready!(Pin::new(&mut self.socket).poll_read(context, &mut received))?;
        self.is_ended = received.filled().is_empty();
        self.input.extend_from_slice(received.filled());
        Poll::Ready(Ok(()))
    }

    /// Moves on to the next request after a response has been written.
    fn finish(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        self.phase = if self.is_last {
            RequestPhase::Over
        } else {
            RequestPhase::Receiving
        };
        self.progress.set(AnswerStage::Unanswered);
        self.head = HeadProgress::default();
        self.deadline = Instant::now() + self.timeouts.idle;
        // actix-http has read before it wrote, and must read again. If there is nothing to read
        // yet, the polls below arrange that the socket or the timer wakes it; otherwise it is woken
        // now.
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

    /// Waits for bytes of a head and passes them on; also ready when there are no more requests.
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
                Poll::Ready(received) => received?,
                Poll::Pending if self.is_ended => {
                    self.phase = RequestPhase::Over;
                    return Poll::Ready(Ok(()));
                }
                Poll::Pending => {
                    ready!(self.poll_deadline(context));
                    self.phase = RequestPhase::Over;
                    self.is_last = true;
                    return Poll::Ready(self.answer_late_head(context));
                }
            }
        }
    }

    /// Answers a request whose head is not complete in time, unless the head has no bytes yet. The
    /// socket has room for the answer: nothing has been written since the last response.
    fn answer_late_head(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if self.head.length > 0
            && let Poll::Ready(written) =
                Pin::new(&mut self.socket).poll_write(context, TIMEOUT_ANSWER)
        {
            written?;
        }
        Ok(())
    }

    /// Watches for a disconnect while a request is being answered; ready when the client is gone.
    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Poll::Ready(received) = self.poll_receive(context) {
            received?;
        }
        match &mut self.phase {
            RequestPhase::Answering { is_end_seen: true } if self.is_ended => Poll::Ready(Ok(())),
            RequestPhase::Answering { is_end_seen } if self.is_ended => {
                *is_end_seen = true;
                context.waker().wake_by_ref();
                Poll::Pending
            }
            _ => Poll::Pending,
        }
    }

    /// Reads and discards the bytes that a client still sends after its last response: closing a
    /// socket with unread bytes resets the connection, and the client may lose the response.
    fn poll_linger(&mut self, context: &mut Context<'_>, mut unread: usize) -> Poll<()> {
        loop {
            unread += self.input.len();
            self.input.clear();
            self.phase = RequestPhase::Closing(unread);
            match self.poll_receive(context) {
                Poll::Ready(Ok(())) if unread < MAX_UNREAD => {}
                // An error, or too many bytes.
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => break,
            }
        }
        // The client may be in the middle of a body, or of further requests.
        let may_send = !self.is_ended && (self.is_last || unread > 0);
        if may_send {
            self.poll_deadline(context)
        } else {
            Poll::Ready(())
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
        match this.phase {
            RequestPhase::Receiving => this.poll_head(context, buffer),
            RequestPhase::Answering { .. } => this.poll_gone(context),
            RequestPhase::Over | RequestPhase::Closing(_) => Poll::Ready(Ok(())),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for SequentialStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write(context, bytes)
    }

    /// Flushes the socket, which may have a buffer of its own, as TLS does. actix-http calls this
    /// when the socket has accepted all that it has to write.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(Pin::new(&mut this.socket).poll_flush(context))?;
        if let AnswerStage::Answered { is_last } = this.progress.get() {
            this.is_last |= is_last;
            this.finish(context)?;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let unread = match this.phase {
            RequestPhase::Closing(unread) => unread,
            _ => {
                ready!(Pin::new(&mut this.socket).poll_shutdown(context))?;
                this.deadline = Instant::now() + LINGER;
                0
            }
        };
        this.poll_linger(context, unread).map(Ok)
    }
}
