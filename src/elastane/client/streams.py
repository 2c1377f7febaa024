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


def events(wire: Wire, after: int, follow: bool) -> Iterator[EventRecord]:
    """Events after an entry, without end, or (not following) up to this moment."""
    pause = wire.pause(_PATIENCE_S)
    while True:
        try:
            headers, query = {"Last-Event-ID": str(after)}, {"follow": follow}
            with wire.stream("/events", query=query, headers=headers, quiet_s=_QUIET_S) as answer:
                pause = wire.pause(_PATIENCE_S)
                for number, data in _sent(answer.iter_lines()):
                    after = max(after, number)
                    if data:
                        yield EventRecord.model_validate_json(data)
            if not follow:
                return
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
    """A job's output until it has ended: from its latest leader on, or of the worker that is named."""
    done: set[tuple[int, str]] | None = None
    offset, decoder = 0, _decoder()
    while True:
        ended = _has_ended(wire, job)  # before the look for files, so that none is missed
        files = _files(wire, job, worker)
        done = {_key(file) for file in files[:-1]} if done is None and files else done
        fresh = [file for file in files if _key(file) not in (done or ())]
        for chunk in _stream(wire, job, fresh[0], offset) if fresh else ():
            offset += len(chunk)
            yield from filter(None, [decoder.decode(chunk)])
        if fresh and done is not None and (ended or len(fresh) > 1):
            yield from filter(None, [decoder.decode(b"", final=True)])
            done.add(_key(fresh[0]))
            offset, decoder = 0, _decoder()
        elif ended:
            return
        else:  # nothing to read yet, or the server broke off: it is going down, or another leader is coming
            wire.rest(_POLL_S)


def _decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")("replace")


def _key(file: LogFile) -> tuple[int, str]:
    return file.attempt, file.worker


def _has_ended(wire: Wire, job: str) -> bool:
    detail = JobDetail.model_validate_json(wire.ask("GET", path_of("jobs", job)).content)
    return detail.ended_s is not None


def _files(wire: Wire, job: str, worker: str | None) -> list[LogFile]:
    """The logs to show one after the other."""
    listed = json.loads(wire.ask("GET", path_of("jobs", job, "logs")).content)
    files = [LogFile.model_validate(file) for file in listed]
    if worker is not None:
        return [file for file in files if file.worker == worker]
    return [file for file in files if file.leader] or files[:1]


def _stream(wire: Wire, job: str, file: LogFile, offset: int) -> Iterator[bytes]:
    """One file from a place on, until the server has said all; a lost connection goes on where it was."""
    path = path_of("jobs", job, "logs", file.attempt, file.worker)
    pause = wire.pause(_PATIENCE_S)
    while True:
        try:
            with wire.stream(path, query={"follow": True, "offset": offset}, quiet_s=_QUIET_S) as answer:
                pause = wire.pause(_PATIENCE_S)
                for chunk in answer.iter_bytes():
                    offset += len(chunk)
                    yield chunk
            return
        except (wire.lost, Busy) as error:
            _wait_or_give_up(wire, pause, error)
        except NotFoundError:
            return  # the file was cleared away
