"""Sending buckets while the backward pass runs changes when they are sent, and nothing else."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from elastane.train.errors import MembershipChanged
from elastane.train.reduce import backward_watch
from elastane.train.reduce.begun_sums import BegunSums
from elastane.train.reduce.buckets import Bucket, buckets_of
from elastane.train.reduce.contract import Ahead, Collective, Shares
from elastane.train.reduce.gradient_reads import harmless_reads
from elastane.train.reduce.gradients import GradientLayout
from elastane.train.reduce.mean import MeanReducer
from train.reduce.crew import Gloo, bits, crew

STEPS = 6
SEEDING = threading.Lock()
USES = [
    "plain",
    "unused",
    "now and then",
    "twice",
    "clipped",
    "through data",
    "noise",
    "thrown away",
    "checkpoint",
    "reentrant",
    "create graph",
    "own hook",
    "looked at",
    "half",
]


class Later:
    """A sum that is made when it is asked for, in the order of the calls: whoever does not ask sees none."""

    def __init__(self, sender: Lazy, vector: Tensor) -> None:
        self._sender, self.vector = sender, vector

    def order(self) -> None:
        self._sender.make_up_to(self)


class Lazy:
    """A ``Sender`` and ``Collective`` whose sums happen as late as the rules allow."""

    def __init__(self, group: Gloo) -> None:
        self.rank, self.world, self._group = group.rank, group.world, group
        self.waiting: list[Later] = []
        self.sizes: list[int] = []

    def reduce(self, vector: Tensor) -> Later:
        self.sizes.append(len(vector))
        self.waiting.append(Later(self, vector))
        return self.waiting[-1]

    def make_up_to(self, last: Later) -> None:
        while last in self.waiting:
            self._group.all_reduce(self.waiting.pop(0).vector)

    def all_reduce(self, tensor: Tensor) -> None:
        """Behind what has been begun in the order, but without completing it for others to see too early."""
        self.sizes.append(len(tensor))
        held = [(each, each.vector.clone()) for each in self.waiting]
        for _, vector in held:
            self._group.all_reduce(vector)
        self._group.all_reduce(tensor)
        for each, vector in held:
            each.order = lambda each=each, vector=vector: each.vector.copy_(vector)  # type: ignore[method-assign]
        self.waiting.clear()

    all_gather = all_to_all = None


class Net(nn.Module):
    def __init__(self, widths: Sequence[int], seed: int) -> None:
        super().__init__()
        with SEEDING:  # workers are threads
            torch.manual_seed(seed)
            self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(widths))
            self.spare = nn.Linear(widths[0], widths[-1])

    def forward(self, x: Tensor, *, spare: bool = True, keep: str = "") -> Tensor:
        y = x
        for layer in self.layers:
            if keep:
                y = checkpoint(lambda z, layer=layer: layer(z).tanh(), y, use_reentrant=keep == "reentrant")
            else:
                y = layer(y).tanh()
        return y + self.spare(x) if spare else y


def halve(p: Tensor) -> None:
    assert p.grad is not None
    p.grad.data.mul_(0.5)


@dataclass(frozen=True)
class Case:
    widths: tuple[int, ...]
    use: str
    units: int
    bucket_bytes: int
    seed: int
    odd_rank: int
    summed: bool


def body(net: Net, use: str, x: Tensor, step: int, noise: torch.Generator) -> None:
    """What a script does between two calls of ``opt.step()``."""
    spare = not (use == "unused" or (use == "now and then" and step % 2))
    keep = use if use in ("checkpoint", "reentrant") else ""
    if keep == "reentrant":
        x = x.clone().requires_grad_()
    loss = net(x, spare=spare, keep=keep).square().mean()
    if use == "create graph":
        loss.backward(create_graph=True)
        return
    if use == "twice":
        loss.backward(retain_graph=True)
        (net(x).mean() * 2).backward()
        return
    loss.backward()
    for p in net.parameters():
        if use == "clipped" and p.grad is not None:
            p.grad.mul_(0.5)
        if use == "through data" and step > 3 and p.grad is not None:
            p.grad.data.clamp_(-0.01, 0.01)
        if use == "noise" and p.grad is not None:
            p.grad = p.grad + torch.randn(p.shape, generator=noise) / 10
        if use == "thrown away" and step % 3 == 2:
            p.grad = None
        if use == "looked at" and p.grad is not None:
            float(p.grad.norm())


def train(group: Gloo, case: Case, ahead: bool, **other: Any) -> tuple[bytes, list[int], list[bool]]:
    """Some steps of one worker; the bits of the gradients, the sizes that were sent, and whether it was stale."""
    net = Net(case.widths, case.seed)
    if case.use == "half":
        net = net.to(torch.bfloat16)
    layout = GradientLayout([list(net.parameters())])
    if case.use == "own hook":
        for p in net.parameters():
            p.register_post_accumulate_grad_hook(halve)
    made = buckets_of(layout, 0, case.bucket_bytes, 16)
    reducer = MeanReducer(layout, buckets=made)
    noise = torch.Generator().manual_seed(case.seed + group.rank)
    counts = tuple(random.Random(case.seed + unit).randrange(1, 5) for unit in range(group.world * case.units))
    shares = Shares(counts, tuple(unit % group.world for unit in range(len(counts))))
    found, sizes, stale = b"", [], []
    for step in range(STEPS):
        lazy = Lazy(group)
        reducer.begin(shares, group.rank, False)
        layout.begin()
        own = shares.owned_by(group.rank)
        for unit in own:
            reducer.start(unit)
            if ahead and unit == own[-1]:
                reducer.go_ahead(unit, Ahead(lazy, step > 0, counts[unit] if case.summed else 1))
            source = torch.Generator().manual_seed(1000 * case.seed + 10 * step + unit)
            x = torch.randn(counts[unit], case.widths[0], generator=source).to(next(net.parameters()).dtype)
            body(net, case.use if group.rank >= case.odd_rank else "plain", x, step, noise)
            reducer.body_over()
            if case.summed:
                layout.divide(counts[unit])
            reducer.finish(unit)
        flags = torch.zeros(group.world)
        flags[group.rank] = float(reducer.stale)
        tail = reducer.tail_of(3)
        tail[1] = 1.0
        vector = reducer.reduce(lazy, 3)
        assert vector.tail[1] == group.world
        group.all_reduce(flags)
        stale.append(bool(flags.any()))
        if stale[-1]:
            vector = reducer.repeat(lazy)
        reducer.believed()
        found += bits(vector.gradients)
        sizes.append(len(lazy.sizes))
        if not stale[-1]:
            sent = [bucket.stop - bucket.start for bucket in made]
            assert lazy.sizes == ([*sent, 3] if len(sent) > 1 else [sent[0] + 3])
        layout.publish(vector)
        layout.clear()
    return found, sizes, stale


CASES = st.builds(
    Case,
    widths=st.lists(st.integers(1, 9), min_size=2, max_size=5).map(tuple),
    use=st.sampled_from(USES),
    units=st.integers(1, 3),
    bucket_bytes=st.integers(4, 300),
    seed=st.integers(0, 1000),
    odd_rank=st.integers(0, 1),
    summed=st.booleans(),
)


@settings(max_examples=60, deadline=None)
@given(CASES, st.integers(2, 3))
def test_the_bits_are_those_of_a_reduction_behind_the_pass(case: Case, world: int) -> None:
    together = crew(world).run(lambda group: train(group, case, ahead=False)[0])
    ahead = crew(world).run(lambda group: train(group, case, ahead=True)[0])
    assert len(set(together)) == 1
    assert ahead == together


def plain(use: str, **other: Any) -> Case:
    settings: dict[str, Any] = {
        "units": 1,
        "bucket_bytes": 40,
        "seed": 1,
        "odd_rank": 0,
        "summed": False,
        **other,
    }
    return Case(widths=(5, 6, 4), use=use, **settings)


@pytest.mark.parametrize("use", USES)
def test_only_scripts_that_change_their_ways_are_ever_stale(use: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sending begins after some regular units: who touches gradients every time never pays for it."""
    sent: list[int] = []
    real = BegunSums.send

    def send(begun_sums: BegunSums, piece: Tensor) -> None:
        sent.append(threading.get_ident())
        real(begun_sums, piece)

    monkeypatch.setattr(BegunSums, "send", send)
    stale = crew(2).run(lambda group: steady_train(group, use))
    assert stale[0] == (use in ("through data", "thrown away"))


