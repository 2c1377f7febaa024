"""Predicts a new job from past jobs: a bounded pool of experiences, searched by similarity at submission."""

from elastane.models.history.experience import Experience, NoisePoint, Timing
from elastane.models.history.files import load_pool, save_pool
from elastane.models.history.pool import Pool
from elastane.models.history.prior import Memory
from elastane.models.history.signature import Signature

__all__ = [
    "Experience",
    "Memory",
    "NoisePoint",
    "Pool",
    "Signature",
    "Timing",
    "load_pool",
    "save_pool",
]
