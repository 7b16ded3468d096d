"""The .deb: lintian, and the package's life in a new chroot of this system's release: it is installed, run, upgraded, removed
and purged.

The chroot has no systemd: the unit's ExecStart is run as the unit's user, in the directories that systemd would make.
"""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from checks.report import Report
from checks.runner import ROOT
from checks.servers import LISTENING, Process, ask, find, run

CONFIGURATION = "etc/voltile/voltile.toml"
FOLDER = "var/lib/voltile"
# A dataset that an administrator adds.
DATASET = '\n[datasets.named]\nfile = "/srv/data/wide.h5"\n'
FOLDER_TILE = "/ndtilecache/tilecache/wide/raw/xy/1/0_0_0.png"  # of a file in FOLDER
DATASET_TILE = "/ndtilecache/tilecache/named/raw/xy/1/0_0_0.png"
CONTENTS = """\
./etc/voltile/voltile.toml ./usr/bin/voltile ./usr/share/man/man1/voltile.1.gz ./usr/share/man/man1/voltile-serve.1.gz
./usr/share/bash-completion/completions/voltile ./usr/share/zsh/vendor-completions/_voltile
./usr/share/fish/vendor_completions.d/voltile.fish ./usr/share/doc/voltile/examples/nginx.conf
./usr/share/doc/voltile/examples/nginx-replicas.conf ./usr/share/doc/voltile/examples/voltile.socket
./usr/share/doc/voltile/examples/pyramid.sbatch ./usr/share/doc/voltile/examples/warm.sbatch
./usr/share/doc/voltile/copyright ./usr/share/doc/voltile/changelog.gz ./usr/share/doc/voltile/changelog.Debian.gz""".split()


def check(report: Report, place: Path, args) -> None:
    package = built("deb", args.release)
    contents(report, package, place / "contents")
    lintian(report, package)
    release, sources = system()
    chroot = Chroot(place / "chroot")
    # `adduser, libc6 (>= 2.36), systemd | runit`: the first word of each.
    names = [re.split(r"[ (|:]", dependency.strip())[0] for dependency in depends(package).split(",")]
    if not sources or "VERSION_CODENAME" not in release:
        report.skip("installation, upgrade and purge", "this system's package sources are not known")
    elif why := chroot.make(release["VERSION_CODENAME"], names, *sources):
        report.skip("installation, upgrade and purge", why)
    else:
        life(report, place, package, chroot, args)


def system() -> tuple[dict[str, str], list[Path]]:
    """The contents of this system's os-release, and the files that name the system's own sources of packages."""
    release = dict(re.findall(r'(?m)^(\w+)="?([^"\n]*)"?$', Path("/etc/os-release").read_text()))
    sources = [Path("/etc/apt") / name for name in (f"sources.list.d/{release.get('ID')}.sources", "sources.list")]
    return release, [path for path in sources if path.is_file()]


def depends(package: Path) -> str:
    """The dependencies that a package declares."""
    return run("dpkg-deb", "--field", package, "Depends").stdout


def glibc(program: Path) -> tuple[int, ...]:
    """The oldest version of glibc with which a program runs: the newest version that it names."""
    versions = re.findall(r"\bGLIBC_([0-9.]+)", run("readelf", "--version-info", program).stdout)
    return max(tuple(map(int, version.split("."))) for version in versions)


def built(kind: str, is_release: bool) -> Path:
    """Builds a package, and returns its path."""
    command = [ROOT / "scripts" / "package", *([] if is_release else ["--dev"]), kind]
    printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    package = ROOT / printed.splitlines()[-1]
    print(f"        {package.name}, {package.stat().st_size >> 20} MiB", flush=True)
    return package


def contents(report: Report, package: Path, place: Path) -> None:
    """Checks everything that can be seen without installing the package."""
    listed = run("dpkg-deb", "--contents", package).stdout
    files = {line.split()[5] for line in listed.splitlines()}
    report.add("it contains what it should", files >= set(CONTENTS), str(sorted(set(CONTENTS) - files)))
    units = [file for file in files if file.endswith("/systemd/system/voltile.service")]
    report.add("it contains the unit, and no other", len(units) == 1, str(units))
    report.add("all belongs to root", all(line.split()[1] in ("root/root", "0/0") for line in listed.splitlines()), listed)
    report.ran("it can be unpacked", run("dpkg-deb", "--raw-extract", package, place))
    needed = glibc(place / "usr" / "bin" / "voltile")
    declared = re.search(r"\blibc6 \(>= ([0-9.]+)\)", depends(package))
    is_right = declared is not None and tuple(map(int, declared[1].split("."))) >= needed
    report.add(f"it says that it needs glibc {'.'.join(map(str, needed))}", is_right, depends(package))
    conffiles = (place / "DEBIAN" / "conffiles").read_text().split()
    report.add("the configuration is a conffile", conffiles == [f"/{CONFIGURATION}"], str(conffiles))
    for script in ("postinst", "prerm", "postrm"):
        text = (place / "DEBIAN" / script).read_text()
        is_whole = "#DEBHELPER#" not in text and "voltile.service" in text
        done = run("sh", "-n", place / "DEBIAN" / script)
        report.add(f"{script} is whole and parses", is_whole and done.returncode == 0, done.stdout)


