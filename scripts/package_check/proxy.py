"""The nginx example: nginx runs it with a certificate made for this, in front of voltile, and its answers are compared with
voltile's own.
"""

import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
from pathlib import Path

from .report import Report, find, run
from .server import Server

HOST = "volumes.example.org"
MOUNT = "/ndtilecache/tilecache"
TILES = [f"{MOUNT}/wide/raw/{path}.png" for path in ("xy/1/0_0_0", "xz/1/0_0_0", "yz/2/0_0_0", "xy/2/1_0_0")]
PATIENCE = 60


def check(report: Report, root: Path, place: Path, args) -> None:
    nginx, openssl = find("nginx"), find("openssl")
    if not nginx or not openssl:
        report.skip("nginx in front of voltile", "nginx or openssl is not installed")
        return
    certificate(openssl, place)
    example = (root / "packaging" / "nginx.conf").read_text()
    for name, path in (("TCP", None), ("a Unix socket", place / "voltile.sock")):
        with Voltile(args.voltile, root, place, path) as voltile, Nginx(nginx, place, example, voltile) as proxy:
            compare(report, name, voltile, proxy)
        report.add(f"{name}: nginx logs no error", not proxy.errors(), proxy.errors())
    with_login(report, nginx, place, example)


def certificate(openssl: str, place: Path) -> None:
    names = ["-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}"]
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", place / "key.pem"]
    run(openssl, "req", "-x509", "-days", "2", *key, *names, "-out", place / "cert.pem", check=True)


def compare(report: Report, name: str, voltile: "Voltile", proxy: "Nginx") -> None:
    for tile in TILES:
        own, first, second = voltile.get(tile), proxy.get(tile), proxy.get(tile)
        is_same = own.status == first.status == second.status == 200 and own.body == first.body == second.body
        report.add(f"{name}: {tile} is the same", is_same, f"{own.status} {first.status} {second.status}")
        headers = ("etag", "content-type", "cache-control")
        differ = [key for key in headers if len({answer.headers.get(key) for answer in (own, first, second)}) != 1]
        report.add(f"{name}: and so are its headers", not differ, str(differ))
        states = (first.headers.get("x-cache-status"), second.headers.get("x-cache-status"))
        report.add(f"{name}: the second time, from nginx's cache", states == ("MISS", "HIT"), str(states))
        again = proxy.get(tile, {"If-None-Match": own.headers["etag"]})
        report.add(f"{name}: a client that has it gets 304", (again.status, again.body) == (304, b""), str(again.status))
    missing = f"{MOUNT}/nothing/raw/xy/3/0_0_0.png"
    statuses = (voltile.get(missing).status, proxy.get(missing).status)
    report.add(f"{name}: an unknown dataset is unknown to both", statuses == (404, 404), str(statuses))
    projects = proxy.get("/projects.json").body.decode()
    address = f"https://{HOST}/volumes{MOUNT}/"
    is_public = address in projects and "127.0.0.1" not in projects
    report.add(f"{name}: documents name the public address", is_public, projects[:300])
    listed = json.loads(proxy.get("/datasets.json").body)["datasets"]
    report.add(f"{name}: datasets are listed", [dataset["token"] for dataset in listed] == ["wide"], str(listed))
    page = proxy.get("/")
    report.add(f"{name}: the page is there", page.status == 200 and b"<html" in page.body, str(page.status))
    bare = proxy.ask("/volumes", {})
    location = bare.headers.get("location", "")
    report.add(f"{name}: the path without a slash leads to it", location.endswith("/volumes/"), location)
    report.add(f"{name}: the metrics are for this machine", proxy.get("/metrics").status == 200)
    voltile.stop()
    cached = proxy.get(TILES[0])
    report.add(f"{name}: a cached tile is shown while voltile is down", cached.status == 200, str(cached.status))
    status = proxy.get(f"{MOUNT}/wide/raw/xy/0/0_0_0.png").status
    report.add(f"{name}: another one is 502", status == 502, str(status))


def with_login(report: Report, nginx: str, place: Path, example: str) -> None:
    """The second example, uncommented; only its syntax, as there is no provider here."""
    begin = example.index("    # Second example")
    text = example[:begin] + re.sub(r"(?m)^    #(?! )", "    ", example[begin:])
    text = re.sub(r"(?m)^( +)#(auth_request|error_page) ", r"\1\2 ", text)
    count = len(re.findall(r"(?m)^ *(auth_request|location /oauth2/|location = /oauth2/auth|location @login)", text))
    report.add("the example of a log-in has all of its parts", count == 4, str(count))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    path = configured(place, text, "127.0.0.1:8080", port)
    report.ran("nginx accepts the example of a log-in", run(nginx, "-t", "-p", place, "-c", path))


