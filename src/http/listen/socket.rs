//! The connection to a client: TCP, with or without TLS, or a Unix socket.
//!
//! A TLS handshake is part of the first read. So the timeout of the first head covers it, and a
//! client that does not finish it counts as idle.

use std::future::Future;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use actix_web::rt::net::{TcpStream, UnixStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::{FallibleAccept, TlsStream};

use crate::http::connections::{NotTls, TLS_HANDSHAKE};

/// The states of TLS are on the heap, so that they do not enlarge the others.
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// TLS is expected, and nothing has been read.
    Fresh(TcpStream, Arc<ServerConfig>),
    Handshake(Pin<Box<FallibleAccept<TcpStream>>>),
    Tls(Box<TlsStream<TcpStream>>),
    /// TLS was expected and did not come about. What is read is discarded, and only a refusal is
    /// written.
    Failed(TcpStream),
    Closed,
}

impl Socket {
    /// A socket whose peer must begin with a TLS handshake.
    pub fn expecting_tls(socket: TcpStream, config: Arc<ServerConfig>) -> Self {
        Socket::Fresh(socket, config)
    }

    /// Goes on with the handshake; ready when it is over. The error of a peer that disconnects is
    /// `UnexpectedEof`.
    fn poll_handshake(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Socket::Fresh(socket, _) = self {
            let first = ready!(poll_first_byte(socket, context))?;
            self.begin(first)?;
        }
        if let Socket::Handshake(accept) = self {
            match ready!(accept.as_mut().poll(context)) {
                Ok(stream) => *self = Socket::Tls(Box::new(stream)),
                Err((error, socket)) => {
                    *self = Socket::Failed(socket);
                    return Poll::Ready(Err(error));
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    fn begin(&mut self, first: Option<u8>) -> io::Result<()> {
        match (std::mem::replace(self, Socket::Closed), first) {
            (Socket::Fresh(socket, config), Some(TLS_HANDSHAKE)) => {
                *self = Socket::Handshake(Box::pin(
                    TlsAcceptor::from(config).accept(socket).into_fallible(),
                ));
                Ok(())
            }
            (Socket::Fresh(socket, _), first) => {
                *self = Socket::Failed(socket);
                let not_tls = || io::Error::new(ErrorKind::InvalidData, NotTls);
                Err(first.map_or_else(|| ErrorKind::UnexpectedEof.into(), |_| not_tls()))
            }
            (other, _) => {
                *self = other;
                Ok(())
            }
        }
    }
}

/// The first byte that the peer sends, which stays in the socket's buffer; `None` if it
/// disconnects.
fn poll_first_byte(socket: &TcpStream, context: &mut Context<'_>) -> Poll<io::Result<Option<u8>>> {
    let mut byte = [0];
    let count = ready!(socket.poll_peek(context, &mut ReadBuf::new(&mut byte)))?;
    Poll::Ready(Ok((count > 0).then_some(byte[0])))
}

/// Clients often close a TLS connection without saying so (`close_notify`), and HTTP has its own
/// ends of messages.
fn end_if_cut_off(read: io::Result<()>) -> io::Result<()> {
    match read {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(()),
        read => read,
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            match this {
                Socket::Tcp(socket) | Socket::Failed(socket) => {
                    return Pin::new(socket).poll_read(context, buffer);
                }
                Socket::Unix(socket) => return Pin::new(socket).poll_read(context, buffer),
                Socket::Tls(stream) => {
                    return Pin::new(stream)
                        .poll_read(context, buffer)
                        .map(end_if_cut_off);
                }
                Socket::Closed => return Poll::Ready(Ok(())),
                Socket::Fresh(..) | Socket::Handshake(_) => {
                    match ready!(this.poll_handshake(context)) {
                        Ok(()) => {}
                        failed => return Poll::Ready(end_if_cut_off(failed)),
                    }
                }
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Tcp(socket) | Socket::Failed(socket) => {
                Pin::new(socket).poll_write(context, bytes)
            }
            Socket::Unix(socket) => Pin::new(socket).poll_write(context, bytes),
            Socket::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
            Socket::Fresh(..) | Socket::Handshake(_) | Socket::Closed => {
                Poll::Ready(Err(ErrorKind::NotConnected.into()))
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tls(stream) => Pin::new(stream).poll_flush(context),
            // The others have no buffers of their own.
            _ => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        match this {
            Socket::Tcp(socket) | Socket::Failed(socket) | Socket::Fresh(socket, _) => {
                Pin::new(socket).poll_shutdown(context)
            }
            Socket::Unix(socket) => Pin::new(socket).poll_shutdown(context),
            Socket::Tls(stream) => Pin::new(stream).poll_shutdown(context),
            Socket::Handshake(_) | Socket::Closed => {
                *this = Socket::Closed;
                Poll::Ready(Ok(()))
            }
        }
    }
}
