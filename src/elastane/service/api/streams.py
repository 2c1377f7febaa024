"""Answers that go on: a followed log, and events as they happen.  Both end when the server or the token does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

from elastane.service.api.context import Call
from elastane.service.api.log_reader import LogReader
from elastane.service.api.redaction import events_for
from elastane.service.messages import EventRecord
from elastane.service.protocol import NotFound

_BATCH = 500


async def follow_log(
    call: Call, path: Path, job: str, attempt: int, worker: str, offset: int
) -> AsyncIterator[bytes]:
    """The file as it grows, until the job has ended or another leader writes, and everything was read."""
    settings = call.desk.settings
    pause_s, over = settings.poll_s, False
    with LogReader(path, job) as reader:
        offset = offset if offset <= reader.size else 0
        while call.still_allowed:
            chunk = await asyncio.to_thread(reader.read, offset, settings.chunk_bytes)
            if chunk:
                offset, pause_s = offset + len(chunk), settings.poll_s
                yield chunk
            elif reader.size < offset or reader.turned():
                offset = 0
            elif over:
                return
            elif _is_over(call, job, attempt, worker):
                over = True  # one more look: something may have been written before it ended
            else:
                await _unless_closing(call, asyncio.sleep(pause_s))
                pause_s = min(pause_s * 1.5, 10 * settings.poll_s)


def _is_over(call: Call, job: str, attempt: int, worker: str) -> bool:
    """Whether a stream of this log shall end: the job has ended, or another worker has become its leader."""
    try:
        if call.service.job(job).ended_s is not None:
            return True
        files = call.service.logs(job)
    except NotFound:
        return True
    here = [(file.attempt, file.worker) for file in files]
    place = here.index((attempt, worker)) if (attempt, worker) in here else len(files)
    return any(file.leader for file in files[place + 1 :])


async def send_events(call: Call, after: int, *, follow: bool = True) -> AsyncIterator[bytes]:
    """Events after an entry, as server-sent events, with a comment now and then to show that we are there.

    Without ``follow`` it ends with the last one there is.
    """
    settings = call.desk.settings
    heard_s = settings.clock()
    yield b"retry: 1000\n\n"
    while call.still_allowed:
        batch = call.service.events(after, _BATCH)
        if batch:
            after = batch[-1].seq
            heard_s = settings.clock()
            yield b"".join(map(_event, events_for(call, batch))) + b"id: %d\n\n" % after
        if not follow and len(batch) < _BATCH:  # more may come meanwhile; those are for who follows
            return
        if batch:
            continue
        if settings.clock() - heard_s >= settings.heartbeat_s:
            heard_s = settings.clock()
            yield b": still here\n\n"
        else:
            wait_s = min(settings.recheck_s, settings.heartbeat_s)
            await _unless_closing(call, call.service.wait_for_events(after, wait_s))


def _event(event: EventRecord) -> bytes:
    return b"id: %d\ndata: %s\n\n" % (event.seq, event.model_dump_json().encode())


async def _unless_closing(call: Call, waiting: Coroutine[Any, Any, object]) -> None:
    """Wait for something, but not for longer than the server lives."""
    tasks = [asyncio.ensure_future(waiting), asyncio.ensure_future(call.desk.closing.wait())]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
