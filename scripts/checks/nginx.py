"""nginx with all of its files below a folder."""

import os
from pathlib import Path

from .servers import Process, Refused, free_port, need

# Filled in by str.format, for which the braces of nginx are doubled.
MAIN = """\
{user}
daemon off;
worker_processes {workers};
pid {place}/nginx.pid;
error_log {place}/error.log warn;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {place}/client_body;
    proxy_temp_path {place}/proxy;
    fastcgi_temp_path {place}/fastcgi;
    uwsgi_temp_path {place}/uwsgi;
    scgi_temp_path {place}/scgi;
    {http}
}}
"""


def adapted(example: str, changes: list[tuple[str, str]]) -> str:
    """Replaces each old text in an example of packaging/, which must contain it exactly once, by the new text."""
    for old, new in changes:
        if example.count(old) != 1:
            raise Refused(f"the example must contain {old.strip()!r} once")
        example = example.replace(old, new)
    return example


def nginx_command(place: Path, http: str, workers: object = 1) -> list:
    """Writes a configuration with the contents of its http block, and returns the command that runs nginx with it.

    All files of nginx lie in `place`."""
    place.mkdir(parents=True, exist_ok=True)
    user = "user root;" if os.getuid() == 0 else ""
    (place / "nginx.conf").write_text(MAIN.format(user=user, workers=workers, place=place, http=http))
    return [need("nginx", "nginx-light"), "-p", place, "-c", place / "nginx.conf", "-e", place / "error.log"]


class Nginx(Process):
    """A running nginx, at a free port; `http(port)` returns the contents of its http block."""

    def __init__(self, place: Path, http, workers: object = 1):
        self.port, self.errors = free_port(), place / "error.log"
        super().__init__(nginx_command(place, http(self.port), workers), place / "nginx.log")
        self.wait_for_port(self.port)
