"""What members tell each other is kept for those who connect later, as long as it is wanted, and within bounds."""

from __future__ import annotations

from elastane.train.coordinator.address_book import _LONGEST, _MOST_NAMES, AddressBook
from elastane.train.coordinator.messages import Address, MemberAddress


def begun(*generations: int) -> AddressBook:
    book = AddressBook()
    for generation in generations:
        book.begin(generation)
    return book


def test_a_member_has_an_address_and_values_under_names() -> None:
    book = begun(1)
    assert book.take(Address(1, 0, "host"))
    assert book.take(Address(1, 0, "id", "communicator"))
    assert book.take(Address(1, 0, "other host"))
    assert list(book.all()) == [MemberAddress(1, 0, "other host"), MemberAddress(1, 0, "id", "communicator")]


def test_generations_that_nobody_asks_for_are_not_kept() -> None:
    book = begun(1)
    assert not book.take(Address(2, 0, "early"))
    book.take(Address(1, 0, "host"))
    book.begin(9)
    assert list(book.all()) == []


def test_a_member_that_floods_it_is_not_kept_and_the_others_are() -> None:
    book = begun(1)
    taken = [book.take(Address(1, 0, "x", str(number))) for number in range(2 * _MOST_NAMES)]
    assert sum(taken) == _MOST_NAMES + 1
    assert not book.take(Address(1, 0, "x" * (_LONGEST + 1)))
    assert book.take(Address(1, 1, "host"))
