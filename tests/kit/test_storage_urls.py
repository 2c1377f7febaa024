"""Places that jobs may name for their checkpoints, and what is shown of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastane.errors import ElastaneError
from elastane.kit.storage_urls import checked, joined, local_path, masked, problem_of, same


@pytest.mark.parametrize(
    "place",
    ["s3://bucket", "s3://bucket/a/b", "gs://b/{job}", "file:///mnt/x", "/mnt/share/x", "/mnt/with space/ü"],
)
def test_urls_and_absolute_paths_are_places(place: str) -> None:
    assert checked(place, "checkpoints") == place


@pytest.mark.parametrize(
    "place",
    [
        *(
            "",
            "/",
            "//",
            "relative/path",
            "~/x",
            "./x",
            "s3:bucket",
            "s3://",
            "gs:///x",
            "file://host/x",
            "file:///",
        ),
        *(
            "ftp://host/x",
            "http://host/x",
            "memory://x",
            "simplecache::s3://bucket/x",
            "s3://b::gs://c",
            "/a/../b",
        ),
        *("s3://bucket/../other", "/a\nb", "/a\0b", "s3://[bucket", "/" + "x" * 3000),
    ],
)
def test_nothing_else_is(place: str) -> None:
    with pytest.raises(ElastaneError, match=r"^checkpoints: got .*; expected a URL \(s3://bucket/prefix"):
        checked(place, "checkpoints")


@pytest.mark.parametrize(
    "place", ["s3://me:pw@bucket/x", "s3://key@bucket", "gs://b/x?token=pw", "s3://b/x#pw"]
)
def test_no_place_carries_a_password(place: str) -> None:
    assert "without a password" in problem_of(place)
    with pytest.raises(ElastaneError) as caught:
        checked(place.replace("#pw", "?secret=pw"), "checkpoints")
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at s3://me:pw@host/x and gs://b/y", "at s3://…@host/x and gs://b/y"),
        ("https://h/x?X-Amz-Signature=abc&part=1", "https://h/x?X-Amz-Signature=…&part=1"),
        ("user@example.org wrote", "user@example.org wrote"),
    ],
)
def test_secrets_in_urls_are_not_shown(text: str, shown: str) -> None:
    assert masked(text) == shown


def test_places_are_joined_and_compared() -> None:
    assert joined("s3://b/x/", "j1") == joined("s3://b/x", "j1") == "s3://b/x/j1"
    assert same("/a/b/", "file:///a//b")
    assert same("s3://b/x", "s3://b/x/")
    assert not same("s3://b/x", "gs://b/x")
    assert local_path("file:///a") == local_path("/a") == Path("/a")
    assert local_path("s3://b/a") is None
