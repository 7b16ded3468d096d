"""The systemd units, as systemd's own linter sees them."""

from pathlib import Path

from .report import Report, find, run

# The exposure that `systemd-analyze security` may find at most, in tenths: 10 is "safe", 100 "unsafe".
EXPOSURE = 20


def check(report: Report, root: Path, place: Path, args) -> None:
    packaging, voltile = root / "packaging", args.voltile.resolve()
    analyze = find("systemd-analyze")
    if not analyze:
        report.skip("the systemd unit", "systemd-analyze is not installed")
        return
    # It looks for the program: the one built here stands in for the installed one.
    for unit in ("voltile.service", "voltile.socket"):
        text = (packaging / unit).read_text().replace("/usr/bin/voltile", str(voltile))
        (place / unit).write_text(text)
    done = run(analyze, "verify", "--man=no", "--recursive-errors=no", place / "voltile.service", place / "voltile.socket")
    report.add("systemd-analyze verify has nothing to say", done.returncode == 0 and not done.stdout, done.stdout)
    done = run(analyze, "security", "--offline=true", f"--threshold={EXPOSURE}", place / "voltile.service")
    report.ran(f"systemd-analyze security finds an exposure of at most {EXPOSURE / 10}", done)
    print("        " + done.stdout.strip().splitlines()[-1].strip())
