"""Nodes, accelerators, topology, and the grants of them that jobs hold."""

from elastane.cluster.grants import Batch, Grant, Slice
from elastane.cluster.nodes import Cluster, Link, Node, Tier

__all__ = ["Batch", "Cluster", "Grant", "Link", "Node", "Slice", "Tier"]
