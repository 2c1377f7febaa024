"""The join string says where the hub is and how it is known; the certificate is made once."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.engines.nodes.joining import CERTIFICATE, KEY, Join, admission, make_certificate
from elastane.engines.nodes.places import advertised, parse_address, written
from elastane.errors import ElastaneError

HEX = "0123456789abcdef"


@given(
    st.sampled_from(["head", "10.0.0.1", "fe80::1", "head.example.org"]),
    st.integers(1, 65535),
    st.text(HEX, min_size=32, max_size=32),
    st.text(HEX, min_size=64, max_size=64),
)
def test_a_join_string_means_what_it_was_made_of(host: str, port: int, secret: str, shown: str) -> None:
    join = Join(host, port, secret, shown)
    assert Join.parse(str(join)) == join
    assert "secret" not in repr(join)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "elastane://head:1",
        "http://head:1/" + "0" * 32,
        "elastane://head/" + "0" * 32 + "?sha256=" + "0" * 64,
    ],
)
def test_other_texts_are_refused_with_what_to_do(text: str) -> None:
    with pytest.raises(ElastaneError, match=r"elastane node secret|must be HOST:PORT"):
        Join.parse(text)


@pytest.mark.parametrize("text", ["7077", ":7077", "head:", "head:x", "head:70777"])
def test_an_address_is_a_host_and_a_port(text: str) -> None:
    with pytest.raises(ElastaneError, match="--listen: must be HOST:PORT"):
        parse_address(text, "--listen")


def test_addresses_are_read_as_they_are_written() -> None:
    for host in ("::1", "10.0.0.1", "head"):
        assert parse_address(written(host, 7077), "x") == (host, 7077)


def test_all_addresses_are_told_as_the_one_of_the_way_out() -> None:
    assert advertised("10.1.2.3") == "10.1.2.3"
    assert advertised("head.example.org") == "head.example.org"
    assert advertised("0.0.0.0") not in ("", "0.0.0.0")


def test_secret_and_certificate_are_made_once_for_our_eyes_only(tmp_path: Path) -> None:
    folder = tmp_path / "hub"
    first = admission(folder)
    again = admission(folder)
    assert (first.secret, first.cluster, first.fingerprint) == (again.secret, again.cluster, again.fingerprint)
    assert len(first.secret) == 32
    assert len(first.fingerprint) == 64
    assert first.context() is not None
    for path in (folder / KEY, folder / "join.json"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert sorted(path.name for path in folder.iterdir()) == sorted([KEY, CERTIFICATE, "join.json"])


def test_without_openssl_it_is_said_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        ElastaneError, match="without the openssl command; install openssl, or put a certificate"
    ):
        make_certificate(tmp_path)
    failing = tmp_path / "openssl"
    failing.write_text(f"#!{sys.executable}\nraise SystemExit('no entropy')\n")
    failing.chmod(0o755)
    with pytest.raises(ElastaneError, match=r"cannot make a certificate \(no entropy\)"):
        make_certificate(tmp_path)
    assert not (tmp_path / CERTIFICATE).exists()
