"""Transports carry gradients between the members of a generation: one contract, a class for each way."""

from elastane.train.transport_choice import Choice, MemberDevice, TransportKind, choose_transport
from elastane.train.transports.contract import HostGroup, NoTransport, Pending, Transport
from elastane.train.transports.gloo_cpu import GlooCpu
from elastane.train.transports.named_store import NamedExchange, NamedStore
from elastane.train.transports.nccl_like import NcclLike, Patience
from elastane.train.transports.staged import Staged
from elastane.train.transports.through_host import through_host

__all__ = [
    "Choice",
    "GlooCpu",
    "HostGroup",
    "MemberDevice",
    "NamedExchange",
    "NamedStore",
    "NcclLike",
    "NoTransport",
    "Patience",
    "Pending",
    "Staged",
    "Transport",
    "TransportKind",
    "choose_transport",
    "through_host",
]
