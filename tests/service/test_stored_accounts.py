"""Accounts over the store: what a user may pile up, and an audit log that loses nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from elastane.service.protocol import Conflict
from elastane.service.store import Store, StoreError, failpoints
from elastane.service.stored_accounts import StoredAccounts
from service.helpers import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    made = Store.open(tmp_path / "elastane.db", clock)
    made.claim()
    yield made
    made.close()


def test_a_user_has_only_so_many_tokens_that_are_good(store: Store, clock: Clock) -> None:
    accounts = StoredAccounts(store, clock, tokens_per_user=2)
    for name in ("ann", "ben"):
        accounts.add_user(name, "user", "default")
    first = accounts.new_token("ann", "", None)
    accounts.new_token("ann", "", clock.now_s + 60.0)
    with pytest.raises(Conflict, match=r"ann has 2 tokens and may have 2; .*token revoke"):
        accounts.new_token("ann", "", None)
    assert accounts.authenticate(accounts.new_token("ben", "", None).token) is not None
    clock.now_s += 60.0
    accounts.new_token("ann", "one had expired", None)
    accounts.revoke_token(first.id)
    accounts.new_token("ann", "one was revoked", None)


def test_tokens_that_open_nothing_do_not_pile_up(store: Store, clock: Clock) -> None:
    accounts = StoredAccounts(store, clock, tokens_per_user=3)
    accounts.add_user("ann", "user", "default")
    for turn in range(20):
        clock.now_s += 1.0
        made = accounts.new_token("ann", str(turn), None)
        accounts.revoke_token(made.id)
    assert [token.label for token in accounts.tokens("ann")] == ["16", "17", "18", "19"]
    assert accounts.authenticate(made.token) is None


def test_what_a_full_disk_refuses_is_in_the_audit_log_later(store: Store, clock: Clock) -> None:
    def full(name: str) -> None:
        if name == "transaction: begun":
            raise StoreError("no space left on the disk; nothing was changed")

    async def story() -> None:
        accounts = StoredAccounts(store, clock)
        accounts.audit("ann", "cancel_job", "j1", "ok")
        with failpoints.watched(full), pytest.raises(StoreError):
            accounts.flush()
        accounts.audit("ann", "cancel_job", "j2", "ok")
        assert [entry.target for entry in accounts.audit_log(0, 10)] == ["j1", "j2"]
        assert len(accounts.audit_log(0, 10)) == 2

    asyncio.run(story())
