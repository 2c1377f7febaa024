"""As whom jobs run: what may be chosen, what tenants' users are called, and what becomes theirs."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.engines.local.job_folders import hand_over, make_folders, out_of_reach
from elastane.engines.local.job_users import JobsAs, closed_to_others, user_name
from elastane.errors import ElastaneError
from elastane.train.coordinator.job_user import Identity

TENANTS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", fullmatch=True)
NOBODY = Identity("nobody", 65534, 65534, (65534,), "/nonexistent")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@given(TENANTS)
def test_the_name_of_a_tenants_user_is_one_that_systems_accept(tenant: str) -> None:
    assert re.fullmatch(r"el-[a-z0-9][a-z0-9_-]{0,27}", user_name(tenant))


@given(TENANTS, TENANTS)
def test_no_two_tenants_share_a_user(one: str, other: str) -> None:
    assert (user_name(one) == user_name(other)) == (one == other)


@pytest.mark.parametrize("tenant", ["Vision", "vision.1", "v" * 99, "a-0123456789"])
def test_a_name_that_looks_like_one_of_ours_is_never_anothers(tenant: str) -> None:
    assert user_name(user_name(tenant).removeprefix("el-")) != user_name(tenant)


def test_root_has_to_say_as_whom_jobs_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(ElastaneError, match=r"tenant .*USER .*me ") as refused:
        JobsAs.chosen(None)
    assert "\n" not in str(refused.value)
    assert JobsAs.chosen("me").shared
    assert JobsAs.chosen("tenant").note == ""
    assert JobsAs.chosen("tenant", ["vision=nobody"]).mapped == {"vision": "nobody"}
    assert JobsAs.chosen("nobody").identity(Path("/nowhere"), "vision").name == "nobody"  # type: ignore[union-attr]
    for who, words in (("root", "is root"), ("no-such-user", "there is no user no-such-user")):
        with pytest.raises(ElastaneError, match=words):
            JobsAs.chosen(who)


def test_who_is_not_root_can_run_jobs_only_as_himself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    assert JobsAs.chosen(None) == JobsAs.chosen("me") == JobsAs.chosen("nobody") == JobsAs()
    assert "jobs run as nobody, like Elastane itself" in JobsAs.chosen(None).note
    for who in ("tenant", "root"):
        with pytest.raises(ElastaneError, match="only root can run jobs as somebody else"):
            JobsAs.chosen(who)


@pytest.mark.parametrize("pair", ["vision", "=ann", "vision="])
def test_a_tenants_user_is_named_with_its_tenant(pair: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(ElastaneError, match="TENANT=USER"):
        JobsAs.chosen("tenant", [pair])
    with pytest.raises(ElastaneError, match="needs --jobs-as tenant"):
        JobsAs.chosen("me", ["vision=nobody"])


def test_a_place_that_is_closed_to_others_is_found(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    (closed / "home").mkdir(parents=True)
    closed.chmod(0o700)
    assert closed_to_others(closed / "home") in (closed, *tmp_path.parents, tmp_path)
    with pytest.raises(ElastaneError, match="closed to other users"):
        JobsAs("tenant").check_reach(closed, ())
    JobsAs("me").check_reach(closed, (closed,))


@needs_root
def test_a_jobs_folder_becomes_its_users_and_nothing_else_does(tmp_path: Path) -> None:
    run, secret = tmp_path / "jobs" / "j1" / "run", tmp_path / "secret"
    secret.write_text("token")
    make_folders(run)
    (run / "checkpoints" / "last").mkdir(parents=True)
    (run / "checkpoints" / "last" / "state").write_text("weights")
    (run / "link").symlink_to(secret)
    (run / "second").hardlink_to(secret)
    (run / "folder").symlink_to(tmp_path)
    make_folders(run, NOBODY)
    own = (run, run / "logs", run / "checkpoints", run / "checkpoints" / "last" / "state")
    assert {path.stat().st_uid for path in own} == {65534}
    assert {path.stat().st_uid for path in (secret, tmp_path, run.parent)} == {0}
    assert run.stat().st_mode & 0o777 == 0o700
    hand_over(run, NOBODY)  # harmless to repeat


@needs_root
def test_what_a_user_may_not_use_is_said_in_one_line(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    assert (
        out_of_reach(NOBODY, str(closed), "", "/bin/sh") == f"user nobody may not enter the directory {closed}"
    )
    assert (
        out_of_reach(NOBODY, "/", "/etc/shadow", "/bin/sh") == "user nobody may not read the script /etc/shadow"
    )
    assert (
        out_of_reach(NOBODY, "/", "", str(closed / "python")) == f"user nobody may not run {closed / 'python'}"
    )
    assert out_of_reach(NOBODY, "/", "/etc/passwd", "/bin/sh") == ""
