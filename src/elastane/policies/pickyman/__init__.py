"""In the style of PickyMan (IPCCC'22): running jobs make room at the ends of their epochs, if that destroys little."""

from elastane.policies.pickyman.policy import PickyMan

__all__ = ["PickyMan"]
