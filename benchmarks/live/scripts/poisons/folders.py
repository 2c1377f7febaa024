"""Files of the job itself: logs, checkpoints, and the folders around them."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time

from benchmarks.live.scripts.poisons.place import Place, append, deed, replace

_LONG = 255


@deed
def logs_elsewhere(place: Place) -> None:
    """A link where the folder of logs was."""
    shutil.rmtree(place.run / "logs")
    (place.run / "logs").symlink_to("/etc")


@deed
def strange_logs(place: Place) -> None:
    """Links, pipes and folders among the logs."""
    logs = place.run / "logs"
    (logs / "w9.log").symlink_to("/etc/passwd")
    os.mkfifo(logs / "w8.log")
    (logs / "w7.log").mkdir()
    (logs / "w6.log").symlink_to("/dev/zero")


@deed
def log_of_another(place: Place) -> None:
    """A link, in place of a log, to a big file that is none: rotation must not empty it."""
    victim = place.scratch / "victim"
    victim.write_bytes(b"dear")
    os.truncate(victim, 70 << 20)
    (place.run / "logs" / "zz.log").symlink_to(victim)
    time.sleep(2.0)
    if victim.stat().st_size != 70 << 20:
        (place.scratch / "harm").write_text("a file outside was emptied by way of a link")
    victim.unlink()


@deed
def own_log_replaced(place: Place) -> None:
    """Its own log, gone from under whoever follows it, then a pipe."""
    for path in (place.run / "logs").glob("*.log"):
        path.unlink()
        os.mkfifo(path)


@deed
def long_log(place: Place) -> None:
    """A hundred megabytes of output, one line, with colours."""
    del place
    for _ in range(100):
        os.write(1, b"\x1b[31mx" * (1 << 18))


@deed
def endless_output(place: Place) -> None:
    """Lines as fast as they can be written, for some seconds."""
    del place
    until_s = time.monotonic() + 3.0
    while time.monotonic() < until_s:
        os.write(1, b"all work and no play\n" * 1000)
    print("\udce9".encode("utf-8", "surrogateescape"), file=sys.stderr)


@deed
def many_files(place: Place) -> None:
    """Ten thousand logs."""
    for number in range(10_000):
        (place.run / "logs" / f"w{number + 100}.log").touch()


@deed
def long_names(place: Place) -> None:
    """Names that are long, not text, or more than one line."""
    folder = os.fsencode(place.run / "logs")
    for name in (
        b"w" * (_LONG - 4) + b".log",
        b"w\xff\xfe.log",
        b"w\n1.log",
        b"..log",
        b"-rf.log",
        b"w1.log\x1b[2J",
    ):
        os.close(os.open(os.path.join(folder, name), os.O_CREAT | os.O_WRONLY))  # noqa: PTH118
    deep = place.run
    for _ in range(15):
        deep /= "d" * 200
        deep.mkdir()


@deed
def hostile_checkpoints(place: Place) -> None:
    """Checkpoints that are pipes, links, sparse, deep, and end in the future."""
    folder = place.run / "checkpoints"
    folder.mkdir(exist_ok=True)
    os.mkfifo(folder / "step-1")
    (folder / "step-2").symlink_to("/dev/zero")
    (folder / f"step-{10**30}").mkdir()
    (folder / "latest").symlink_to("latest")
    (folder / "manifest.json").write_text("[" * 200_000)
    with (folder / "step-3").open("wb") as file:
        file.truncate(2 << 30)


@deed
def no_run(place: Place) -> None:
    """The job's own folder, gone."""
    shutil.rmtree(place.run)


@deed
def run_that_is_a_file(place: Place) -> None:
    """A file where the folder was."""
    place.run.rename(place.run.with_name("elsewhere"))
    place.run.write_text("no folder")


@deed
def run_that_is_a_link(place: Place) -> None:
    """A link to the service's home where the folder was."""
    place.run.rename(place.run.with_name("elsewhere"))
    place.run.symlink_to(place.home)


@deed
def closed_run(place: Place) -> None:
    """Folders that nobody may enter (but root)."""
    (place.run / "logs").chmod(0)
    place.run.chmod(0)


@deed
def planted_attempt(place: Place) -> None:
    """Files as an earlier version kept them, so that the next start takes them for its own."""
    folder = place.run.parent / "attempt-7"
    folder.mkdir()
    (folder / "ended.json").write_text(
        json.dumps({"cause": "finished", "detail": "", "code": 0, "at_s": time.time()})
    )
    (folder / "launch.json").write_text("{}")
    (folder / "lock").touch()
    append(place.run / "plans.jsonl", [{"type": "plan", "plan": {"generation": 10**9}}])
    replace(
        place.run / "control.json", lambda path: path.write_text('{"host": "127.0.0.1", "port": 1, "pid": 1}')
    )


@deed
def no_job_folder(place: Place) -> None:
    """Everything around its run, renamed."""
    place.run.parent.rename(place.home / "jobs" / f"renamed-{os.getpid()}")


@deed
def junk_among_jobs(place: Place) -> None:
    """Strange entries among the folders of jobs and of records."""
    for folder in (place.home / "jobs", place.home / "control", place.home / "nodes"):
        mine = f"poison-{os.getpid()}"
        (folder / f"{mine}\n").mkdir()
        (folder / f"{mine}-file").touch()
        os.mkfifo(folder / f"{mine}-pipe")
        (folder / f"{mine}-loop").symlink_to(f"{mine}-loop")
