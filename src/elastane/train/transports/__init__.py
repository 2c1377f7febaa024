"""How gradients travel between the members of a generation: one contract, a class for each way."""

from elastane.train.transports.choice import Choice, MemberDevice, choose_transport
from elastane.train.transports.contract import HostGroup, NoTransport, Pending, Transport, TransportKind
from elastane.train.transports.gloo_cpu import GlooCpu
from elastane.train.transports.named_store import NamedExchange, NamedStore
from elastane.train.transports.nccl_like import NcclLike, Patience
from elastane.train.transports.staged import Staged

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
]
