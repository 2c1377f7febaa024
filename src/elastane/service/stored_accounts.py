"""Accounts as the API wants them, kept in the store.

Entries of the audit log are written together a moment later: a write to disk for each would double what a change costs.
A kill within that moment loses them; what was changed is in the jobs and their events anyway.  Submissions are the
exception: they are stored together with their entry.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable

from elastane.service.limits import Limits
from elastane.service.messages import AuditRecord, NewToken, Role, TokenInfo, UserInfo
from elastane.service.protocol import Conflict, Principal
from elastane.service.store import StaleControlPlane, Store, StoreError, Transaction

_MOMENT_S, _AGAIN_S = 0.2, 2.0
log = logging.getLogger("elastane")


class StoredAccounts:
    """Implements ``api.accounts.Accounts`` over the store."""

    def __init__(
        self, store: Store, clock: Callable[[], float], tokens_per_user: int = Limits().tokens_per_user
    ) -> None:
        self._store = store
        self._clock = clock
        self._tokens_per_user = tokens_per_user
        self._unwritten: list[tuple[str, str, str, str]] = []

    def authenticate(self, token: str) -> Principal | None:
        """The user whose token this is, or None."""
        return self._store.accounts.authenticate(token, self._clock())

    def users(self) -> list[UserInfo]:
        """All users, with roles and tenants."""
        return self._store.accounts.users()

    def add_user(self, name: str, role: Role, tenant: str) -> UserInfo:
        """Add a user to the store."""
        with self._store.transaction() as t:
            return t.accounts.add_user(name, role, tenant)

    def remove_user(self, name: str) -> None:
        """Remove a user and all tokens from the store."""
        with self._store.transaction() as t:
            t.accounts.remove_user(name)

    def set_role(self, name: str, role: Role) -> UserInfo:
        """Change a user's role in the store."""
        with self._store.transaction() as t:
            return t.accounts.change_user(name, role=role)

    def tokens(self, user: str | None = None) -> list[TokenInfo]:
        """Tokens of a user, or of all."""
        return self._store.accounts.tokens(user)

    def new_token(self, user: str, label: str, expires_s: float | None) -> NewToken:
        """Make a token, which is shown once; ``Conflict`` if the user has too many."""
        with self._store.transaction() as t:
            self._make_room(t, user)
            return t.accounts.add_token(user, label=label, expires_s=expires_s)

    def _make_room(self, t: Transaction, user: str) -> None:
        """Refuse one more than a user may have; of those that open nothing any more the latest are kept, to be seen."""
        held, most, now_s = t.accounts.tokens(user), self._tokens_per_user, self._clock()
        good = [token for token in held if not (token.revoked or (token.expires_s or math.inf) <= now_s)]
        if len(good) >= most:
            raise Conflict(
                f"user {user} has {len(good)} tokens and may have {most}; take one back with "
                "'elastane token revoke ID', or let an admin raise 'elastane up --max-tokens'"
            )
        for gone in [token for token in held if token not in good][:-most]:
            t.accounts.forget_token(gone.id)

    def revoke_token(self, token_id: str) -> TokenInfo:
        """Refuse a token from now on."""
        with self._store.transaction() as t:
            return t.accounts.revoke_token(token_id)

    def audit(self, who: str, action: str, target: str, outcome: str) -> None:
        """Add an entry to the audit log, written a little later with others."""
        if not self._unwritten:
            asyncio.get_running_loop().call_later(_MOMENT_S, self._flush_later)
        self._unwritten.append((who, action, target, outcome))

    def _flush_later(self) -> None:
        """Write, again and again where the store cannot take it just now."""
        try:
            self.flush()
        except StaleControlPlane:
            log.warning("%d entries of the audit log are not written: another took over", len(self._unwritten))
        except StoreError as error:
            log.warning("the audit log is written later: %s", error)
            asyncio.get_running_loop().call_later(_AGAIN_S, self._flush_later)
        except Exception:  # a defect: what can never be written must not keep the rest from it
            log.exception("entries of the audit log cannot be written: %s", self._unwritten)
            self._unwritten.clear()

    def flush(self) -> None:
        """Write the audit entries that are not stored yet."""
        entries = list(self._unwritten)
        if entries:
            with self._store.transaction() as t:
                for who, action, target, outcome in entries:
                    t.accounts.add_audit(who, action, target, outcome)
            del self._unwritten[: len(entries)]  # only now: a full disk must not lose them

    def audit_log(self, after: int, limit: int) -> list[AuditRecord]:
        """The entries after this one."""
        self.flush()
        return self._store.accounts.audit_log(after, limit)
