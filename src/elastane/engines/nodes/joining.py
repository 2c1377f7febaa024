"""Says how a node comes to trust the hub and the hub a node: the join string.

``elastane://HOST:PORT/SECRET?sha256=FINGERPRINT``: the secret admits nodes and is never sent (``login``); the
fingerprint is that of the hub's own certificate, so nobody else has to vouch for it.  Certificate and key are made
once, by the ``openssl`` command; a pair that somebody has put there beforehand is used as it is.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import ssl
import subprocess
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from elastane.engines.local.json_files import read_json, write_json
from elastane.engines.nodes.places import parse_address, written
from elastane.errors import ElastaneError

JOIN, CERTIFICATE, KEY = "join.json", "certificate.pem", "key.pem"
_STRING = re.compile(r"elastane://(?P<at>[^/]+)/(?P<secret>[0-9a-f]{32,128})\?sha256=(?P<print>[0-9a-f]{64})")
_YEARS_DAYS = 36_500
_OPENSSL_S = 60.0


@dataclass(frozen=True, slots=True)
class Join:
    """Where the hub is, and how both sides know each other."""

    host: str
    port: int
    secret: str = field(repr=False)
    fingerprint: str

    def __str__(self) -> str:
        return f"elastane://{written(self.host, self.port)}/{self.secret}?sha256={self.fingerprint}"

    @classmethod
    def parse(cls, text: str) -> Join:
        """The inverse of ``str``."""
        found = _STRING.fullmatch(text.strip())
        if found is None:
            raise ElastaneError(
                "this is no join string; 'elastane node secret' prints it on the head, as "
                "elastane://HOST:PORT/SECRET?sha256=FINGERPRINT (in quotes, because of the question mark)"
            )
        host, port = parse_address(found["at"], "the join string")
        return cls(host, port, found["secret"], found["print"])


def read_join(file: Path) -> Join:
    """Read the join string from a file that holds it, or all that ``elastane node secret`` prints.

    Raises:
        ElastaneError: there is none, or others can read it, too.
    """
    try:
        if file.stat().st_mode & 0o077:
            raise ElastaneError(f"--join-file: others may read {file}, and so run jobs here; chmod 600 {file}")
        text = file.read_bytes()[:4096].decode(errors="replace")
    except OSError as error:
        raise ElastaneError(f"--join-file: {file} cannot be read: {error.strerror}") from None
    found = _STRING.search(text)
    if found is None:
        raise ElastaneError(f"--join-file: {file} has no join string; on the head: elastane node secret > FILE")
    return Join.parse(found[0])


@dataclass(frozen=True, slots=True)
class Admission:
    """What the hub keeps of how nodes join: the secret, the name of the cluster, the certificate."""

    folder: Path
    secret: str = field(repr=False)
    cluster: str

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the certificate."""
        text = (self.folder / CERTIFICATE).read_text(encoding="ascii")
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(text)).hexdigest()

    def context(self) -> ssl.SSLContext:
        """For the listening side."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(self.folder / CERTIFICATE, self.folder / KEY)
        return context


def admission(folder: Path) -> Admission:
    """Read how nodes join, or lay it down where nobody has yet."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    known = read_json(folder / JOIN)
    if known is None:
        known = {"secret": secrets.token_hex(16), "cluster": secrets.token_hex(8)}
        write_json(folder / JOIN, known, durable=True)
    if not (folder / CERTIFICATE).exists() or not (folder / KEY).exists():
        make_certificate(folder)
    return Admission(folder, str(known["secret"]), str(known["cluster"]))


def make_certificate(folder: Path) -> None:
    """Make a key and a certificate that nobody has signed but itself; either is complete or not there."""
    key, certificate = folder / f".{KEY}.new", folder / f".{CERTIFICATE}.new"
    key.touch(mode=0o600)
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    words += ["-days", str(_YEARS_DAYS), "-subj", "/CN=elastane", "-keyout", str(key), "-out", str(certificate)]
    remedy = f"install openssl, or put a certificate and its key there as {folder / CERTIFICATE} and {KEY}"
    try:
        made = subprocess.run(  # noqa: S603
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_OPENSSL_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ElastaneError(
            f"--listen: no certificate can be made without the openssl command; {remedy}"
        ) from error
    if made.returncode != 0:
        last = (made.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise ElastaneError(f"--listen: openssl cannot make a certificate ({last}); {remedy}")
    key.replace(folder / KEY)
    certificate.replace(folder / CERTIFICATE)


@cache
def client_context() -> ssl.SSLContext:
    """For the side that dials: whoever is there is known by the fingerprint, not by a name or an authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context
