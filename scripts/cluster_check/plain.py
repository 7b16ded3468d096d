"""Runs batch scripts as plain processes, with the variables that Slurm sets for the tasks of a job array."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from checks.servers import run

# As many as the cluster on this machine has nodes.
AT_ONCE = 2


class Plain:
    """Stands in for a cluster."""

    def __init__(self, path: str) -> None:
        self.environment = {**os.environ, "PATH": path, "SLURM_CPUS_PER_TASK": "1"}

    def run(self, script: Path, arguments: list[str], tasks: range | None, folder: Path) -> list[str]:
        """Runs a script to its end, as an array if there are tasks; returns what went wrong."""
        ids = [None] if tasks is None else [str(task) for task in tasks]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            ended = list(pool.map(lambda task: self.task(script, arguments, task, len(ids), folder), ids))
        return [why for why in ended if why]

    def run_with_a_kill(self, script: Path, arguments: list[str], tasks: range, folder: Path, begun) -> list[str]:
        """Kills the first task when `begun()`, then runs all of them."""
        environment = self.environment | {"SLURM_ARRAY_TASK_ID": "0", "SLURM_ARRAY_TASK_COUNT": str(len(tasks))}
        process = subprocess.Popen(
            ["bash", script, *arguments], cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while process.poll() is None and not begun():
            pass
        process.kill()
        process.wait()
        return self.run(script, arguments, tasks, folder)

    def task(self, script: Path, arguments: list[str], task: str | None, count: int, folder: Path) -> str | None:
        array = {} if task is None else {"SLURM_ARRAY_TASK_ID": task, "SLURM_ARRAY_TASK_COUNT": str(count)}
        done = run("bash", script, *arguments, cwd=folder, env=self.environment | array)
        return f"{script.name}, task {task}: status {done.returncode}\n{done.stdout[-2000:]}" if done.returncode else None
