"""Two sides of a new line prove to each other that they know its token, which itself is never sent.

A remembered port may have been taken by anybody once its owner is dead, so the side that connects believes the other
no more than it is believed.  Each sends a random number and a proof: the HMAC of both numbers, of who proves, in which
role, and of the port that was called, so that no proof is of use on another line or can be passed on to another port.

========== ============================ ==================================================
sender     line                         then
========== ============================ ==================================================
client     ``login``: role, nonce       the server looks up the token of that role
server     ``challenge``: nonce, proof  the client leaves if the proof is wrong
client     ``proof``: proof             the server leaves if the proof is wrong
========== ============================ ==================================================

This module has the proofs and the client's side; ``admission`` has the server's.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from elastane.train.coordinator.wire import Connection, Line, Message, encode_message

LOGIN_BYTES = 4096
"""Longest line of either side before both are known."""
LOGIN_S = 5.0
"""How long either side may take for its lines."""
_NONCE_LETTERS = 32


class Login(Message, frozen=True, tag="login"):
    """The first line of whoever connects."""

    role: str
    nonce: str


class Challenge(Message, frozen=True, tag="challenge"):
    """The answer of whoever was called, with its proof."""

    nonce: str
    proof: str


class Proof(Message, frozen=True, tag="proof"):
    """The second line of whoever connected."""

    proof: str


class _Proven(Message, frozen=True, tag="elastane login"):
    """The words that a proof is the HMAC of; they are never sent."""

    side: str
    role: str
    port: int
    client: str
    server: str


LOGIN = Line("whoever connects", Login)
_CHALLENGE = Line("whoever listens there", Challenge)
_PROOF = Line("whoever connects", Proof)


class ImpostorError(ConnectionError):
    """Whoever listens there does not know the token; to be treated like a line that is dead."""


def new_nonce() -> str:
    """A number that is used for one login."""
    return secrets.token_hex(_NONCE_LETTERS // 2)


@dataclass(frozen=True, slots=True)
class Proofs:
    """What both sides of one line have to say about a token."""

    token: str = field(repr=False)
    role: str
    port: int
    client: str
    server: str

    def of(self, side: str) -> str:
        """The proof that ``side`` (``client`` or ``server``) knows the token."""
        told = encode_message(_Proven(side, self.role, self.port, self.client, self.server))
        return hmac.new(self.token.encode(), told, hashlib.sha256).hexdigest()

    def accept(self, side: str, given: object) -> bool:
        """Whether a proof of the other side is right."""
        text = given.encode("utf-8", "replace") if isinstance(given, str) else b""
        return hmac.compare_digest(text, self.of(side).encode())


class ClientLogin:
    """The lines of the side that connected to ``port``."""

    def __init__(self, role: str, token: str, port: int) -> None:
        self._role, self._token, self._port = role, token, port
        self._nonce = new_nonce()

    def first(self) -> bytes:
        """The line to begin with."""
        return encode_message(Login(self._role, self._nonce))

    def answer(self, line: bytes) -> bytes:
        """The line with which to answer the server's.

        Raises:
            ImpostorError: it has no challenge, or a wrong proof.
        """
        try:
            challenge = _CHALLENGE.decode(line)
        except ValueError as error:
            raise ImpostorError("whoever listens there does not log in") from error
        proofs = Proofs(self._token, self._role, self._port, self._nonce, challenge.nonce)
        if not proofs.accept("server", challenge.proof):
            raise ImpostorError("whoever listens there does not know our token")
        return encode_message(Proof(proofs.of("client")))


class ServerLogin:
    """The lines of the side that was called at ``port``, once it knows the token of the client's role."""

    def __init__(self, login: Login | Mapping[str, Any], token: str, port: int) -> None:
        """``login`` may be a JSON object that was not read yet; ``ValueError`` if it is no login."""
        first = login if isinstance(login, Login) else LOGIN.read(login)
        self._proofs = Proofs(token, first.role, port, first.nonce, new_nonce())

    def challenge(self) -> bytes:
        """The line that answers the client's first."""
        return encode_message(Challenge(self._proofs.server, self._proofs.of("server")))

    def accepts(self, line: bytes) -> bool:
        """Whether the client's second line proves that it knows the token."""
        try:
            return self._proofs.accept("client", _PROOF.decode(line).proof)
        except ValueError:
            return False


def short_line(line: socket.socket, timeout_s: float) -> bytes:
    """The next line and nothing of what follows it.

    Raises:
        OSError: none came in time, or one that is too long.
    """
    deadline, data = time.monotonic() + timeout_s, b""
    while not data.endswith(b"\n"):
        line.settimeout(max(0.001, deadline - time.monotonic()))
        seen = line.recv(LOGIN_BYTES, socket.MSG_PEEK)
        data += line.recv(seen.find(b"\n") + 1 or len(seen))
        if not seen or len(data) > LOGIN_BYTES:
            raise ImpostorError("whoever is there does not log in")
    line.settimeout(None)
    return data


def connect(
    host: str, port: int, role: str, token: str, timeout_s: float = LOGIN_S, known_as: int = 0
) -> Connection:
    """A connection to somebody who has proved to know the token, as we have.

    ``known_as`` is the port that is called in the end, where a tunnel begins at ``port``.

    Raises:
        OSError: nobody is there, or somebody else (``ImpostorError``).
    """
    connection = Connection(host, port, timeout_s)
    login = ClientLogin(role, token, known_as or port)
    try:
        connection.line.sendall(login.first())
        connection.line.sendall(login.answer(short_line(connection.line, timeout_s)))
    except OSError:
        connection.close()
        raise
    return connection
