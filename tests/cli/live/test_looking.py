"""Verbs that only look: queue, history, status, why, eta, nodes, events."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from cli.live.conftest import Run
from cli.live.fake import NOW_S, POOL, Fake, ended, not_found, queued, running, waiting_for
from elastane.cli.live.curve import chart
from elastane.service.messages import (
    CurvePoint,
    Eta,
    EventRecord,
    JobDetail,
    NodeInfo,
    PoolInfo,
    ServerInfo,
    Why,
)

QUEUE = """\
id  name    owner  state    workers  nodes      batch  goodput  progress         ends        why
j1  digits  ada    running  4 (1–8)  n0:2 n1:2    512    1,234  ██████░░░░ 62 %  in 5–9 min
j2  big     bob    queued   0 (8)    –              –        –  –                –           needs 8 slots, 4 are free
"""

STATUS = """\
j1 (digits) running, adaptive: its process called elastane.train
  owner     ada, tenant vision, class normal, priority 0
  command   python train.py --lr 0.1
  directory /home/ada
  workers   4 (1–8) on n0:2 n1:2, attempt 1
  submitted 10 min ago
  progress  ██████░░░░ 62 %, epoch 7/10, step 4,321, loss 0.2135
  metrics   accuracy 0.91
  batch     512 (64 per worker in 2 passes), learning rate ×2
  goodput   1,234, from 1,500 samples/s at 82 % statistical efficiency
  changes   2 resizes with 350 ms of pauses, 1 worker lost, 1 step done again
  ends      in 5–9 min (measured speed)
  speed-up by workers: █ measured, ░ predicted, ► chosen
    1  ██████                    1.00×
    2  ███████████               1.80×
  ► 4  ██████████████████        3.00×
    8  ░░░░░░░░░░░░░░░░░░░░░░░░  4.00×
  process  node  pid   doing
  w0       n0    4711  training
  w1       n1    –
         when  became    because
   10 min ago  queued    admit
  9.8 min ago  starting  start: 2 workers
  9.8 min ago  running   report the start of
"""

WHY = """\
j2 queued: needs 8 slots, 4 are free
  ahead: j1 digits of ada (1 worker, running, ends in 5–9 min), \
j2 digits of ada (2 workers, running, end unknown), j3 digits of ada (3 workers, running, end unknown) and 2 more
  would help: ask for 4 workers instead of 8
"""

INSTEAD = """\
  with 4 workers: it would start now
  with priority 5: it would still wait
