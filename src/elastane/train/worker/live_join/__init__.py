"""Joining without a stop: a newcomer follows the training until it is an exact replica, then takes part.

The donor sends each parameter with its optimizer state once, and from then on that parameter's reduced
gradients.  The newcomer applies to each parameter the gradients that came after its copy, with the same
optimizer, so its bits are the donor's.  It works for optimizers that update each parameter from that parameter's
own state and gradient alone.

Nothing is copied for it on a CPU, as a rule.  Parameters stand still from one optimizer step to the next, the reduced
gradient until the next backward is done, so a thread sends both straight from where they lie.  What it has not
sent when the training needs that memory again (``yield_gradients``, ``yield_parameters``) is copied then.  From a
device everything is copied, into pinned memory of the host and beside the training, whose stream (not the host) waits
for the copy before it overwrites anything.

A loss scaler unscales the reduced gradient where it lies, and leaves out steps whose gradient is not finite.  A donor
sends what its optimizer saw, and nothing of a step that was left out; the scale itself is part of the small rest.

``followable`` says for which jobs this holds; ``frames`` is what travels, ``sender`` the donor's side (``copy_budget``
what it may copy at once from a device), ``receiver`` the newcomer's.
"""

from __future__ import annotations

from elastane.train.worker.live_join.followable import can_follow, unscales_in_place, update_kinds
from elastane.train.worker.live_join.receiver import ShadowReceiver
from elastane.train.worker.live_join.sender import ShadowSender

__all__ = ["ShadowReceiver", "ShadowSender", "can_follow", "unscales_in_place", "update_kinds"]
