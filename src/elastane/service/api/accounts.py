"""The interface that the API has to accounts: users, their tokens, and the audit log."""

from __future__ import annotations

from typing import Protocol

from elastane.service.messages import AuditRecord, NewToken, Role, TokenInfo, UserInfo
from elastane.service.protocol import Principal


class Accounts(Protocol):
    """Users, their tokens and the audit log.  Calls are quick; a user's mistake is an ``ElastaneError``."""

    def authenticate(self, token: str) -> Principal | None:
        """Whose token it is; None for one that is unknown, expired or revoked."""
        ...

    def users(self) -> list[UserInfo]:
        """All users, with roles and tenants."""
        ...

    def add_user(self, name: str, role: Role, tenant: str) -> UserInfo:
        """Add a user; ``Conflict`` if the name is taken."""
        ...

    def remove_user(self, name: str) -> None:
        """Remove a user together with all tokens; ``NotFound`` if there is no such user."""
        ...

    def set_role(self, name: str, role: Role) -> UserInfo:
        """Give a user other rights; ``NotFound`` if there is no such user."""
        ...

    def tokens(self, user: str | None = None) -> list[TokenInfo]:
        """Tokens of a user, or (None) of all."""
        ...

    def new_token(self, user: str, label: str, expires_s: float | None) -> NewToken:
        """A token that is good until ``expires_s``, a moment in Unix seconds as in ``TokenInfo``; None is for ever."""
        ...

    def revoke_token(self, token_id: str) -> TokenInfo:
        """Refuse a token from now on; ``NotFound`` if there is none of this id."""
        ...

    def audit(self, who: str, action: str, target: str, outcome: str) -> None:
        """Remember that a user asked for a change, and what became of it."""
        ...

    def audit_log(self, after: int, limit: int) -> list[AuditRecord]:
        """The entries after this one, the oldest first."""
        ...
