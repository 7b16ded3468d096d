//! Connections to a Unix socket, whatever the host of a URL is.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

/// Connects to a socket. It needs no addresses, and resolves none.
#[derive(Debug, Clone)]
pub(super) struct ToSocket(pub PathBuf);

impl Resolver for ToSocket {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        Ok(self.empty())
    }
}

impl Connector for ToSocket {
    type Out = Connection;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        _: Option<()>,
    ) -> Result<Option<Connection>, Error> {
        let stream = UnixStream::connect(&self.0)?;
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Some(Connection { stream, buffers }))
    }
}

#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    buffers: LazyBuffers,
}

impl Transport for Connection {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream
            .set_write_timeout(timeout.not_zero().map(|span| *span))?;
        let written = self.stream.write_all(&self.buffers.output()[..amount]);
        written.map_err(|error| timed(error, &timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream
            .set_read_timeout(timeout.not_zero().map(|span| *span))?;
        let read = self.stream.read(self.buffers.input_append_buf());
        let amount = read.map_err(|error| timed(error, &timeout))?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    /// Nothing arrives on an idle connection but its end.
    fn is_open(&mut self) -> bool {
        let idle = |stream: &mut UnixStream| {
            stream.set_nonblocking(true)?;
            let read = stream.read(&mut [0]);
            stream.set_nonblocking(false)?;
            read
        };
        idle(&mut self.stream).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }
}

fn timed(error: io::Error, timeout: &NextTimeout) -> Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::Timeout(timeout.reason),
        _ => Error::Io(error),
    }
}
