"""As whom jobs run: chosen when the service starts (``elastane up --jobs-as``), and found for each tenant.

``me`` is the service's own user.  A tenant's user is mapped, or made (``el-TENANT``) when its first job starts; one of
that name that was not made for this home is never used, since somebody else may be behind it.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import re
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from elastane.engines.local.job_folders import out_of_reach
from elastane.engines.local.paths import Layout
from elastane.errors import ElastaneError
from elastane.kit.home_names import name_of
from elastane.train.coordinator.job_user import Identity

ME, TENANT = "me", "tenant"
_PREFIX = "el-"
_PLAIN = re.compile(r"[a-z0-9][a-z0-9_-]{0,27}")
_HASHED = re.compile(r".*-[0-9a-f]{10}")
_USERADD_S = 30.0
_TRIES, _AGAIN_S = 20, 0.25


def user_name(tenant: str) -> str:
    """The name of a tenant's user; different tenants have different ones, none is longer than 31 characters.

    >>> user_name("vision"), user_name("Vision")
    ('el-vision', 'el-vision-c587c2601c')
    """
    if _PLAIN.fullmatch(tenant) and not _HASHED.fullmatch(tenant):
        return _PREFIX + tenant
    short = re.sub(r"[^a-z0-9]", "", tenant.lower())[:16]
    return f"{_PREFIX}{short}-{hashlib.sha256(tenant.encode()).hexdigest()[:10]}"


@dataclass(frozen=True, slots=True)
class JobsAs:
    """Who runs what: ``me``, ``tenant``, or the name of a user for all jobs."""

    who: str = ME
    mapped: Mapping[str, str] = field(default_factory=dict)
    """Users that tenants have already; others are made."""

    @classmethod
    def chosen(cls, who: str | None, mapped: Sequence[str] = ()) -> JobsAs:
        """What somebody asked for, if it can be had.

        Raises:
            ElastaneError: started as root without saying it, or not as root and for somebody else.
        """
        pairs = dict(_pair(text) for text in mapped)
        if pairs and who != TENANT:
            raise ElastaneError("--tenant-user: needs --jobs-as tenant")
        if os.geteuid() != 0:
            if who not in (None, ME, _own_name()):
                raise ElastaneError(f"--jobs-as {who}: only root can run jobs as somebody else; leave it out")
            return cls()
        if who is None:
            raise ElastaneError(
                "--jobs-as: you are root, so say as whom jobs run: tenant (a user for each tenant), "
                "USER (that user, for all), or me (root itself: every job can do everything)"
            )
        for name in (*pairs.values(), *([] if who in (ME, TENANT) else [who])):
            _ordinary(name)
        return cls(who, pairs)

    @property
    def shared(self) -> bool:
        """Whether jobs run as the service's own user."""
        return self.who == ME

    @property
    def note(self) -> str:
        """What a person should know, in one line; empty if jobs are kept apart."""
        if self.who == TENANT:
            return ""
        if self.shared:
            return f"jobs run as {_own_name()}, like Elastane itself: they can read its token and each other's files"
        return f"all jobs run as {self.who}: they can read each other's files, but not Elastane's"

    def identity(self, home: Path, tenant: str) -> Identity | None:
        """The user of a tenant's jobs, made if need be; None for the service's own.

        Raises:
            ElastaneError: it cannot be made, or is not ours to use.
        """
        if self.shared:
            return None
        if self.who != TENANT:
            return _ordinary(self.who)
        if tenant in self.mapped:
            return _ordinary(self.mapped[tenant])
        return _made(home, user_name(tenant))

    def check_reach(self, parent: Path, needed: Sequence[Path]) -> None:
        """Raise unless the users who run jobs can reach the folder of the home, and what they are run by."""
        if self.shared:
            return
        if self.closed(parent):
            raise ElastaneError(
                f"--jobs-as {self.who}: jobs cannot reach the home, because {self.closed(parent)}; "
                "set ELASTANE_HOME to another place, such as /var/lib/elastane"
            )
        for path in needed:
            if self.closed(path):
                raise ElastaneError(
                    f"--jobs-as {self.who}: jobs cannot use {path}, because {self.closed(path)}; "
                    "install Elastane where all may read it, such as /opt/elastane"
                )

    def closed(self, path: Path) -> str:
        """What keeps the users who run jobs from a path, as far as that is known; empty if nothing does."""
        if self.who != TENANT:
            place = path if path.is_dir() else path.parent
            return out_of_reach(_ordinary(self.who), str(place), "", "/bin/sh" if path.is_dir() else str(path))
        closed = closed_to_others(path)
        return f"{closed} is closed to other users" if closed is not None else ""


def closed_to_others(path: Path) -> Path | None:
    """The topmost folder on the way to a path (itself included) that others may not enter; None if all may."""
    real = path.resolve()
    return next((part for part in (*reversed(real.parents), real) if not part.stat().st_mode & 0o001), None)


def _pair(text: str) -> tuple[str, str]:
    tenant, sign, name = text.partition("=")
    if not (tenant and sign and name):
        raise ElastaneError(f"--tenant-user: {text!r} is not TENANT=USER, such as vision=ann")
    return tenant, name


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _ordinary(name: str) -> Identity:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise ElastaneError(
            f"there is no user {name} on this machine; make it with useradd, or let jobs run as tenant or me"
        ) from None
    if entry.pw_uid == 0:
        raise ElastaneError(f"the user {name} is root; jobs run as root only with --jobs-as me")
    return _identity(entry)


def _identity(entry: pwd.struct_passwd) -> Identity:
    groups = os.getgrouplist(entry.pw_name, entry.pw_gid)
    return Identity(entry.pw_name, entry.pw_uid, entry.pw_gid, tuple(groups), entry.pw_dir)


def _made(home: Path, name: str) -> Identity:
    """The user of that name if it was made for this home; made now if there is none."""
    comment = f"Elastane {name_of(home)}"
    place = Layout(home).user(name)
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        _add(name, comment, place)
        entry = pwd.getpwnam(name)
    if entry.pw_gecos.split(",")[0] != comment or entry.pw_uid == 0:
        raise ElastaneError(
            f"the user {name} was not made by Elastane for this home; if it is right, say --tenant-user TENANT={name}"
        )
    place.parent.mkdir(exist_ok=True)
    place.parent.chmod(0o711)
    place.mkdir(mode=0o700, exist_ok=True)
    os.chown(place, entry.pw_uid, entry.pw_gid, follow_symlinks=False)
    return _identity(entry)


def _add(name: str, comment: str, place: Path) -> None:
    program = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if program is None:
        raise ElastaneError(f"there is no useradd to make the user {name}; make it, and say --tenant-user")
    words = [program, "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin"]
    words += ["--home-dir", str(place), "--comment", comment, name]
    said = ""
    for _ in range(_TRIES):
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=_USERADD_S)  # noqa: S603
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ElastaneError(f"the user {name} cannot be made: {error}") from None
        if not done.returncode or _exists(name):  # somebody else may have been faster
            return
        said = " ".join(done.stderr.split()) or f"useradd ended with {done.returncode}"
        if "lock" not in said:
            break
        time.sleep(_AGAIN_S)  # another one is being made at this moment
    raise ElastaneError(f"the user {name} cannot be made: {said}")


def _exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
