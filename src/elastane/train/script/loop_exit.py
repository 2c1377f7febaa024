"""``LoopExit`` tells a loop that was left by ``break`` from one whose body raised the error that ends the script.

To the loader both are the same: its generator is closed, with no word why.  But the generator is closed by the frame
that held it, and that frame stands then at the instruction that an error's traceback names, too.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import CodeType


@dataclass(frozen=True, slots=True)
class LoopExit:
    """Where a loop was left."""

    code: CodeType
    instruction: int
    handled: int
    """Identity of the error that was handled then: frameworks close what they iterate over when they clean up."""

    @classmethod
    def now(cls, leaving: GeneratorExit) -> LoopExit | None:
        """To be called by the generator itself, when it is closed."""
        holder = sys._getframe(1).f_back
        if holder is None:
            return None
        return cls(holder.f_code, holder.f_lasti, id(leaving.__context__) if leaving.__context__ else 0)

    def was_by(self, error: BaseException) -> bool:
        """Whether it was this error."""
        if self.handled == id(error):
            return True
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code is self.code and trace.tb_lasti == self.instruction:
                return True
            trace = trace.tb_next
        return False
