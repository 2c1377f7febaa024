"""Accounts as the API wants them, kept in the store."""

from __future__ import annotations

from collections.abc import Callable

from elastane.service.facade import Principal
from elastane.service.messages import AuditRecord, NewToken, Role, TokenInfo, UserInfo
from elastane.service.store import Store


class StoredAccounts:
    """Implements ``api.accounts.Accounts``."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock

    def authenticate(self, token: str) -> Principal | None:
        """Whose token it is."""
        return self._store.authenticate(token, self._clock())

    def users(self) -> list[UserInfo]:
        """Everybody who may log in."""
        return self._store.users()

    def add_user(self, name: str, role: Role, tenant: str) -> UserInfo:
        """Let somebody in."""
        with self._store.transaction() as t:
            return t.add_user(name, role, tenant)

    def remove_user(self, name: str) -> None:
        """Take somebody out."""
        with self._store.transaction() as t:
            t.remove_user(name)

    def set_role(self, name: str, role: Role) -> UserInfo:
        """Give a user other rights."""
        with self._store.transaction() as t:
            return t.change_user(name, role=role)

    def tokens(self, user: str | None = None) -> list[TokenInfo]:
        """Tokens of a user, or of all."""
        return self._store.tokens(user)

    def new_token(self, user: str, label: str, expires_s: float | None) -> NewToken:
        """A token that is seen once."""
        with self._store.transaction() as t:
            return t.add_token(user, label=label, expires_s=expires_s)

    def revoke_token(self, token_id: str) -> TokenInfo:
        """Refuse a token from now on."""
        with self._store.transaction() as t:
            return t.revoke_token(token_id)

    def audit(self, who: str, action: str, target: str, outcome: str) -> None:
        """Remember who asked for what."""
        with self._store.transaction() as t:
            t.add_audit(who, action, target, outcome)

    def audit_log(self, after: int, limit: int) -> list[AuditRecord]:
        """The entries after this one."""
        return self._store.audit_log(after, limit)
