//! The least that an HTTP server can do: one answer, from memory, with one `writev`, on as many
//! threads as there are cores. It only looks for the blank line that ends each request, so it is no
//! server, but the limit for answers from a cache. `writev PORT FILE.png`.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::{env, fs};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The headers and the body of every answer.
struct Answer {
    head: Vec<u8>,
    body: Vec<u8>,
}

impl Answer {
    fn read(file: &str) -> io::Result<Self> {
        let body = fs::read(file)?;
        let length = body.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\ncontent-type: image/png\r\n\
             cache-control: public, max-age=3600\r\netag: \"0123456789abcdef0123456789abcdef\"\r\n\r\n"
        );
        Ok(Self { head: head.into_bytes(), body })
    }

    async fn send(&self, to: &mut TcpStream) -> io::Result<()> {
        let mut parts = [IoSlice::new(&self.head), IoSlice::new(&self.body)];
        let mut left = &mut parts[..];
        while !left.is_empty() {
            let written = to.write_vectored(left).await?;
            IoSlice::advance_slices(&mut left, written);
        }
        Ok(())
    }
}

/// The number of requests that end in `new`: of blank lines, as no request has a body. `seen` is the
/// number of bytes of `\r\n\r\n` that have been matched so far.
fn count_ended(seen: &mut usize, new: &[u8]) -> usize {
    let mut count = 0;
    for byte in new {
        *seen = match (*byte, *seen) {
            (b'\r', 0 | 2) | (b'\n', 1 | 3) => *seen + 1,
            (b'\r', _) => 1,
            _ => 0,
        };
        if *seen == 4 {
            count += 1;
            *seen = 0;
        }
    }
    count
}

async fn serve(mut client: TcpStream, answer: Arc<Answer>) -> io::Result<()> {
    client.set_nodelay(true)?;
    let (mut buffer, mut seen) = ([0; 4096], 0);
    loop {
        let read = client.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        for _ in 0..count_ended(&mut seen, &buffer[..read]) {
            answer.send(&mut client).await?;
        }
    }
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let arguments: Vec<String> = env::args().collect();
    let [_, port, file] = &arguments[..] else {
        return Err(io::Error::other("usage: writev PORT FILE.png"));
    };
    let answer = Arc::new(Answer::read(file)?);
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    loop {
        let (client, _) = listener.accept().await?;
        tokio::spawn(serve(client, Arc::clone(&answer)));
    }
}
