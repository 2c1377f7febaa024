"""The Python client of a running Elastane."""

from elastane.client.client import Client
from elastane.client.errors import (
    Busy,
    ClientError,
    Forbidden,
    NotFoundError,
    NotRunning,
    RequestRefused,
    SpecRefused,
    Unauthorized,
)

__all__ = [
    "Busy",
    "Client",
    "ClientError",
    "Forbidden",
    "NotFoundError",
    "NotRunning",
    "RequestRefused",
    "SpecRefused",
    "Unauthorized",
]
