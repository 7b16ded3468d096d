"""The nginx example in front of voltile, with a generated certificate: its answers are compared with voltile's own."""

import http.client
import json
import re
import socket
import ssl
from pathlib import Path

from checks.nginx import Nginx, adapted, nginx_command
from checks.report import Report
from checks.runner import ROOT
from checks.servers import Voltile, certificate, datasets, find, free_port, run

HOST = "volumes.example.org"
MOUNT = "/ndtilecache/tilecache"
TILES = [f"{MOUNT}/wide/raw/{path}.png" for path in ("xy/1/0_0_0", "xz/1/0_0_0", "yz/2/0_0_0", "xy/2/1_0_0")]
PATIENCE = 60  # seconds to wait for an answer


def check(report: Report, place: Path, args) -> None:
    if not find("nginx") or not find("openssl"):
        return report.skip("nginx in front of voltile", "nginx or openssl is not installed")
    certificate(place, f"DNS:{HOST}")
    example = (ROOT / "packaging" / "nginx.conf").read_text()
    socket_path = place / "voltile.sock"
    tcp, unix = 'trusted_proxies = ["127.0.0.1"]\n', f'trusted_proxies = ["unix"]\nunix_socket = "{socket_path}"\n'
    for name, cache, connection in (("TCP", "tcp-cache", tcp), ("a Unix socket", "unix-cache", unix)):
        settings = f'[server]\nbase_path = "/volumes"\n{connection}' + datasets({"wide": ROOT / "fixtures" / "wide.h5"})
        with Voltile(args.voltile, place, settings, report) as voltile:
            upstream = voltile.address if connection == tcp else f"unix:{socket_path}"
            with Proxy(place, cache, example, upstream) as proxy:
                compare(report, name, voltile, proxy)
        report.add(f"{name}: nginx logs no error", not proxy.unexpected(), proxy.unexpected())
    with_login(report, place, example)


def compare(report: Report, name: str, voltile: Voltile, proxy: "Proxy") -> None:
    """Compares nginx's answers with voltile's; then stops voltile, and asks nginx for a tile in its cache and one that is not."""
    for tile in TILES:
        own, first, second = fetch(voltile.connect(), tile), proxy.get(tile), proxy.get(tile)
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
    statuses = (fetch(voltile.connect(), missing).status, proxy.get(missing).status)
    report.add(f"{name}: an unknown dataset is unknown to both", statuses == (404, 404), str(statuses))
    projects = proxy.get("/projects.json").body.decode()
    address = f"https://{HOST}/volumes{MOUNT}/"
    is_public = address in projects and "127.0.0.1" not in projects
    report.add(f"{name}: documents name the public address", is_public, projects[:300])
    listed = json.loads(proxy.get("/datasets.json").body)["datasets"]
    report.add(f"{name}: datasets are listed", [dataset["token"] for dataset in listed] == ["wide"], str(listed))
    page = proxy.get("/")
    report.add(f"{name}: the page is there", page.status == 200 and b"<html" in page.body, str(page.status))
    location = fetch(proxy.connect(), "/volumes").headers.get("location", "")
    report.add(f"{name}: the path without a slash leads to it", location.endswith("/volumes/"), location)
    report.add(f"{name}: the metrics are for this machine", proxy.get("/metrics").status == 200)
    voltile.stop()
    cached = proxy.get(TILES[0])
    report.add(f"{name}: a cached tile is shown while voltile is down", cached.status == 200, str(cached.status))
    status = proxy.get(f"{MOUNT}/wide/raw/xy/0/0_0_0.png").status
    report.add(f"{name}: another one is 502", status == 502, str(status))


def with_login(report: Report, place: Path, example: str) -> None:
    """Checks the syntax of the second example (a log-in). It cannot be tried, because there is no provider here.

    The example's directives are commented out by a `#` directly before them; a `#` with a space begins prose.
    """
    begin = example.index("    # Second example")
    text = example[:begin] + re.sub(r"(?m)^    #(?! )", "    ", example[begin:])
    text = re.sub(r"(?m)^( +)#(auth_request|error_page) ", r"\1\2 ", text)
    count = len(re.findall(r"(?m)^ *(auth_request|location /oauth2/|location = /oauth2/auth|location @login)", text))
    report.add("the example of a log-in has all of its parts", count == 4, str(count))
    command = nginx_command(place, local(place, "login-cache", text, "127.0.0.1:8080", free_port()))
    report.ran("nginx accepts the example of a log-in", run(*command, "-t"))


def local(place: Path, cache: str, example: str, upstream: str, port: int) -> str:
    """The example with the paths and addresses of this check."""
    return adapted(
        example,
        [
            ("    listen 443 ssl http2;\n", f"    listen 127.0.0.1:{port} ssl http2;\n"),
            ("    listen [::]:443 ssl http2;\n", ""),
            ("    server 127.0.0.1:8080;\n", f"    server {upstream};\n"),
            ("/var/lib/nginx/voltile", str(place / cache)),
            ("/etc/ssl/certs/volumes.example.org.pem", str(place / "certificate.pem")),
            ("/etc/ssl/private/volumes.example.org.key", str(place / "key.pem")),
        ],
    )


class Answer:
    def __init__(self, answer: http.client.HTTPResponse):
        self.status, self.body = answer.status, answer.read()
        self.headers = {key.lower(): value for key, value in answer.getheaders()}


def fetch(connection: http.client.HTTPConnection, path: str, headers: dict[str, str] | None = None) -> Answer:
    connection.request("GET", path, headers=headers or {})
    return Answer(connection.getresponse())


class Proxy(Nginx):
    """A running nginx with the example."""

    def __init__(self, place: Path, cache: str, example: str, upstream: str):
        super().__init__(place, lambda port: local(place, cache, example, upstream, port))
        self.trusted = ssl.create_default_context(cafile=str(place / "authority.pem"))

    def connect(self) -> http.client.HTTPSConnection:
        """A connection with TLS; the server's certificate must be for the example's host."""
        plain = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        connection = http.client.HTTPSConnection(HOST, timeout=PATIENCE)
        connection.sock = self.trusted.wrap_socket(plain, server_hostname=HOST)
        return connection

    def get(self, path: str, headers: dict[str, str] | None = None) -> Answer:
        return fetch(self.connect(), f"/volumes{path}", headers)

    def unexpected(self) -> str:
        """The lines of nginx's error log, without errors that a stopped voltile causes."""
        lines = self.errors.read_text().splitlines() if self.errors.exists() else []
        expected = ("while connecting to upstream", "upstream server temporarily disabled")
        return "\n".join(line for line in lines if not any(text in line for text in expected))
