"""Requests and answers: one connection pool, retries that cannot do a thing twice, errors in our words."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING
from urllib.parse import quote

from pydantic import BaseModel

from elastane.client.errors import NotRunning, refusal
from elastane.client.locate_server import Address

if TYPE_CHECKING:  # imported when first needed: half of the start of a command
    import httpx

Query = Mapping[str, str | int | bool | None]
_PREFIX = "/api/v1"
_NOT_DONE = (429, 503)
"""Answers that say that nothing was done, so that anything may be sent again."""
_PIECE_BYTES = 1 << 18
_QUICK_TRIES = 3
"""How often a service is called that never answered us: it is probably not there, and somebody waits."""


class Wire:
    """Sends requests to one address for at most ``timeout_s`` each try, and as long again for all retries."""

    def __init__(self, address: Address, timeout_s: float, sleep: Callable[[float], None] = time.sleep) -> None:
        self.address = address
        self.timeout_s = timeout_s
        self._sleep = sleep
        self._pool: httpx.Client | None = None
        self._met = False

    def close(self) -> None:
        """Let go of all connections."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: BaseModel | None = None,
        again: bool = False,
    ) -> httpx.Response:
        """The answer to a request.  With ``again`` it may be sent twice, as every GET may."""
        again = again or method == "GET"
        return self._until_answered(lambda: self._send(method, path, query, body), again=again)

    def send_file(
        self, method: str, path: str, file: IO[bytes], sent: Callable[[int, int], object] | None = None
    ) -> httpx.Response:
        """The answer to a file, which may be sent twice; ``sent`` hears (bytes so far, bytes in all)."""
        size = file.seek(0, os.SEEK_END)
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}

        def pieces() -> Iterator[bytes]:
            file.seek(0)
            done = 0
            while piece := file.read(_PIECE_BYTES):
                yield piece
                done += len(piece)
                if sent is not None:
                    sent(done, size)

        def send() -> httpx.Response:
            return self._http.request(method, _PREFIX + path, content=pieces(), headers=headers)

        return self._until_answered(send, again=True)

    def _until_answered(self, send: Callable[[], httpx.Response], *, again: bool) -> httpx.Response:
        pause = Pause(self.timeout_s, self._sleep)
        while True:
            try:
                answer = send()
            except self.lost as error:
                tries = None if self._met else _QUICK_TRIES
                if not (again or _unsent(error)) or not pause.wait(tries):
                    raise not_running(self.address, error) from None
                continue
            self._met = True
            if answer.is_success:
                return answer
            if answer.status_code not in _NOT_DONE or not pause.wait(None, answer.headers.get("retry-after")):
                raise refusal(answer.status_code, answer.content)

    def _send(self, method: str, path: str, query: Query | None, body: BaseModel | None) -> httpx.Response:
        content = None if body is None else body.model_dump_json().encode()
        headers = {} if content is None else {"Content-Type": "application/json"}
        return self._http.request(
            method, _PREFIX + path, params=_given(query), content=content, headers=headers
        )

    @contextmanager
    def stream(
        self, path: str, *, query: Query | None = None, headers: Mapping[str, str] | None = None, quiet_s: float
    ) -> Iterator[httpx.Response]:
        """An answer that goes on; one that says nothing for ``quiet_s`` counts as lost.  No retries here."""
        import httpx

        timeout = httpx.Timeout(self.timeout_s, read=quiet_s)
        with self._http.stream(
            "GET", _PREFIX + path, params=_given(query), headers=headers, timeout=timeout
        ) as answer:
            if not answer.is_success:
                raise refusal(answer.status_code, answer.read())
            yield answer

    def pause(self, limit_s: float) -> Pause:
        """Waits between tries that add up to at most so much."""
        return Pause(limit_s, self._sleep)

    def rest(self, wait_s: float) -> None:
        """Sleep for so many seconds before asking again."""
        self._sleep(wait_s)

    @property
    def lost(self) -> type[Exception]:
        """What is raised when a connection is lost or cannot be made."""
        import httpx

        return httpx.TransportError

    @property
    def _http(self) -> httpx.Client:
        if self._pool is None:
            import httpx

            token = self.address.token
            self._pool = httpx.Client(
                base_url=self.address.url,
                headers={"Authorization": f"Bearer {token}"} if token else {},
                timeout=self.timeout_s,
                trust_env=not self.address.is_local,  # or a proxy for the internet would get our token
            )
        return self._pool


class Pause:
    """Waits that double, with some chance in them so that many clients do not come back together."""

    def __init__(self, limit_s: float, sleep: Callable[[float], None]) -> None:
        self._left_s = limit_s
        self._next_s = 0.1
        self._sleep = sleep
        self._tries = 1

    def wait(self, most_tries: int | None = None, told_s: str | None = None) -> bool:
        """Wait before the next try; False if there has been enough waiting."""
        wait_s = self._next_s * random.uniform(0.5, 1.0)
        if told_s is not None and told_s.isdecimal():
            wait_s = max(wait_s, min(float(told_s), 60.0))
        if wait_s > self._left_s or (most_tries is not None and self._tries >= most_tries):
            return False
        self._sleep(wait_s)
        self._left_s -= wait_s
        self._next_s = min(2 * self._next_s, 2.0)
        self._tries += 1
        return True


def _unsent(error: Exception) -> bool:
    """Whether the service cannot have seen the request."""
    import httpx

    return isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)


def not_running(address: Address, error: Exception) -> NotRunning:
    """The error for an address at which no server answers."""
    reason = " ".join(str(error).split()) or type(error).__name__
    return NotRunning(f"no Elastane answers at {address.url} ({reason}); start it with 'elastane up'")


def path_of(*parts: str | int) -> str:
    """A path of which each part is one part, whatever is in it."""
    return "".join(f"/{quote(str(part), safe='')}" for part in parts)


def _given(query: Query | None) -> dict[str, str]:
    given = {key: value for key, value in (query or {}).items() if value is not None}
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in given.items()}
