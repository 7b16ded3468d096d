"""Compares a few files in emulators of Google's and Azure's stores."""

import hashlib
import shutil
import subprocess
import sys
import urllib.parse
import urllib.request
from email.utils import formatdate
from functools import partial
from pathlib import Path

from checks.runner import ROOT
from checks.servers import Process, free_port

from .compare import Comparison
from .files import File
from .recorder import Recorder

# Without a hyphen, which clients percent-encode: the emulator does not decode the names of buckets.
BUCKET = "voltiletest"
AZURITE = "3.37.0"
CONTAINER = "voltile-test"
# Azurite's built-in account and key, from its documentation.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def google(comparison: Comparison, uploaded: list[File], files: list[File]) -> None:
    """Compares `files` in Google Cloud Storage, emulated by gcp-storage-emulator. The emulator's answers lack ETag and
    Last-Modified, by which voltile tells versions of an object apart, so a proxy adds these headers."""
    report = comparison.report
    program = Path(sys.prefix) / "bin" / "gcp-storage-emulator"
    if not program.is_file():
        return report.skip("Google Cloud Storage", "gcp-storage-emulator could not be installed")
    port = free_port()
    base = f"http://127.0.0.1:{port}"
    command = [program, "start", "--host=127.0.0.1", f"--port={port}", "--in-memory", f"--default-bucket={BUCKET}"]
    with Process(command, comparison.place / "google.log") as emulator:
        emulator.wait_for_port(port)
        added_headers = {}
        for file in uploaded:
            url = f"{base}/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name={urllib.parse.quote(file.key, safe='')}"
            headers, body = {"Content-Type": "application/octet-stream"}, file.path.read_bytes()
            urllib.request.urlopen(urllib.request.Request(url, body, headers)).close()
            tag = hashlib.sha256(body).hexdigest()[:16]
            added_headers[f"/{BUCKET}/{file.key}"] = {"ETag": f'"{tag}"', "Last-Modified": formatdate(usegmt=True)}
        with Recorder(port, added_headers) as proxy:
            environment = {"STORAGE_EMULATOR_HOST": f"127.0.0.1:{proxy.port}"}
            comparison.in_batches(files, lambda file: f"gs://{BUCKET}/{file.key}", environment)
            are_unsigned = all("authorization" not in headers for _, headers in proxy.requests)
            report.add("Google Cloud Storage: the emulator is sent no credentials", bool(proxy.requests) and are_unsigned)


def azurite() -> Path | None:
    """The path of azurite, installed by npm if it is missing; `None` if it cannot be installed."""
    home = ROOT / ".tools" / "azurite"
    program = home / "node_modules" / ".bin" / "azurite-blob"
    if not program.is_file() and shutil.which("npm"):
        command = ["npm", "install", "--prefix", home, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run([*command, f"azurite@{AZURITE}"])
    return program if program.is_file() else None


def azure(comparison: Comparison, uploaded: list[File], files: list[File]) -> None:
    """Compares `files` in Azure Blob Storage, emulated by azurite."""
    skip = partial(comparison.report.skip, "Azure Blob Storage")
    try:
        from azure.storage.blob import BlobServiceClient
    except ImportError:
        return skip("its client could not be installed")
    program = azurite()
    if program is None:
        return skip("azurite could not be installed")
    port = free_port()
    command = [program, "--blobHost", "127.0.0.1", "--blobPort", port, "--location", comparison.place / "azurite"]
    command += ["--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    with Process(command, comparison.place / "azure.log") as emulator:
        emulator.wait_for_port(port)
        endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
        connection = f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={endpoint};"
        container = BlobServiceClient.from_connection_string(connection).create_container(CONTAINER)
        for file in uploaded:
            container.upload_blob(file.key, file.path.read_bytes())
        environment = {"AZURE_STORAGE_CONNECTION_STRING": connection}
        comparison.in_batches(files, lambda file: f"az://{CONTAINER}/{file.key}", environment)
