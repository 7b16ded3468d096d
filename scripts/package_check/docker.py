"""The Dockerfile: its linter, and its health check, which is run against a voltile outside of any container."""

import json
import re
import sys
from pathlib import Path

from .report import Report, run
from .server import Server


def check(report: Report, root: Path, place: Path, args) -> None:
    dockerfile = root / "packaging" / "Dockerfile"
    hadolint = Path(sys.prefix) / "bin" / "hadolint"
    if hadolint.is_file():
        report.ran("hadolint accepts the Dockerfile", run(hadolint, dockerfile))
    else:
        report.skip("the Dockerfile", "hadolint is not installed")
    config = place / "voltile.toml"
    config.write_text(f'[datasets.wide]\nfile = "{root}/fixtures/wide.h5"\n')
    health = json.loads(re.search(r"HEALTHCHECK.*\n +CMD (\[.*\])", dockerfile.read_text())[1])
    server = Server(args.voltile, config)
    port = server.address.rpartition(":")[2]
    command = [word.replace("8080", port) for word in health]
    report.ran("the health check finds a running server healthy", run(*command))
    unknown = [word.replace("/livez", "/nothing") for word in command]
    report.ran("and one that does not answer 200 unhealthy", run(*unknown), status=1)
    server.stop()
    report.ran("and one that has ended", run(*command), status=1)
