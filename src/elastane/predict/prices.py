"""Reads prices of devices from a file the user gives, with provider and date.  There are no built-in prices.

A CSV file with the columns provider, device, gpus, usd_per_hour (of the whole offer), source, as_of (YYYY-MM-DD) and,
if they apply, billing_granularity_s, min_gpus and spot (yes/no), for which restarts_per_day and restart_s say how often
it is taken away and what a restart loses.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from elastane.errors import ElastaneError
from elastane.predict.interval import Interval
from elastane.textfiles import LARGEST_WHOLE, UNREADABLE, lines_of, open_text

STALE_DAYS = 30
_MOST_OFFERS = 100_000
SPOT_RESTARTS = 1.0
"""Restarts per day of a spot offer where the price file does not say; the label of the offer shows it."""
_NEEDED = ("provider", "device", "gpus", "usd_per_hour", "source", "as_of")


@dataclass(frozen=True, slots=True)
class Offer:
    """An offer of ``gpus`` devices at a price per hour.  ``min_gpus`` are paid even if fewer are used."""

    provider: str
    device: str
    gpus: int
    usd_per_hour: float
    source: str
    as_of: date
    billing_granularity_s: float = 1.0
    min_gpus: int = 1
    spot: bool = False
    restarts_per_day: float = 0.0
    restart_s: float = 600.0

    def paid(self, duration: Interval) -> Interval:
        """Returns the seconds that are paid for a run: its own, and those lost to restarts of a spot offer."""
        return duration.scaled(1.0 + self.restarts_per_day * self.restart_s / 86_400.0)

    def cost(self, duration: Interval, gpus: int) -> Interval:
        """Returns the dollars for a run: whole offers, with the time rounded up to the billing granularity."""
        offers = math.ceil(max(gpus, self.min_gpus) / self.gpus)
        duration = self.paid(duration)

        def bill(seconds: float) -> float:
            billed = math.ceil(seconds / self.billing_granularity_s - 1e-9) * self.billing_granularity_s
            return billed / 3600.0 * self.usd_per_hour * offers

        return Interval(bill(duration.low), bill(duration.middle), bill(duration.high))

    def age_days(self, today: date) -> int:
        """Returns the age of the price in days."""
        return (today - self.as_of).days

    def label(self, today: date) -> str:
        """Formats provider and date, with a warning if the price is old."""
        old = f", {self.age_days(today)} days old" if self.age_days(today) > STALE_DAYS else ""
        spot = f", spot with {self.restarts_per_day:g} restarts a day" if self.spot else ""
        return f"{self.provider}, {self.as_of}{spot}{old}"


def load_prices(path: Path) -> tuple[Offer, ...]:
    """Reads all offers of a price file."""
    with open_text(path, LARGEST_WHOLE) as file:
        try:
            rows = list(csv.DictReader(lines_of(file, path, _MOST_OFFERS)))
        except (OSError, csv.Error, *UNREADABLE) as error:
            raise ElastaneError(f"the price file {path} cannot be read: {error}") from error
    return tuple(_offer(row, path, line) for line, row in enumerate(rows, start=2))


def best_offer(offers: Iterable[Offer], device_names: Iterable[str], gpus: int) -> Offer | None:
    """Returns the cheapest offer for so many of this device; None (which is not free) if the file has none."""
    names = {name.casefold() for name in device_names}
    fitting = [each for each in offers if each.device.casefold() in names]
    return min(fitting, key=lambda each: each.cost(Interval.exactly(3600.0), gpus).middle, default=None)


def _offer(row: dict[str, str], path: Path, line: int) -> Offer:
    missing = [name for name in _NEEDED if not (row.get(name) or "").strip()]
    if missing:
        raise ElastaneError(f"{path}, line {line}: {missing[0]} is missing; a price needs {', '.join(_NEEDED)}")
    try:
        offer = Offer(
            provider=row["provider"].strip(),
            device=row["device"].strip(),
            gpus=int(row["gpus"]),
            usd_per_hour=float(row["usd_per_hour"]),
            source=row["source"].strip(),
            as_of=date.fromisoformat(row["as_of"].strip()),
            billing_granularity_s=float(row.get("billing_granularity_s") or 1.0),
            min_gpus=int(row.get("min_gpus") or 1),
            spot=(spot := (row.get("spot") or "no").strip().casefold() in ("yes", "true", "1")),
            restarts_per_day=float(row.get("restarts_per_day") or (SPOT_RESTARTS if spot else 0.0)),
            restart_s=float(row.get("restart_s") or 600.0),
        )
    except ValueError as error:
        raise ElastaneError(f"{path}, line {line}: {error!s:.200}") from error
    numbers = (offer.usd_per_hour, offer.billing_granularity_s, offer.restarts_per_day, offer.restart_s)
    if not all(map(math.isfinite, numbers)):
        raise ElastaneError(f"{path}, line {line}: every number must be finite")
    if min(offer.gpus, offer.usd_per_hour, offer.billing_granularity_s, offer.min_gpus, offer.restart_s) <= 0:
        raise ElastaneError(f"{path}, line {line}: gpus, usd_per_hour and billing must be above 0")
    return offer