def configured(place: Path, example: str, upstream: str, port: int) -> Path:
    """Writes the configuration of an nginx that includes the example, with the paths and addresses of this test."""
    for old, new in (
        ("    listen 443 ssl http2;\n", f"    listen 127.0.0.1:{port} ssl http2;\n"),
        ("    listen [::]:443 ssl http2;\n", ""),
        ("    server 127.0.0.1:8080;\n", f"    server {upstream};\n"),
        ("/var/lib/nginx/voltile", str(place / "nginx-cache")),
        ("/etc/ssl/certs/volumes.example.org.pem", str(place / "cert.pem")),
        ("/etc/ssl/private/volumes.example.org.key", str(place / "key.pem")),
    ):
        if example.count(old) != 1:
            raise OSError(f"the example must contain {old.strip()!r} once")
        example = example.replace(old, new)
    (place / "voltile.conf").write_text(example)
    user = "user root;\n" if os.getuid() == 0 else ""
    temporary = "".join(
        f"    {kind}_temp_path {place}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    text = (
        f"{user}daemon off;\nworker_processes 1;\npid {place}/nginx.pid;\nerror_log {place}/nginx-error.log warn;\n"
        f"events {{ }}\nhttp {{\n    access_log off;\n{temporary}    include {place}/voltile.conf;\n}}\n"
    )
    (place / "nginx-main.conf").write_text(text)
    return place / "nginx-main.conf"


class Answer:
    def __init__(self, answer: http.client.HTTPResponse):
        self.status, self.body = answer.status, answer.read()
        self.headers = {key.lower(): value for key, value in answer.getheaders()}


class Voltile:
    """A server with the settings that the example asks for, at TCP or a Unix socket too."""

    def __init__(self, program: Path, root: Path, place: Path, path: Path | None):
        trusted = f'trusted_proxies = ["unix"]\nunix_socket = "{path}"\n' if path else 'trusted_proxies = ["127.0.0.1"]\n'
        (place / "voltile.toml").write_text(
            '[server]\nbind = "127.0.0.1:0"\nbase_path = "/volumes"\n'
            f'{trusted}[datasets.wide]\nfile = "{root}/fixtures/wide.h5"\n'
        )
        self.server = Server(program, place / "voltile.toml")
        self.upstream = f"unix:{path}" if path else self.server.address

    def __enter__(self) -> "Voltile":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        if self.server.process.poll() is None:
            self.server.stop()

    def get(self, path: str) -> Answer:
        connection = http.client.HTTPConnection(self.server.address, timeout=PATIENCE)
        connection.request("GET", path)
        return Answer(connection.getresponse())


class Nginx:
    """A running nginx. It inherits a listening socket, so its port cannot be taken by another program."""

    def __init__(self, nginx: str, place: Path, example: str, voltile: Voltile):
        (place / "nginx-error.log").unlink(missing_ok=True)
        subprocess.run(["rm", "-rf", str(place / "nginx-cache")], check=True)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]
            config = configured(place, example, voltile.upstream, self.port)
            self.log = place / "nginx-error.log"
            command = [nginx, "-p", str(place), "-c", str(config), "-e", str(self.log)]
            environment = os.environ | {"NGINX": f"{listener.fileno()};"}
            self.process = subprocess.Popen(command, env=environment, pass_fds=[listener.fileno()])
        self.trusted = ssl.create_default_context(cafile=str(place / "cert.pem"))

    def __enter__(self) -> "Nginx":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(PATIENCE)

    def get(self, path: str, headers: dict[str, str] | None = None) -> Answer:
        return self.ask(f"/volumes{path}", headers or {})

    def ask(self, path: str, headers: dict[str, str]) -> Answer:
        """A request by TLS; the certificate must be the one of the example's host."""
        plain = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        connection = http.client.HTTPSConnection(HOST, timeout=PATIENCE)
        connection.sock = self.trusted.wrap_socket(plain, server_hostname=HOST)
        connection.request("GET", path, headers=headers)
        answer = Answer(connection.getresponse())
        connection.close()
        return answer

    def errors(self) -> str:
        """Its log without the errors that a stopped voltile causes."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        expected = ("using inherited sockets", "while connecting to upstream", "upstream server temporarily disabled")
        return "\n".join(line for line in lines if not any(text in line for text in expected))
