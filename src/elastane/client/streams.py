"""Things that go on: a job's output while it runs, and events as they happen.  Both outlive lost connections."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator

from elastane.client.errors import Busy, NotFoundError
from elastane.client.wire import Pause, Wire, not_running, path_of
from elastane.service.messages import EventRecord, JobDetail, LogFile

_QUIET_S = 45.0
"""A server shows every 15 s that it is there; a log may be quiet for longer, then it is asked for again."""
_PATIENCE_S = 30.0
"""How long a service may be away, as when it is restarted."""
_POLL_S = 0.5
_BREATH_S = 0.1


def events(wire: Wire, after: int) -> Iterator[EventRecord]:
    """Events after an entry, without end."""
    pause = wire.pause(_PATIENCE_S)
    while True:
        try:
            with wire.stream("/events", headers={"Last-Event-ID": str(after)}, quiet_s=_QUIET_S) as answer:
                pause = wire.pause(_PATIENCE_S)
                for number, data in _sent(answer.iter_lines()):
                    after = max(after, number)
                    if data:
                        yield EventRecord.model_validate_json(data)
            wire.rest(_BREATH_S)  # the server ended it: it is going down, or our token is not good any more
        except (wire.lost, Busy) as error:
            _wait_or_give_up(wire, pause, error)


def _wait_or_give_up(wire: Wire, pause: Pause, error: Exception) -> None:
    if not pause.wait():
        raise error if isinstance(error, Busy) else not_running(wire.address, error) from None


def _sent(lines: Iterator[str]) -> Iterator[tuple[int, str]]:
    """(id, data) of each server-sent event."""
    number, data = 0, ""
    for line in lines:
        name, _, value = line.partition(":")
        if name == "id" and value.strip().isdecimal():
            number = int(value)
        elif name == "data":
            data = value.strip()
        elif not line:
            yield number, data
            data = ""


def follow_logs(wire: Wire, job: str, worker: str | None) -> Iterator[str]:
    """The output of a job, from its latest attempt on until it has ended; of its leader unless a worker is named."""
    seen = -1
    while True:
        ended = _detail(wire, job).ended_s is not None  # before the look for files, so that none is missed
        file = _latest(wire, job, worker)
        if file is not None and file.attempt > seen:
            yield from _follow(wire, job, file)
            seen = file.attempt
        elif ended:
            return
        else:
            wire.rest(_POLL_S)


def _latest(wire: Wire, job: str, worker: str | None) -> LogFile | None:
    listed = json.loads(wire.ask("GET", path_of("jobs", job, "logs")).content)
    files = [LogFile.model_validate(file) for file in listed]
    wanted = [file for file in files if (file.worker == worker if worker else file.leader)]
    return max(wanted or ([] if worker else files), key=lambda file: file.attempt, default=None)


def _follow(wire: Wire, job: str, file: LogFile) -> Iterator[str]:
    """One file until the job has ended or began anew; a lost connection goes on where it was."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    path, offset = path_of("jobs", job, "logs", file.attempt, file.worker), 0
    pause = wire.pause(_PATIENCE_S)
    while True:
        try:
            with wire.stream(path, query={"follow": True, "offset": offset}, quiet_s=_QUIET_S) as answer:
                pause = wire.pause(_PATIENCE_S)
                for chunk in answer.iter_bytes():
                    offset += len(chunk)
                    yield decoder.decode(chunk)
            if _is_over(wire, job, file.attempt):
                yield decoder.decode(b"", final=True)
                return
            wire.rest(_BREATH_S)
        except (wire.lost, Busy) as error:
            _wait_or_give_up(wire, pause, error)
        except NotFoundError:
            return  # the file was cleared away


def _is_over(wire: Wire, job: str, attempt: int) -> bool:
    detail = _detail(wire, job)
    return detail.ended_s is not None or detail.attempt > attempt


def _detail(wire: Wire, job: str) -> JobDetail:
    return JobDetail.model_validate_json(wire.ask("GET", path_of("jobs", job)).content)
