"""The tables as queries see them; ``migrations`` is what makes them."""

from __future__ import annotations

import sqlalchemy as sa

_all = sa.MetaData()

fence = sa.Table(
    "fence",
    _all,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("epoch", sa.Integer, nullable=False),
)

jobs = sa.Table(
    "jobs",
    _all,
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("tenant", sa.Text, nullable=False),
    sa.Column("spec", sa.JSON, nullable=False),
    sa.Column("directory", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("terminal", sa.Boolean, nullable=False),
    sa.Column("held", sa.Boolean, nullable=False),
    sa.Column("pinned_workers", sa.Integer),
    sa.Column("pinned_node", sa.Text),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("kind_reason", sa.Text, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("grant", sa.JSON(none_as_null=True)),
    sa.Column("ending", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("code", sa.Integer),
    sa.Column("submitted_s", sa.REAL, nullable=False),
    sa.Column("first_start_s", sa.REAL),
    sa.Column("last_change_s", sa.REAL, nullable=False),
    sa.Column("ended_s", sa.REAL),
    sa.Column("as_of_s", sa.REAL, nullable=False),
    sa.Column("service_gpu_s", sa.REAL, nullable=False),
    sa.Column("held_s", sa.REAL, nullable=False),
    sa.Column("restarts", sa.Integer, nullable=False),
    sa.Column("failures", sa.Integer, nullable=False),
    sa.Column("seen", sa.Integer, nullable=False),
    sa.Column("training", sa.JSON, nullable=False),
    sa.Column("profile", sa.JSON, nullable=False),
    sa.Column("verdict", sa.Text, nullable=False),
    sa.Column("exit", sa.JSON(none_as_null=True)),
    sa.Column("changes", sa.Integer, nullable=False),
    sa.Column("code_from", sa.JSON(none_as_null=True)),
)

request_keys = sa.Table(
    "request_keys",
    _all,
    sa.Column("user", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("job", sa.Integer, nullable=False),
)

events = sa.Table(
    "events",
    _all,
    sa.Column("seq", sa.Integer, primary_key=True),
    sa.Column("at_s", sa.REAL, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("job", sa.Integer),
    sa.Column("body", sa.JSON, nullable=False),
)

decisions = sa.Table(
    "decisions",
    _all,
    sa.Column("seq", sa.Integer, primary_key=True),
    sa.Column("at_s", sa.REAL, nullable=False),
    sa.Column("policy", sa.Text, nullable=False),
    sa.Column("took_ms", sa.REAL, nullable=False),
    sa.Column("problem", sa.Text, nullable=False),
    sa.Column("view", sa.LargeBinary, nullable=False),
    sa.Column("plan", sa.LargeBinary, nullable=False),
)

experiences = sa.Table(
    "experiences",
    _all,
    sa.Column("seq", sa.Integer, primary_key=True),
    sa.Column("job", sa.Integer, nullable=False),
    sa.Column("body", sa.JSON, nullable=False),
)

settings = sa.Table(
    "settings",
    _all,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("value", sa.JSON, nullable=False),
)

users = sa.Table(
    "users",
    _all,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("tenant", sa.Text, nullable=False),
)

tokens = sa.Table(
    "tokens",
    _all,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("user", sa.Text, nullable=False),
    sa.Column("label", sa.Text, nullable=False),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("created_s", sa.REAL, nullable=False),
    sa.Column("expires_s", sa.REAL),
    sa.Column("revoked", sa.Boolean, nullable=False),
)

quotas = sa.Table(
    "quotas",
    _all,
    sa.Column("tenant", sa.Text, primary_key=True),
    sa.Column("slots", sa.Integer),
    sa.Column("weight", sa.REAL, nullable=False),
    sa.Column("lends", sa.Boolean, nullable=False),
)

audit = sa.Table(
    "audit",
    _all,
    sa.Column("seq", sa.Integer, primary_key=True),
    sa.Column("at_s", sa.REAL, nullable=False),
    sa.Column("user", sa.Text, nullable=False),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("target", sa.Text, nullable=False),
    sa.Column("outcome", sa.Text, nullable=False),
)

ALL = tuple(_all.sorted_tables)
"""For the test that compares them with what the migrations make."""
