"""Nobody may ask so often that others notice."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from elastane.service.api.rate_limits import Buckets
from service.api.house import House

INFO = "/api/v1/info"


class Clock:
    """Time that passes when told."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_burst_is_let_through_and_then_the_rate(tmp_path: Path) -> None:
    clock = Clock()
    house = House(tmp_path, rate_per_s=2.0, burst=3, clock=clock)
    statuses = [house.ask("GET", INFO, "owner").status_code for _ in range(4)]
    assert statuses == [200, 200, 200, 429]
    clock.now_s += 0.5
    assert [house.ask("GET", INFO, "owner").status_code for _ in range(2)] == [200, 429]


def test_a_refusal_says_when_to_try_again(tmp_path: Path) -> None:
    house = House(tmp_path, rate_per_s=0.25, burst=1, clock=Clock())
    house.ask("GET", INFO, "owner")
    assert house.ask("GET", INFO, "owner").headers["retry-after"] == "4"


def test_one_who_is_over_the_limit_does_not_slow_others(tmp_path: Path) -> None:
    house = House(tmp_path, burst=1, anonymous_burst=1, clock=Clock())
    assert [house.ask("GET", INFO, "owner").status_code for _ in range(2)] == [200, 429]
    assert house.ask("GET", INFO, "other").status_code == 200
    assert house.ask("GET", INFO).status_code == 401
    assert house.ask("GET", INFO).status_code == 429
    assert house.ask("GET", INFO, "admin").status_code == 200


def test_guessing_tokens_is_limited_by_address_and_remembers_no_guess(tmp_path: Path) -> None:
    house = House(tmp_path, anonymous_burst=5, clock=Clock())
    statuses = [house.ask("GET", INFO, f"guess{n}").status_code for n in range(7)]
    assert statuses == [401] * 5 + [429] * 2
    assert (len(house.desk.callers), len(house.desk.strangers)) == (0, 1)


def test_memory_is_bounded_and_the_latest_are_kept() -> None:
    buckets = Buckets(1.0, 1, Clock(), most=10)
    for caller in range(100):
        buckets.wait_s(b"%d" % caller)
    assert len(buckets) == 10
    assert buckets.wait_s(b"99") > 0
    assert buckets.wait_s(b"0") == 0


@given(st.lists(st.floats(-1.0, 3.0), max_size=60))
def test_never_more_than_the_burst_and_what_the_time_allows(pauses_s: list[float]) -> None:
    clock, passed_s, let_in = Clock(), 0.0, 0
    buckets = Buckets(2.0, 5, clock, most=10)
    for pause_s in pauses_s:
        clock.now_s += pause_s  # also backwards
        passed_s += max(0.0, pause_s)
        let_in += buckets.wait_s(b"x") == 0
    assert let_in <= 5 + 2.0 * passed_s + 1e-6


def test_more_tokens_are_not_more_requests(tmp_path: Path) -> None:
    house = House(tmp_path, burst=5, clock=Clock())
    tokens = [house.accounts.new_token("owner", "", None).token for _ in range(4)]
    headers = [{"Authorization": f"Bearer {token}"} for token in tokens]
    statuses = [house.ask("GET", INFO, headers=headers[turn % 4]).status_code for turn in range(8)]
    assert statuses == [200] * 5 + [429] * 3
    assert house.ask("GET", INFO, "other").status_code == 200