def steady_train(group: Gloo, use: str) -> bool:
    """Sends only if the watch would have it: what the loop decides by the table."""
    stale = False
    net = Net((5, 6, 4), 1)
    layout = GradientLayout([list(net.parameters())])
    if use == "own hook":
        for p in net.parameters():
            p.register_post_accumulate_grad_hook(halve)
    reducer = MeanReducer(layout, buckets=buckets_of(layout, 0, 40, 16))
    noise = torch.Generator().manual_seed(1)
    for step in range(8):
        reducer.begin(Shares((2, 2), (0, 1)), group.rank, False)
        reducer.start(group.rank)
        reducer.go_ahead(group.rank, Ahead(Lazy(group), reducer.steady))
        # Changes its ways where it has been regular long enough.
        moment = step if use in ("through data",) else (step if step > 4 else 0)
        quiet = use in ("thrown away", "now and then") and step < 5
        body(net, "plain" if quiet else use, torch.ones(2, 5), moment, noise)
        reducer.body_over()
        stale = stale or reducer.stale
        reducer.finish(group.rank)
        layout.clear()
    return stale


def test_reads_of_the_library_are_not_noticed_and_the_property_is_put_back() -> None:
    from elastane.train.reduce.gradient_reads import GradientReads

    parameter, other = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    reads = GradientReads([parameter])
    reads.open()
    assert other.grad is None
    other.grad = torch.ones(2)
    with harmless_reads():
        assert parameter.grad is None
    assert not reads.noticed
    parameter.sum().backward()
    assert not reads.noticed
    assert parameter.grad is not None
    assert reads.noticed
    reads.open()
    parameter.grad = None
    assert reads.noticed
    reads.close()
    reads.close()
    assert "grad" not in torch.Tensor.__dict__


