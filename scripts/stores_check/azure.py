"""Azure Blob Storage, by azurite: a few files."""

import shutil
import subprocess
from pathlib import Path

from . import compare
from .files import File
from .report import Report
from .servers import Process, Refused, free_port

VERSION = "3.37.0"
CONTAINER = "voltile-test"
# The account of the emulator, which its documentation names.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def installed(tools: Path) -> Path | None:
    """azurite, installed by npm unless it is; `None` if that fails."""
    program = tools / "azurite" / "node_modules" / ".bin" / "azurite-blob"
    if not program.is_file() and shutil.which("npm"):
        command = ["npm", "install", "--prefix", str(tools / "azurite"), "--ignore-scripts", "--no-audit", "--no-fund"]
        subprocess.run([*command, "--loglevel=error", f"azurite@{VERSION}"])
    return program if program.is_file() else None


def check(voltile: Path, uploaded: list[File], files: list[File], folder: Path, tools: Path, report: Report) -> None:
    try:
        from azure.storage.blob import BlobServiceClient
    except ImportError:
        return report.skip("Azure Blob Storage", "because its client could not be installed")
    program = installed(tools)
    if program is None:
        return report.skip("Azure Blob Storage", "because azurite could not be installed")
    port, data = free_port(), folder / "azurite"
    command = [str(program), "--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(data)]
    with Process([*command, "--silent", "--skipApiVersionCheck", "--disableTelemetry"], folder / "azure.log") as emulator:
        try:
            emulator.wait_for_port(port)
        except Refused as refused:
            return report.skip("Azure Blob Storage", f"because {refused}")
        endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
        connection = f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={endpoint};"
        container = BlobServiceClient.from_connection_string(connection).create_container(CONTAINER)
        for file in uploaded:
            container.upload_blob(file.key, file.path.read_bytes())
        environment = {"AZURE_STORAGE_CONNECTION_STRING": connection}
        compare.in_batches(voltile, files, lambda file: f"az://{CONTAINER}/{file.key}", folder, environment, report)