def lintian(report: Report, package: Path) -> None:
    if not find("lintian"):
        return report.skip("lintian", "it is not installed")
    # A package of the dev profile is not stripped; and Debian wants the maintainer's mail address, but there is none.
    expected = "unstripped-binary-or-object,malformed-contact,bogus-mail-host-in-debian-changelog"
    done = run("lintian", "--allow-root", "--fail-on", "error", "--suppress-tags", expected, package)
    report.ran("lintian finds no error", done)
    print("".join(f"        {line}\n" for line in done.stdout.splitlines()), end="")


def life(report: Report, place: Path, package: Path, chroot: "Chroot", args) -> None:
    """Installs the package in the chroot, serves files with it, upgrades it, removes and purges it."""
    volume = ROOT / "fixtures" / "wide.h5"
    run(args.voltile, "render", FOLDER_TILE, "-o", place / "own.png", volume, cwd=place, check=True)
    wanted = (place / "own.png").read_bytes()
    report.ran("dpkg installs it", chroot.dpkg("--install", package))
    user = chroot.user()
    is_system = user is not None and 0 < int(user[2]) < 1000 and user[6].endswith("nologin")
    report.add("there is a system user without a shell", is_system, str(user))
    report.add("the unit is enabled", chroot.is_enabled())
    with Service(report, place, chroot, "with nothing to serve yet") as service:
        report.add("the service starts with nothing to serve", service.get("/livez") is not None, service.said())
        shutil.copyfile(volume, chroot.path / FOLDER / "wide.h5")
        service.wait_until(lambda: service.get(FOLDER_TILE))
        report.add("a file that is put into the folder is served", service.get(FOLDER_TILE) == wanted, service.said())
    cache = chroot.path / "var" / "cache" / "voltile"
    tiles = [path for path in cache.rglob("*") if path.is_file() and path.stat().st_size >= len(wanted)]
    report.add("its tile is kept in the cache directory", len(tiles) > 0)

    (chroot.path / "srv" / "data").mkdir(parents=True)
    shutil.copyfile(volume, chroot.path / "srv" / "data" / "wide.h5")
    with open(chroot.path / CONFIGURATION, "a") as configuration:
        configuration.write(DATASET)
    edited = (chroot.path / CONFIGURATION).read_text()
    report.ran("dpkg upgrades it", chroot.dpkg("--install", newer(package, place, "2", "")))
    report.add("edits survive an upgrade", (chroot.path / CONFIGURATION).read_text() == edited)
    third = newer(package, place, "3", "# A new key.\n")
    report.ran("dpkg upgrades it to one with another configuration", chroot.dpkg("--force-confold", "--install", third))
    report.add("they survive that, too", (chroot.path / CONFIGURATION).read_text() == edited)
    new = chroot.path / f"{CONFIGURATION}.dpkg-dist"
    report.add("and the new configuration lies beside", new.is_file() and "# A new key." in new.read_text())
    with Service(report, place, chroot, "after the upgrade") as service:
        is_right = service.get(FOLDER_TILE) == service.get(DATASET_TILE) == wanted
        report.add("the upgraded one serves the folder and the dataset", is_right)
    remove(report, chroot)


def remove(report: Report, chroot: "Chroot") -> None:
    """Removes and purges the package, and checks what is left."""
    report.ran("dpkg removes it", chroot.dpkg("--remove", "voltile"))
    is_kept = (chroot.path / CONFIGURATION).is_file() and not (chroot.path / "usr/bin/voltile").exists()
    report.add("then the program is gone, and the configuration is kept", is_kept)
    report.ran("dpkg purges it", chroot.dpkg("--purge", "voltile"))
    left = [path for path in ("etc/voltile", "var/cache/voltile") if (chroot.path / path).exists()]
    units = [str(path) for path in (chroot.path / "etc" / "systemd").rglob("voltile*")]
    report.add("then configuration, cache and unit are gone", not left + units, str(left + units))
    report.add("but the data is not", (chroot.path / FOLDER / "wide.h5").is_file())
    report.add("and the user", chroot.user() is None)
    audit = chroot.dpkg("--audit")
    report.add("dpkg has nothing to complain of", audit.returncode == 0 and not audit.stdout, audit.stdout)


