"""Offers hosts in a box: machines made of Linux namespaces, with a network whose cables can be pulled."""

from elastane.testing.hosts.box import Box, Host, why_not
from elastane.testing.hosts.cluster import Cluster

__all__ = ["Box", "Cluster", "Host", "why_not"]