def test_a_break_in_a_hook_does_not_reach_the_script() -> None:
    class Broken:
        rank, world = 0, 2

        def reduce(self, vector: Tensor) -> Any:
            raise MembershipChanged("w2 is gone")

        all_reduce = all_gather = all_to_all = None

    net = Net((3, 4), 0)
    layout = GradientLayout([list(net.parameters())])
    reducer = MeanReducer(layout, buckets=buckets_of(layout, 0, 8, 8))
    reducer.begin(Shares((2, 2), (0, 1)), 0, False)
    reducer.start(0)
    broken: Any = Broken()
    reducer.go_ahead(0, Ahead(broken, True))
    net(torch.ones(2, 3)).sum().backward()
    reducer.body_over()
    reducer.finish(0)
    with pytest.raises((MembershipChanged, TypeError)):
        reducer.reduce(broken, 0)
    reducer.begin(Shares((4,), (0,)), 0, True)  # alone, from nothing
    reducer.start(0)
    net(torch.ones(2, 3)).sum().backward()
    expected = torch.cat([p.grad.reshape(-1) for p in net.parameters() if p.grad is not None])
    reducer.finish(0)
    assert torch.equal(reducer.reduce(None, 0).gradients, expected)


# Mutants: each rule is needed.


def test_a_commit_that_does_not_wait_for_one_bucket_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    case = plain("plain")
    whole = crew(2).run(lambda group: train(group, case, ahead=True)[0])
    real = BegunSums.order

    def order(begun_sums: BegunSums) -> None:
        begun_sums._under_way = begun_sums._under_way[1:]
        real(begun_sums)

    monkeypatch.setattr(BegunSums, "order", order)
    found = crew(2).run(lambda group: train(group, case, ahead=True)[0])
    assert found != whole


def test_buckets_in_order_of_arrival_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers whose scripts use the layers in another order would meet with different slices."""

    def by_arrival(watch: Any) -> None:
        for number, bucket in enumerate(watch._buckets):
            if (
                watch._sending
                and not watch._missing[number]
                and number not in watch.__dict__.setdefault("gone", set())
            ):
                watch.gone.add(number)
                watch._next += 1
                watch._send(bucket, [watch._seen[index] for index in bucket.places])

    orders = {}

    def sent(forward: Callable[[Net, Tensor], Tensor]) -> list[tuple[int, int]]:
        net = Net((4, 4, 4), 0)
        layout = GradientLayout([list(net.parameters())])
        made = buckets_of(layout, 0, 4, 4)
        order: list[tuple[int, int]] = []

        def send(bucket: Bucket, _: Any) -> None:
            order.append((bucket.start, bucket.stop))

        watch = backward_watch.BackwardWatch(layout, made, send)
        watch.open(sending=True)
        forward(net, torch.ones(2, 4)).sum().backward()
        watch.close()
        return order

    def there(net: Net, x: Tensor) -> Tensor:
        return net.layers[1](net.layers[0](x)) + net.spare(x)

    def back(net: Net, x: Tensor) -> Tensor:
        return net.spare(net.layers[0](net.layers[1](x)))

    for name in ("ours", "by arrival"):
        if name != "ours":
            monkeypatch.setattr(backward_watch.BackwardWatch, "_send_complete", by_arrival)
        orders[name] = [sent(there), sent(back)]
    assert orders["ours"][0] == orders["ours"][1]
    assert orders["by arrival"][0] != orders["by arrival"][1]


def test_another_collective_in_the_middle_of_a_step_ends_the_order_first() -> None:
    """Whatever each worker has sent until then, all have the same order behind them."""

    def work(group: Gloo) -> tuple[bytes, list[int], bool]:
        net, lazy = Net((5, 6, 4), 1), Lazy(group)
        layout = GradientLayout([list(net.parameters())])
        made = buckets_of(layout, 0, 40, 16)
        reducer = MeanReducer(layout, buckets=made)
        shares = Shares((2, 2), (0, 1))
        reducer.begin(shares, group.rank, False)
        reducer.start(group.rank)
        reducer.go_ahead(group.rank, Ahead(lazy, group.rank == 0))
        collective: Collective = lazy  # type: ignore[assignment]
        if group.rank == 0:
            net(torch.ones(2, 5)).sum().backward()
        reducer.complete(collective)
        group.all_reduce(torch.zeros(1))
        if group.rank == 1:
            net(torch.ones(2, 5)).sum().backward()
        expected = [p.grad.clone() for p in net.parameters() if p.grad is not None]
        reducer.body_over()
        reducer.finish(group.rank)
        stale = reducer.stale
        reducer.tail_of(1)
        reducer.reduce(collective, 1)
        vector = reducer.repeat(collective)
        assert torch.allclose(vector.gradients, torch.cat([each.reshape(-1) for each in expected]))
        return bits(vector.gradients), lazy.sizes, stale

    first, second = crew(2).run(work)
    assert first[:2] == second[:2]
    assert second[2]