def newer(package: Path, place: Path, revision: str, addition: str) -> Path:
    """The same package with a higher version, and with an addition to its configuration."""
    folder, path = place / f"newer-{revision}", place / f"newer-{revision}.deb"
    run("dpkg-deb", "--raw-extract", package, folder, check=True)
    control = folder / "DEBIAN" / "control"
    control.write_text(re.sub(r"(?m)^(Version: .*)-1$", rf"\g<1>-{revision}", control.read_text()))
    configuration = folder / CONFIGURATION
    configuration.write_text(configuration.read_text() + addition)
    (folder / "DEBIAN" / "md5sums").unlink(missing_ok=True)
    run("dpkg-deb", "-Zgzip", "-z1", "--root-owner-group", "--build", folder, path, check=True)
    return path


class Service(Process):
    """The unit's ExecStart, run by the unit's user. Checks at its end that its status is 0, and that it logged no error."""

    def __init__(self, report: Report, place: Path, chroot: "Chroot", when: str):
        self.report, self.when = report, when
        chroot.run("install", "-d", "-o", "voltile", "-g", "voltile", "-m", "0750", "/var/cache/voltile")
        command = chroot.command(*chroot.unit_command(), "--bind", "127.0.0.1:0", user="voltile")
        super().__init__(command, place / "service.log")
        self.wait_until(lambda: LISTENING.search(self.said()))

    def __exit__(self, *_: object) -> None:
        is_right = self.stop() == 0 and "ERROR" not in self.said()
        self.report.add(f"{self.when}, it ends with status 0 and without an error in its log", is_right, self.said())

    def get(self, path: str) -> bytes | None:
        """The body of an answer; `None` if its status is not 200."""
        status, _, body = ask(f"http://{LISTENING.search(self.said())[1]}{path}")
        return body if status == 200 else None


class Chroot:
    """A minimal system. Each command has a mount namespace of its own, so nothing stays mounted."""

    def __init__(self, path: Path):
        self.path = path

    def make(self, release: str, packages: list[str], *sources: object) -> str | None:
        """Makes the chroot with some packages; if that is impossible, returns the reason."""
        if os.getuid() != 0:
            return "a chroot needs root"
        if not find("mmdebstrap") or not find("unshare"):
            return "mmdebstrap or unshare is not installed"
        options = ["--quiet", "--variant=minbase", f"--include={','.join(packages)}"]
        done = run("mmdebstrap", *options, release, self.path, *sources)
        return f"mmdebstrap could not make a chroot: {done.stdout[-500:]}" if done.returncode else None

    def command(self, *words: object, user: str = "root") -> list[str]:
        """The command that runs a program inside of the chroot. The shell becomes chroot, which becomes the program, so a signal
        that is sent to the process reaches the program."""
        inside = " ".join(shlex.quote(str(word)) for word in ("chroot", f"--userspec={user}:{user}", self.path, *words))
        here = shlex.quote(str(self.path))
        mounts = f"mount -t proc proc {here}/proc && mount --rbind /dev {here}/dev"
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", f"{mounts} && exec {inside}"]

    def run(self, *words: object, user: str = "root") -> subprocess.CompletedProcess:
        environment = {"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
        return run(*self.command(*words, user=user), env=environment)

    def dpkg(self, *words: object) -> subprocess.CompletedProcess:
        """Runs dpkg in the chroot. A word that is a path names a package outside: it is copied into the chroot first."""
        arguments = []
        for word in words:
            if isinstance(word, Path):
                shutil.copyfile(word, self.path / "tmp" / "package.deb")
                arguments.append("/tmp/package.deb")
            else:
                arguments.append(word)
        return self.run("dpkg", *arguments)

    def user(self) -> list[str] | None:
        """The fields of the user voltile in /etc/passwd: 2 is the number, 6 the shell."""
        lines = (self.path / "etc" / "passwd").read_text().splitlines()
        return next((line.split(":") for line in lines if line.startswith("voltile:")), None)

    def is_enabled(self) -> bool:
        return (self.path / "etc/systemd/system/multi-user.target.wants/voltile.service").is_symlink()

    def unit_command(self) -> list[str]:
        """The command of the installed unit: its ExecStart."""
        unit = self.path / "lib" / "systemd" / "system" / "voltile.service"
        line = next(line for line in unit.read_text().splitlines() if line.startswith("ExecStart="))
        return shlex.split(line.partition("=")[2])