"""

EVIL = "\x1b]0;owned\x07[bold red]x[/]\n\u202e"


def test_the_queue_is_a_table(run: Run) -> None:
    assert run("queue").stdout == QUEUE


def test_the_queue_as_json_is_the_models(run: Run, server: Fake) -> None:
    assert [JobDetail.model_validate(each) for each in json.loads(run("queue", "--json").stdout)] == [
        running(),
        queued(),
    ]


def test_an_empty_queue_says_what_to_do(run: Run, server: Fake) -> None:
    server.all_jobs.clear()
    result = run("queue")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "elastane submit" in result.stderr


@pytest.mark.parametrize(
    ("flags", "asked"),
    [
        ((), ("jobs", "active", None, None, 1000)),
        (("--all",), ("jobs", "all", None, None, 1000)),
        (("--mine",), ("jobs", "active", "ada", None, 1000)),
        (("--tenant", "vision"), ("jobs", "active", None, "vision", 1000)),
    ],
)
def test_the_server_chooses_the_jobs(
    run: Run, server: Fake, flags: tuple[str, ...], asked: tuple[object, ...]
) -> None:
    run("queue", *flags)
    assert server.asked[-1] == asked


def test_without_a_terminal_watch_prints_changes_and_ends_with_the_last_job(run: Run, server: Fake) -> None:
    server.queues = [[queued()], [queued()], [queued(), running()], []]
    result = run("queue", "--watch")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["id", "j2", "id", "j2", "j1"]


def test_a_queue_to_watch_is_not_printed_once_as_json(run: Run, server: Fake) -> None:
    result = run("queue", "--watch", "--json")
    assert result.exit_code == 2
    assert "--watch is for people" in result.stderr
    assert server.asked == []


def test_history_shows_how_long_jobs_waited_and_ran(run: Run, server: Fake) -> None:
    result = run("history", "--limit", "5")
    assert result.stdout == (
        "id  name  owner  state      attempts   waited     ran  ended       why\n"
        "j3  old   ada    succeeded         2  1.7 min  58 min  60 min ago  finished\n"
    )
    assert server.asked == [("jobs", "ended", None, None, 5)]
    assert [each["id"] for each in json.loads(run("history", "--json").stdout)] == ["j3"]


def test_status_of_a_job(run: Run) -> None:
    assert run("status", "j1").stdout == STATUS


def test_status_as_json_is_the_model_exactly(run: Run) -> None:
    assert json.loads(run("status", "j1", "--json").stdout) == json.loads(running().model_dump_json())


def test_status_without_a_job_is_the_cluster(run: Run, server: Fake) -> None:
    result = run("status")
    assert result.stdout == (
        "elastane 0.1, up for 2 h, home /srv/elastane\n4 slots on 2 nodes, policy elastane\njobs: 1 running, 1 queued\n"
    )
    assert result.stderr == "warning: 4 slots on 2 cores\n"
    assert ServerInfo.model_validate_json(run("status", "--json").stdout) == server.info()


@pytest.mark.parametrize(("state", "code"), [("succeeded", 0), ("failed", 10), ("cancelled", 11)])
def test_status_wait_ends_with_the_jobs_outcome(run: Run, server: Fake, state: str, code: int) -> None:
    server.later["j1"] = [running(), running(), ended(state, "j1")]
    result = run("status", "j1", "--wait", "--json")
    assert result.exit_code == code
    assert json.loads(result.stdout)["state"] == state


def test_waiting_needs_a_job(run: Run, server: Fake) -> None:
    assert run("status", "--wait").exit_code == 2


def test_a_long_curve_keeps_ends_doublings_and_the_chosen_point() -> None:
    points = [CurvePoint(workers=n, speedup=float(n), chosen=n == 11) for n in range(1, 25)]
    assert [int(line[2:4]) for line in chart(points)[1:]] == [1, 2, 4, 8, 11, 16, 24]


def test_a_curve_of_nothing_is_nothing() -> None:
    assert chart([]) == []
    assert chart([CurvePoint(workers=1, speedup=float("nan"))]) == []


def test_a_curve_of_zeros_can_be_drawn() -> None:
    assert len(chart([CurvePoint(workers=1, speedup=0.0), CurvePoint(workers=2, speedup=0.0)])) == 3


def test_why_is_a_few_lines(run: Run) -> None:
    assert run("why", "j2").stdout == WHY
    assert run("why", "j2", "--instead").stdout == WHY + INSTEAD


def test_why_as_json_is_the_model(run: Run) -> None:
    assert Why.model_validate_json(run("why", "j2", "--instead", "--json").stdout) == waiting_for(queued())


@pytest.mark.parametrize(
    ("id", "words"),
    [
        ("j1", "j1 (digits) ends in 5–9 min (measured speed)\n"),
        ("j2", "j2 (big) has no known end yet\n"),
        ("j3", "j3 (old) succeeded 60 min ago\n"),
    ],
)
def test_eta_is_a_range_or_says_that_nothing_is_known(run: Run, id: str, words: str) -> None:
    assert run("eta", id).stdout == words


def test_eta_as_json(run: Run) -> None:
    document = json.loads(run("eta", "j1", "--json").stdout)
    assert Eta.model_validate(document["eta"]) == running().eta
    assert (document["id"], document["state"]) == ("j1", "running")


def test_nodes_show_slots_and_jobs(run: Run) -> None:
    assert run("nodes").stdout == (
        "id  state     used  accelerators  jobs\n"
        "n0  up         2/2  cpu           j1:2\n"
        "n1  draining   0/2  cpu           –\n"
    )
    assert json.loads(run("nodes", "--json").stdout)[0]["jobs"] == {"j1": 2}


def test_nodes_show_what_they_have_and_how_they_stand(run: Run, server: Fake) -> None:
    gpus = {"slots": 8, "accelerator": "a100", "accelerators": 8, "accelerator_memory_gb": 80.0, "pool": "spot"}
    server.node_list = [
        NodeInfo(id="n0", slots=4, used=2, accelerator="cpu", state="up", cores=4, memory_gb=16.2),
        NodeInfo(id="g0", used=8, state="leaving", until_s=NOW_S + 30, address="10.0.0.7", **gpus),
        NodeInfo(id="g1", used=0, state="lost", since_s=NOW_S - 300, **gpus),
        NodeInfo(id="g2", used=0, state="unfit", why="torch 2.3, not 2.4", **gpus),
    ]
    assert run("nodes").stdout == (
        "id  state                      used  accelerators    cores  memory  address   pool  jobs\n"
        "n0  up                          2/4  cpu                 4   16 GB  –         –     –\n"
        "g0  leaving in 30 s             8/8  8 × a100 80 GB      –       –  10.0.0.7  spot  –\n"
        "g1  lost 5 min ago              0/8  8 × a100 80 GB      –       –  –         spot  –\n"
        "g2  unfit: torch 2.3, not 2.4   0/8  8 × a100 80 GB      –       –  –         spot  –\n"
    )
    assert json.loads(run("nodes", "--json").stdout)[2]["since_s"] == NOW_S - 300


def test_pools_show_sizes_and_bounds(run: Run, server: Fake) -> None:
    shown = (
        "pool  node      now  wanted  least  most   idle  price/h  budget/h\n"
        "spot  8 × a100    1       2      0     4  5 min     24.5        50\n"
    )
    assert run("pool").stdout == run("pool", "list").stdout == run("nodes", "--pools").stdout == shown
    assert PoolInfo.model_validate(json.loads(run("nodes", "--pools", "--json").stdout)[0]) == POOL
    server.has_pools = False
    assert run("pool").stderr == "no pools: the machines of this cluster are what they are\n"


def recorded(count: int) -> Iterator[EventRecord]:
    for seq in range(1, count + 1):
        yield EventRecord(seq=seq, at_s=NOW_S - 120, kind="started", job="j1", body={"workers": 2})


def test_events_as_text_and_json(run: Run, server: Fake) -> None:
    server.record = list(recorded(2))
    assert run("events", "--after", "1").stdout == '2  2 min ago  started j1 {"workers": 2}\n'
    assert [each["seq"] for each in json.loads(run("events", "--json").stdout)] == [1, 2]


def test_followed_events_are_json_lines(run: Run, server: Fake) -> None:
    server.record = list(recorded(3))
    lines = run("events", "-f", "--json").stdout.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [1, 2, 3]


def test_events_are_followed_only_if_asked(run: Run, server: Fake) -> None:
    server.record = list(recorded(1))
    run("events")
    run("events", "-f")
    assert [call for call in server.asked if call[0] == "events"] == [("events", 0, False), ("events", 0, True)]


def test_a_refused_stream_is_an_error_of_the_verb(run: Run, server: Fake) -> None:
    def refused(after: int = 0, *, follow: bool = True) -> Iterator[EventRecord]:
        yield from recorded(1)
        raise not_found("j1")

    server.events = refused  # type: ignore[method-assign]
    assert run("events").exit_code == 3


@pytest.mark.parametrize(
    "verb",
    [
        ("queue",),
        ("queue", "--all"),
        ("status", "j1"),
        ("why", "j1"),
        ("eta", "j1"),
        ("history",),
        ("cancel", "j1"),
    ],
)
def test_no_name_or_reason_can_inject_control_or_markup(run: Run, server: Fake, verb: tuple[str, ...]) -> None:
    update = {"name": EVIL, "owner": EVIL, "reason": EVIL, "kind_reason": EVIL, "directory": EVIL}
    server.all_jobs["j1"] = running().model_copy(update=update)
    server.all_jobs["j3"] = ended().model_copy(update=update)
    output = run(*verb).output
    assert not {"\x1b", "\x07", "\u202e"} & set(output)
    assert "\\x1b]0;owned\\x07[bold red]x[/] \\u202e" in output


def test_status_says_how_the_code_of_a_job_comes_to_its_nodes(run: Run, server: Fake) -> None:
    assert "\n  code" not in run("status", "j1").stdout
    server.all_jobs["j1"] = server.all_jobs["j1"].model_copy(
        update={"code_from": "package 0123456789ab, in sub"}
    )
    assert "\n  code      package 0123456789ab, in sub\n" in run("status", "j1").stdout
