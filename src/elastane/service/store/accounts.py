"""Accounts in the store: users, tokens, quotas of tenants, the audit log.  Names match exactly or not at all."""

from __future__ import annotations

import re
from typing import get_args

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert as insert_or

from elastane.errors import ElastaneError
from elastane.service.messages import AuditRecord, NewToken, QuotaInfo, Role, TokenInfo, UserInfo
from elastane.service.protocol import Conflict, NotFound, Principal
from elastane.service.store import token_secrets
from elastane.service.store.database import Database
from elastane.service.store.prepared import Found, Prepared
from elastane.service.store.tables import audit, quotas, tokens, users

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)

_TOKEN = Prepared(
    sa.select(tokens.c.digest, tokens.c.expires_s, tokens.c.revoked, users.c.name, users.c.role, users.c.tenant)
    .join_from(tokens, users, tokens.c.user == users.c.name)
    .where(tokens.c.id == sa.bindparam("wanted"))
)
_TOKENS = sa.select(
    tokens.c.id, tokens.c.user, tokens.c.label, tokens.c.created_s, tokens.c.expires_s, tokens.c.revoked
).order_by(tokens.c.user, tokens.c.created_s, tokens.c.id)
_ADD_AUDIT = Prepared(sa.insert(audit))
_QUOTAS = Prepared(sa.select(quotas).order_by(quotas.c.tenant))
_SET_QUOTA = insert_or(quotas)
_SET_QUOTA = _SET_QUOTA.on_conflict_do_update(
    index_elements=["tenant"],
    set_={name: _SET_QUOTA.excluded[name] for name in ("slots", "weight", "lends")},
)


