"""Names the states of a job's membership between two plans: a ``Transition`` is exactly one of these.

========== ============================================= ==============================================
state      what goes on                                  what ends it
========== ============================================= ==============================================
Steady     the present members train, or nobody yet      a plan is published
Preparing  members train, a plan's group is being built  all are prepared; or the plan is given up
Entering   members go over to a plan, at a boundary      all have entered; a death
Recovering a generation has broken, its members stop     all have said which step they applied last
Abandoned  training ends while an urgent plan is entered the end; a death
Adopting   workers of a supervisor before come back      all are back, or a lease has passed
========== ============================================= ==============================================
"""

from __future__ import annotations

from dataclasses import dataclass

from elastane.train.coordinator.membership_plan import Kind, Plan


@dataclass(frozen=True, slots=True)
class Steady:
    """No change of members is under way."""

    plain_copy: bool = False
    """The next who join copy the state instead of following the training: that has just failed."""


@dataclass(frozen=True, slots=True)
class Preparing:
    """A plan is prepared in the background; nobody has entered it, so it can still be given up."""

    plan: Plan
    since_s: float
    plain_copy: bool = False
    prepared: bool = False
    """Everybody is, and a loop over the data has to begin (``Plan.at_loop``)."""


@dataclass(frozen=True, slots=True)
class Entering:
    """Members enter a plan; it can only be completed or broken."""

    plan: Plan
    since_s: float


@dataclass(frozen=True, slots=True)
class Recovering:
    """The members of a broken generation say which step they applied last; then they get an urgent plan."""


@dataclass(frozen=True, slots=True)
class Abandoned:
    """An urgent plan was given up because the job ends; a death among those who enter it still breaks it."""

    kind: Kind


@dataclass(frozen=True, slots=True)
class Adopting:
    """A new coordinator waits for the workers of the one before."""

    until_s: float
    broken: bool = False
    """A generation has broken meanwhile: it is recovered once all are back."""


Transition = Steady | Preparing | Entering | Recovering | Abandoned | Adopting


def under_way(transition: Transition) -> Plan | None:
    """The plan that is being prepared or entered."""
    return transition.plan if isinstance(transition, Preparing | Entering) else None


def recovers(transition: Transition) -> bool:
    """Whether a generation has broken, and the one that follows it has not begun."""
    match transition:
        case Recovering() | Adopting(broken=True):
            return True
        case Entering(plan):
            return plan.kind is Kind.RECOVER
        case Abandoned(kind):
            return kind is Kind.RECOVER
    return False


def broken(transition: Transition) -> bool:
    """Whether a generation has broken, and there is no plan yet for the one that follows it."""
    return recovers(transition) and under_way(transition) is None
