"""Google Cloud Storage, by gcp-storage-emulator: a few files.

The emulator lacks the headers that tell versions apart: a proxy in front of it adds them.
"""

import hashlib
import sys
import urllib.parse
import urllib.request
from email.utils import formatdate
from pathlib import Path

from . import compare
from .files import File
from .report import Report
from .servers import Process, Recorder, Refused, free_port

# The emulator does not decode percent-encoded names of buckets: no hyphen.
BUCKET = "voltiletest"


def check(voltile: Path, uploaded: list[File], files: list[File], folder: Path, report: Report) -> None:
    program = Path(sys.prefix) / "bin" / "gcp-storage-emulator"
    if not program.is_file():
        return report.skip("Google Cloud Storage", "because gcp-storage-emulator could not be installed")
    port = free_port()
    base = f"http://127.0.0.1:{port}"
    command = [str(program), "start", "--host=127.0.0.1", f"--port={port}", "--in-memory", f"--default-bucket={BUCKET}"]
    with Process(command, folder / "google.log") as emulator:
        try:
            emulator.wait_for_port(port)
        except Refused as refused:
            return report.skip("Google Cloud Storage", f"because {refused}")
        added = {}
        for file in uploaded:
            url = f"{base}/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name={urllib.parse.quote(file.key, safe='')}"
            headers, body = {"Content-Type": "application/octet-stream"}, file.path.read_bytes()
            urllib.request.urlopen(urllib.request.Request(url, body, headers)).close()
            tag = hashlib.sha256(body).hexdigest()[:16]
            added[f"/{BUCKET}/{file.key}"] = {"ETag": f'"{tag}"', "Last-Modified": formatdate(usegmt=True)}
        with Recorder(port, added) as proxy:
            environment = {"STORAGE_EMULATOR_HOST": f"127.0.0.1:{proxy.port}"}
            compare.in_batches(voltile, files, lambda file: f"gs://{BUCKET}/{file.key}", folder, environment, report)
            are_unsigned = all("authorization" not in headers for _, headers in proxy.asked)
            report.add("Google Cloud Storage: the emulator is sent no credentials", bool(proxy.asked) and are_unsigned)
