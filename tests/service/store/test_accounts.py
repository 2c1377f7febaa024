from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.errors import ElastaneError
from elastane.service.messages import NewToken
from elastane.service.protocol import Conflict, NotFound, Principal
from elastane.service.store import Store, token_secrets
from service.store.samples import opened, parts

NOW_S = 5000.0


def token_for(store: Store, name: str = "ann", **options: Any) -> NewToken:
    with store.transaction() as t:
        if t.accounts.user(name) is None:
            t.accounts.add_user(name, "user", "team")
        return t.accounts.add_token(name, **options)


def test_a_token_opens_the_door_to_its_owner(store: Store) -> None:
    made = token_for(store, label="laptop")
    assert store.accounts.authenticate(made.token, NOW_S) == Principal("ann", "user", "team", made.expires_s)
    assert made.token.startswith(f"els_{made.id}_")
    (listed,) = store.accounts.tokens("ann")
    assert (listed.id, listed.label, listed.revoked) == (made.id, "laptop", False)
    assert "token" not in type(listed).model_fields


def test_a_secret_is_nowhere_on_disk(store: Store, path: Path) -> None:
    made = token_for(store)
    store.backup()
    kept = token_secrets.split(made.token)
    assert kept is not None
    while_open = parts(path)
    assert while_open["elastane.db-wal"]
    store.close()
    for content in [*while_open.values(), *parts(path).values()]:
        assert kept.secret.encode() not in content
        assert bytes.fromhex(kept.secret) not in content
    assert kept.secret not in repr(kept)
    with opened(path) as again:
        assert again.accounts.authenticate(made.token, NOW_S) is not None


def test_two_tokens_never_look_alike(store: Store) -> None:
    made = [token_for(store) for _ in range(50)]
    assert len({token.id for token in made}) == len({token.token[-64:] for token in made}) == 50


def test_a_token_expires_at_its_moment(store: Store) -> None:
    made = token_for(store, expires_s=NOW_S)
    assert store.accounts.authenticate(made.token, NOW_S - 0.001) is not None
    assert store.accounts.authenticate(made.token, NOW_S) is None


def test_a_revoked_token_opens_nothing_and_others_still_do(store: Store) -> None:
    gone, stays = token_for(store), token_for(store)
    with store.transaction() as t:
        assert t.accounts.revoke_token(gone.id).revoked
    assert store.accounts.authenticate(gone.token, NOW_S) is None
    assert store.accounts.authenticate(stays.token, NOW_S) is not None
    with pytest.raises(NotFound, match="token list"), store.transaction() as t:
        t.accounts.revoke_token(gone.id[:-1])


def test_a_token_must_be_right_to_the_last_letter(store: Store) -> None:
    made = token_for(store)
    other = token_for(store)
    last = "0" if made.token[-1] != "0" else "1"
    for wrong in (
        made.token[:-1] + last,
        made.token[:-1],
        made.token + "0",
        made.token.upper(),
        made.token + "\n",
        f"els_{other.id}_{made.token[-64:]}",
        f"els_{made.id}_{store._db._link.execute('SELECT hex(digest) FROM tokens').fetchone()[0].lower()}",
    ):
        assert store.accounts.authenticate(wrong, NOW_S) is None


def test_garbage_opens_nothing_and_breaks_nothing(store: Store) -> None:
    token_for(store)

    @given(st.text() | st.from_regex(r"els_\w*_\w*") | st.binary() | st.none() | st.integers())
    def check(garbage: Any) -> None:
        assert store.accounts.authenticate(garbage, NOW_S) is None

    check()


def test_a_removed_user_takes_the_tokens_along(store: Store) -> None:
    made = token_for(store)
    with store.transaction() as t:
        t.accounts.remove_user("ann")
    assert store.accounts.authenticate(made.token, NOW_S) is None
    assert store.accounts.tokens() == []
    token_for(store)  # somebody new of that name does not inherit them
    assert store.accounts.authenticate(made.token, NOW_S) is None


def test_a_change_of_role_counts_at_once(store: Store) -> None:
    made = token_for(store)
    with store.transaction() as t:
        t.accounts.change_user("ann", role="viewer")
    assert store.accounts.authenticate(made.token, NOW_S) == Principal("ann", "viewer", "team")


def test_users_are_told_apart_by_their_exact_names(store: Store) -> None:
    with store.transaction() as t:
        t.accounts.add_user("ann", "admin")
        t.accounts.add_user("Ann", "viewer")
    assert store.accounts.user("ANN") is None
    assert [user.name for user in store.accounts.users()] == ["Ann", "ann"]
    with pytest.raises(Conflict, match="ann already"), store.transaction() as t:
        t.accounts.add_user("ann", "viewer")
    with pytest.raises(NotFound), store.transaction() as t:
        t.accounts.add_token("an")


@pytest.mark.parametrize("name", ["", " ann", "ann ", "a/b", "../x", "a\0", "a\n", "é", "-x", "a" * 101, "a%"])
def test_a_name_that_could_be_mistaken_for_another_is_refused(store: Store, name: str) -> None:
    with pytest.raises(ElastaneError, match=r"user: .* is not a name"), store.transaction() as t:
        t.accounts.add_user(name, "user")
    with pytest.raises(ElastaneError, match="tenant: "), store.transaction() as t:
        t.accounts.add_user("ok", "user", name)
    assert store.accounts.users() == []


def test_an_unknown_role_is_refused_with_those_there_are(store: Store) -> None:
    expected = "role: 'root' is not one of viewer, user, admin"
    with pytest.raises(ElastaneError, match=expected), store.transaction() as t:
        t.accounts.add_user("ann", "root")  # type: ignore[arg-type]


def test_a_quota_changes_only_what_was_said(store: Store) -> None:
    assert store.accounts.quota("team").slots is None
    with store.transaction() as t:
        t.accounts.set_quota("team", 4, 2.0, False)
        made = t.accounts.set_quota("team", 8)
    assert (made.slots, made.weight, made.lends) == (8, 2.0, False)
    with store.transaction() as t:
        t.accounts.set_quota("team", None, lends=True)
    assert store.accounts.quotas() == [store.accounts.quota("team")]
    assert (store.accounts.quota("team").slots, store.accounts.quota("team").lends) == (None, True)


def test_the_audit_log_keeps_order(store: Store) -> None:
    with store.transaction() as t:
        for number in range(3):
            t.accounts.add_audit("ann", "cancel", f"j{number}", "ok")
    assert [entry.target for entry in store.accounts.audit_log()] == ["j0", "j1", "j2"]
    assert [entry.seq for entry in store.accounts.audit_log(after=1, limit=1)] == [2]