class AccountReads:
    """Queries on users, tokens, quotas and the audit log."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def authenticate(self, token: str, now_s: float) -> Principal | None:
        """Whose token this is; None for one that is wrong, expired or revoked, and for anything else."""
        parts = token_secrets.split(token)
        found = None if parts is None else self._db.first(_TOKEN, {"wanted": parts.id})
        if parts is None or found is None:
            return None
        matches = token_secrets.matches(parts, found["digest"])
        expired = found["expires_s"] is not None and now_s >= found["expires_s"]
        if not matches or expired or found["revoked"]:
            return None
        return Principal(found["name"], found["role"], found["tenant"], found["expires_s"])

    def user(self, name: str) -> UserInfo | None:
        """The user with exactly this name."""
        return self._db.one(_user, sa.select(users).where(users.c.name == name))

    def users(self) -> list[UserInfo]:
        """All users, by name."""
        return self._db.all(_user, sa.select(users).order_by(users.c.name))

    def token(self, token_id: str) -> TokenInfo | None:
        """What is known of the token with exactly this id."""
        return self._db.one(_token, _TOKENS.where(tokens.c.id == token_id))

    def tokens(self, user: str | None = None) -> list[TokenInfo]:
        """Of one user or of all; revoked ones too."""
        return self._db.all(_token, _TOKENS if user is None else _TOKENS.where(tokens.c.user == user))

    def expired_tokens(self, now_s: float) -> list[TokenInfo]:
        """Those whose end has come and that are not closed yet."""
        return self._db.all(_token, _TOKENS.where(_expired(now_s)))

    def quota(self, tenant: str) -> QuotaInfo:
        """The quota of a tenant; without limits where none was set."""
        found = self._db.one(_quota, sa.select(quotas).where(quotas.c.tenant == tenant))
        return found or QuotaInfo(tenant=tenant)

    def quotas(self) -> list[QuotaInfo]:
        """Those that were set, by tenant."""
        return self._db.all(_quota, _QUOTAS)

    def audit_log(self, after: int = 0, limit: int = 1000) -> list[AuditRecord]:
        """Entries after this one, oldest first."""
        query = sa.select(audit).where(audit.c.seq > after).order_by(audit.c.seq).limit(max(0, limit))
        return self._db.all(lambda row: AuditRecord(**row), query)


class AccountWrites(AccountReads):
    """Changes of accounts, within a transaction."""

    def add_user(self, name: str, role: Role, tenant: str = "default") -> UserInfo:
        """Add a user, who may have tokens from then on."""
        made = UserInfo(
            name=checked_name("user", name), role=_role(role), tenant=checked_name("tenant", tenant)
        )
        if self.user(name) is not None:
            raise Conflict(f"there is a user {name} already")
        self._db.write(sa.insert(users), made.model_dump())
        return made

    def change_user(self, name: str, *, role: Role | None = None, tenant: str | None = None) -> UserInfo:
        """Another role or tenant; None leaves it as it is."""
        known = self._known(name)
        made = UserInfo(
            name=name,
            role=known.role if role is None else _role(role),
            tenant=known.tenant if tenant is None else checked_name("tenant", tenant),
        )
        change = {"role": made.role, "tenant": made.tenant}
        self._db.write(sa.update(users).where(users.c.name == name).values(change))
        return made

    def remove_user(self, name: str) -> None:
        """Remove a user and all tokens; the user's jobs stay."""
        self._known(name)
        self._db.write(sa.delete(users).where(users.c.name == name))

    def add_token(self, user: str, *, label: str = "", expires_s: float | None = None) -> NewToken:
        """Add a token for a user.  Its secret is not stored: it is seen here and never again."""
        self._known(user)
        new = token_secrets.make()
        info = TokenInfo(id=new.id, user=user, label=label, created_s=self._db.clock(), expires_s=expires_s)
        self._db.write(sa.insert(tokens), {**info.model_dump(), "digest": token_secrets.digest(new)})
        return NewToken(**info.model_dump(), token=token_secrets.join(new))

    def revoke_token(self, token_id: str) -> TokenInfo:
        """It opens nothing from now on."""
        self._db.write(sa.update(tokens).where(tokens.c.id == token_id).values(revoked=True))
        found = self.token(token_id)
        if found is None:
            raise NotFound(f"there is no token with the id {token_id!r}; 'elastane token list' shows all")
        return found

    def close_expired_tokens(self, now_s: float) -> None:
        """Those whose end has come open nothing any more, whatever the clock says later."""
        self._db.write(sa.update(tokens).where(_expired(now_s)).values(revoked=True))

    def forget_token(self, token_id: str) -> None:
        """Nothing is known of it from now on, so it opens nothing either."""
        self._db.write(sa.delete(tokens).where(tokens.c.id == token_id))

    def set_quota(
        self, tenant: str, slots: int | None, weight: float | None = None, lends: bool | None = None
    ) -> QuotaInfo:
        """What a tenant may hold; None leaves weight and lending as they are, and lifts the limit on slots."""
        known = self.quota(checked_name("tenant", tenant))
        made = QuotaInfo(
            tenant=tenant,
            slots=slots,
            weight=known.weight if weight is None else weight,
            lends=known.lends if lends is None else lends,
        )
        self._db.write(_SET_QUOTA, made.model_dump(exclude={"used"}))
        return made

    def add_audit(self, user: str, action: str, target: str = "", outcome: str = "") -> int:
        """Add an entry to the audit log; returns its number."""
        values = {
            "seq": None,
            "at_s": self._db.clock(),
            "user": user,
            "action": action,
            "target": target,
            "outcome": outcome,
        }
        return int(self._db.write(_ADD_AUDIT, values).lastrowid or 0)

    def _known(self, name: str) -> UserInfo:
        found = self.user(name)
        if found is None:
            raise NotFound(f"there is no user {name!r}")
        return found


def _expired(now_s: float) -> sa.ColumnElement[bool]:
    return sa.and_(tokens.c.expires_s <= now_s, tokens.c.revoked.is_(False))


def checked_name(what: str, name: str) -> str:
    """A name that can be told from every other by looking at it."""
    if not _NAME.fullmatch(name):
        raise ElastaneError(
            f"{what}: {name[:40]!r} is not a name; use up to 100 letters, digits, '.', '_' and '-', "
            "beginning with a letter or digit"
        )
    return name


def _role(role: Role) -> Role:
    known = get_args(Role)
    if role not in known:
        raise ElastaneError(f"role: {role!r} is not one of {', '.join(known)}")
    return role


def _user(found: Found) -> UserInfo:
    return UserInfo(**found)


def _token(found: Found) -> TokenInfo:
    return TokenInfo(**found)


def _quota(found: Found) -> QuotaInfo:
    return QuotaInfo(**found)
