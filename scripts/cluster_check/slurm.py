"""A Slurm cluster on this machine: a controller and two node daemons, run by the current user."""

import getpass
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

from checks.servers import Process, Refused, find, free_port

PROGRAMS = ["slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "sinfo"]
NODES = ["voltile0", "voltile1"]
# States of jobs that have ended.
OVER = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL"}
# How many seconds a check waits for the cluster: far longer than it takes.
PATIENCE = 300.0
CONFIGURATION = """\
ClusterName=voltile
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
SchedulerParameters=sched_interval=1,batch_sched_delay=0
MinJobAge=600
KillWait=2
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool-%n
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/%n.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/%n.log
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> list[str]:
    return [program for program in PROGRAMS if not find(program)]


class Cluster:
    """A cluster with all files in `place`, whose jobs have the PATH `path`. It is stopped at the end of the `with` block."""

    def __init__(self, place: Path, path: str) -> None:
        self.place = place
        self.daemons: list[Process] = []
        (place / "state").mkdir(parents=True)
        host = socket.gethostname().split(".")[0]
        nodes = ""
        for name in NODES:
            (place / f"spool-{name}").mkdir()
            nodes += f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={free_port()} "
            nodes += "CPUs=4 RealMemory=8000 State=UNKNOWN\n"
        self.configuration = place / "slurm.conf"
        text = CONFIGURATION.format(host=host, controller=free_port(), user=getpass.getuser(), place=place, nodes=nodes)
        self.configuration.write_text(text)
        self.environment = {**os.environ, "PATH": path, "SLURM_CONF": str(self.configuration)}
        self.version = self.ask("sinfo", "--version").split()[-1]

    def __enter__(self) -> "Cluster":
        try:
            self.start("slurmctld", "-D", "-f", str(self.configuration))
            for name in NODES:
                self.start("slurmd", "-D", "-N", name, "-f", str(self.configuration))
            self.wait_until("both nodes are idle", self.is_ready)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, program: str, *arguments: str) -> None:
        log = self.place / f"{program}{len(self.daemons)}.out"
        self.daemons.append(Process([find(program), *arguments], log, self.environment))

    def stop(self) -> None:
        """Cancels all jobs, and ends the daemons."""
        if self.daemons and self.daemons[0].runs():
            self.ask("scancel", "--user", getpass.getuser(), check=False)
            end = time.monotonic() + 20
            while time.monotonic() < end and self.ask("squeue", "--noheader", "--format=%i", check=False).strip():
                time.sleep(0.2)
        for daemon in reversed(self.daemons):
            daemon.stop()

    def ask(self, program: str, *arguments: str, check: bool = True) -> str:
        done = subprocess.run([find(program), *arguments], env=self.environment, capture_output=True, text=True, timeout=60)
        if check and done.returncode:
            raise Refused(f"{program} {' '.join(arguments)}: {done.stderr or done.stdout}")
        return done.stdout

    def is_ready(self) -> bool:
        for daemon in self.daemons:
            if not daemon.runs():
                raise Refused(f"{daemon.command[0]} ended: {self.logs()}")
        states = self.ask("sinfo", "--noheader", "--Node", "--format=%T", check=False).split()
        return states == ["idle"] * len(NODES)

    def logs(self) -> str:
        return "".join(f"\n{log.name}:\n{log.read_text()[-1500:]}" for log in sorted(self.place.glob("*.log")))

    def wait_until(self, what: str, is_true) -> None:
        end = time.monotonic() + PATIENCE
        while not is_true():
            if time.monotonic() > end:
                raise Refused(f"timed out waiting until {what}: {self.ask('squeue', check=False)}{self.logs()}")
            time.sleep(0.1)

    def submit(self, script: Path, arguments: list[str], tasks: range | None, folder: Path, after: str | None = None) -> str:
        """Queues a script, as an array if there are `tasks`; returns the number of the new job. The job `after` must succeed
        first."""
        # The machine may have fewer cores and less memory than the script asks for.
        options = ["--parsable", f"--chdir={folder}", f"--output={self.place}/job-%A-%a.out", "--cpus-per-task=1", "--mem=0"]
        if tasks is not None:
            options.append(f"--array={tasks[0]}-{tasks[-1]}")
        if after:
            options += [f"--dependency=afterok:{after}", "--kill-on-invalid-dep=yes"]
        return self.ask("sbatch", *options, str(script), *arguments).strip()

    def states(self, job: str) -> list[tuple[str, str]]:
        """The task and the state of each part of a job, also of parts that have ended."""
        out = []
        # JobId=7 ArrayJobId=7 ArrayTaskId=0 JobName=pyramid.sbatch ... JobState=RUNNING ...
        for line in self.ask("scontrol", "--oneliner", "show", "job", job).splitlines():
            fields = dict(pair.split("=", 1) for pair in line.split() if "=" in pair)
            out.append((fields.get("ArrayTaskId", "-"), fields["JobState"]))
        return out

    def wait_for_end(self, job: str) -> list[str]:
        """Waits for the end of a job; returns what went wrong: the tasks that failed, and the outputs of all tasks."""
        self.wait_until(f"job {job} has ended", lambda: all(state in OVER for _, state in self.states(job)))
        wrong = [f"task {task} of job {job}: {state}" for task, state in self.states(job) if state != "COMPLETED"]
        outputs = [output.read_text()[-1500:] for output in self.place.glob(f"job-{job}-*.out")] if wrong else []
        return wrong + outputs

    def run(self, script: Path, arguments: list[str], tasks: range | None, folder: Path) -> list[str]:
        """Runs a script to its end, as an array if there are tasks; returns what went wrong."""
        return self.wait_for_end(self.submit(script, arguments, tasks, folder))

    def run_with_a_kill(
        self, script: Path, arguments: list[str], tasks: range, folder: Path, has_begun, assembles: bool = False
    ) -> list[str]:  # fmt: skip
        """Runs an array; returns what went wrong. Once `has_begun()`, kills the program of the first task. Its script must queue
        the task again.

        With `assembles`, the script is also queued without a task, to assemble the parts after the array."""
        job = self.submit(script, arguments, tasks, folder)
        last = [self.submit(script, arguments, None, folder, job)] if assembles else []
        self.wait_until("the work has begun", has_begun)
        shard = f"--shard\0{tasks[0]}/{len(tasks)}\0"
        programs = [process for process in Path("/proc").glob("[0-9]*") if shard in command_line(process)]
        if len(programs) != 1:
            raise Refused(f"{len(programs)} programs make shard {tasks[0]} instead of one: {self.logs()}")
        os.kill(int(programs[0].name), signal.SIGKILL)
        # Slurm would start the task again after two minutes. It may do so earlier, but not before everything of the killed run
        # has ended, and not in the second in which the credential of that run was revoked: otherwise the node would take the
        # new run for the killed one.
        self.wait_until("the killed task alone is queued", lambda: self.is_alone(job, tasks[0]))
        self.ask("scontrol", "update", f"JobId={job}_{tasks[0]}", "StartTime=now+2")
        return [why for number in (job, *last) for why in self.wait_for_end(number)]

    def run_failing(self, script: Path, arguments: list[str], tasks: range, folder: Path) -> list[str]:
        """Runs an array whose tasks should all fail, and a job that depends on it; returns what went wrong."""
        job = self.submit(script, arguments, tasks, folder)
        last = self.submit(script, arguments, None, folder, job)
        return self.wait_for_end(job) + self.wait_for_end(last)

    def is_alone(self, job: str, task: int) -> bool:
        """Whether a task is queued, all other tasks of its job have ended, and both nodes are idle."""
        states = dict(self.states(job))
        pending = states.pop(str(task), None) == "PENDING"
        return pending and all(state in OVER for state in states.values()) and self.is_ready()


def command_line(process: Path) -> str:
    """The command line of a process, words separated by NUL; empty if it has ended."""
    try:
        return (process / "cmdline").read_text(errors="replace")
    except OSError:
        return ""
