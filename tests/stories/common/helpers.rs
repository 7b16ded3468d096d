//! Servers of other projects that stories need: Redis and nginx, on free ports.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use super::{Place, skipped, wait_until};

/// The most ports that are tried: another program may take a free one first.
const TRIES: usize = 20;

/// Where a program is. If it is not installed, the story is skipped; continuous integration must
/// have it.
pub fn needed(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/bin".into()]);
    let found = folders
        .map(|folder| folder.join(program))
        .find(|file| file.exists());
    if found.is_none() {
        let is_ci = std::env::var_os("CI").is_some();
        assert!(
            !is_ci,
            "{program} is missing: run scripts/setup --all-tests"
        );
        skipped(&format!("{program} is not installed"));
    }
    found
}

/// A program that is killed at the end.
pub struct Helper {
    child: Child,
    pub port: u16,
}

impl Helper {
    /// Starts a program on a free port, given by a function that makes its command and one that
    /// tells whether it answers.
    fn start(
        mut command: impl FnMut(u16) -> std::process::Command,
        answers: impl Fn(u16) -> bool,
    ) -> Self {
        for _ in 0..TRIES {
            let port = TcpListener::bind("127.0.0.1:0")
                .unwrap()
                .local_addr()
                .unwrap()
                .port();
            let mut child = command(port).stdout(Stdio::null()).spawn().unwrap();
            let mut has_ended = false;
            wait_until("a program listens", || {
                has_ended = child.try_wait().unwrap().is_some();
                has_ended || answers(port)
            });
            if !has_ended {
                return Self { child, port };
            }
        }
        panic!("the program does not start");
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Whether a server at this port answers these bytes with something that begins like this.
fn answers(port: u16, asked: &str, expected: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else {
        return false;
    };
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let mut answer = vec![0; expected.len()];
    stream.write_all(asked.as_bytes()).is_ok()
        && stream.read_exact(&mut answer).is_ok()
        && answer == expected.as_bytes()
}

/// Starts a Redis that keeps everything in memory; at this port if one is given. `None` if it is
/// not installed.
pub fn redis(place: &Place, port: Option<u16>, password: &str) -> Option<Helper> {
    let program = needed("redis-server")?;
    let command = |free: u16| {
        let mut command = place.started(&program);
        let port = port.unwrap_or(free).to_string();
        command.args([
            "--bind",
            "127.0.0.1",
            "--port",
            &port,
            "--save",
            "",
            "--appendonly",
            "no",
        ]);
        if !password.is_empty() {
            command.args(["--requirepass", password]);
        }
        command
    };
    let expected = if password.is_empty() {
        "+PONG"
    } else {
        "-NOAUTH"
    };
    let mut helper = Helper::start(command, |free| {
        answers(port.unwrap_or(free), "PING\r\n", expected)
    });
    helper.port = port.unwrap_or(helper.port);
    Some(helper)
}

/// Starts nginx with the example for replicas in front of these servers. `None` if it is not
/// installed.
pub fn nginx(place: &Place, replicas: [std::net::SocketAddr; 3]) -> Option<Helper> {
    started_nginx(place, "nginx", "200", |port, root| {
        let mut example = EXAMPLE.to_owned();
        let cache = root.join("cache").display().to_string();
        let mut changes = vec![
            ("    listen [::]:443 ssl http2;\n".to_owned(), String::new()),
            (
                "    listen 443 ssl http2;".to_owned(),
                format!("    listen 127.0.0.1:{port};"),
            ),
            (
                "    ssl_certificate /etc/ssl/certs/volumes.example.org.pem;\n".to_owned(),
                String::new(),
            ),
            (
                "    ssl_certificate_key /etc/ssl/private/volumes.example.org.key;\n".to_owned(),
                String::new(),
            ),
            ("/var/lib/nginx/voltile-replicas".to_owned(), cache),
        ];
        changes.extend(replicas.iter().enumerate().map(|(number, replica)| {
            (
                format!("replica-{}.example.org:8080", number + 1),
                replica.to_string(),
            )
        }));
        for (old, new) in changes {
            assert_eq!(example.matches(&old).count(), 1, "{old}");
            example = example.replace(&old, &new);
        }
        example
    })
}

/// Starts nginx with the map of that example; it answers every path with what the map makes of it.
pub fn nginx_places(place: &Place) -> Option<Helper> {
    started_nginx(place, "places", "200", |port, _| {
        let map = EXAMPLE
            .split("\nmap ")
            .nth(1)
            .unwrap()
            .split("\n}")
            .next()
            .unwrap();
        format!("map {map}\n}}\nserver {{ listen 127.0.0.1:{port}; return 200 $voltile_place; }}\n")
    })
}

const EXAMPLE: &str = include_str!("../../../packaging/nginx-replicas.conf");

/// Starts nginx with a configuration for a port; it must answer with this status.
fn started_nginx(
    place: &Place,
    name: &str,
    status: &str,
    configuration: impl Fn(u16, &Path) -> String,
) -> Option<Helper> {
    let program = needed("nginx")?;
    let root = place.path(name);
    let command = |port: u16| {
        fs::create_dir_all(&root).unwrap();
        let example = configuration(port, &root);
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("    {kind}_temp_path {}/{kind};\n", root.display()));
        let user = if rustix::process::geteuid().is_root() {
            "user root;\n"
        } else {
            ""
        };
        let text = format!(
            "{user}daemon off;\nmaster_process off;\npid {root}/pid;\nerror_log {root}/error.log warn;\n\
             events {{ }}\nhttp {{\n    access_log off;\n{}    include {root}/voltile.conf;\n}}\n",
            temporary.concat(),
            root = root.display()
        );
        fs::write(root.join("voltile.conf"), example).unwrap();
        fs::write(root.join("nginx.conf"), text).unwrap();
        let mut command = place.started(&program);
        command
            .arg("-p")
            .arg(&root)
            .arg("-c")
            .arg(root.join("nginx.conf"));
        command.arg("-e").arg(root.join("error.log"));
        command
    };
    let asked = "GET /datasets.json HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let expected = format!("HTTP/1.1 {status}");
    Some(Helper::start(command, |port| {
        answers(port, asked, &expected)
    }))
}
