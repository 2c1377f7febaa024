"""Keeps where the members of the latest generations are reached, for those who connect later."""

from __future__ import annotations

from collections.abc import Iterator

from elastane.train.coordinator.messages import Address, MemberAddress

_KEPT = 2
"""Generations before the present one of which addresses are still wanted."""
_MOST_NAMES, _LONGEST = 64, 1 << 16
"""Of one member in one generation; a communicator needs two or three short ones."""


class AddressBook:
    """Group addresses by generation, rank and name."""

    def __init__(self) -> None:
        self._known: dict[int, dict[tuple[int, str], Address]] = {}

    def begin(self, generation: int) -> None:
        """Members of this generation will say where they are; those of long ago are forgotten."""
        self._known = {g: known for g, known in self._known.items() if g >= generation - _KEPT}
        self._known[generation] = {}

    def take(self, address: Address) -> bool:
        """Keep an address; False for a generation that nobody is interested in."""
        known = self._known.get(address.generation)
        if known is None or len(address.data) > _LONGEST or len(address.name) > _LONGEST:
            return False
        mine = sum(rank == address.rank for rank, _ in known)
        if (address.rank, address.name) not in known and mine > _MOST_NAMES:
            return False
        known[address.rank, address.name] = address
        return True

    def all(self) -> Iterator[MemberAddress]:
        """Everything there is to say to a worker that connects."""
        for known in self._known.values():
            yield from map(news_of, known.values())


def news_of(address: Address) -> MemberAddress:
    """What the other members are told."""
    return MemberAddress(address.generation, address.rank, address.data, address.name)
