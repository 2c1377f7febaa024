"""Joining without a stop: a newcomer follows the training until it is an exact replica, then takes part.

The donor sends each parameter with its optimizer state once, and from then on that parameter's reduced
gradients.  The newcomer applies to each parameter the gradients that came after its copy, with the same
optimizer, so its bits are the donor's.  It works for optimizers that update each parameter from that parameter's
own state and gradient alone.

Nothing is copied for it as a rule.  Parameters stand still from one optimizer step to the next, the reduced
gradient until the next backward is done, so a thread sends both straight from where they lie.  What it has not
sent when the training needs that memory again (``yield_gradients``, ``yield_parameters``) is copied then.

``frames`` is what travels, ``sender`` the donor's side, ``receiver`` the newcomer's.
"""

from __future__ import annotations

from elastane.train.worker.live_join.receiver import ShadowReceiver
from elastane.train.worker.live_join.sender import ShadowSender, can_follow

__all__ = ["ShadowReceiver", "ShadowSender", "can_follow"]
