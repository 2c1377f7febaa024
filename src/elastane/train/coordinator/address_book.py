"""Keeps where the members of the latest generations are reached, for those who connect later."""

from __future__ import annotations

from collections.abc import Iterator

from elastane.train.coordinator.messages import Address, MemberAddress

_KEPT = 2
"""Generations before the present one of which addresses are still wanted."""


class AddressBook:
    """Group addresses by generation and rank."""

    def __init__(self) -> None:
        self._known: dict[int, dict[int, Address]] = {}

    def begin(self, generation: int) -> None:
        """Members of this generation will say where they are; those of long ago are forgotten."""
        self._known = {g: known for g, known in self._known.items() if g >= generation - _KEPT}
        self._known[generation] = {}

    def take(self, address: Address) -> bool:
        """Keep an address; False for a generation that nobody is interested in."""
        known = self._known.get(address.generation)
        if known is None:
            return False
        known[address.rank] = address
        return True

    def all(self) -> Iterator[MemberAddress]:
        """Everything there is to say to a worker that connects."""
        for known in self._known.values():
            yield from map(news_of, known.values())


def news_of(address: Address) -> MemberAddress:
    """What the other members are told."""
    return MemberAddress(address.generation, address.rank, address.data)
