"""Verbs that change something: jobs, nodes, the policy, people, quotas."""

from __future__ import annotations

import json

import pytest

from cli.live.conftest import Run
from cli.live.fake import Fake, queued, running, waiting_for
from elastane.service.messages import PolicyInfo, QuotaInfo


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("cancel", "j1 (digits) stopping\n"),
        ("suspend", "j1 (digits) suspending, on hold\n"),
        ("resume", "j1 (digits) running\n"),
    ],
)
def test_a_job_is_steered(run: Run, server: Fake, verb: str, words: str) -> None:
    result = run(verb, "j1")
    assert (result.exit_code, result.stdout) == (0, words)
    assert server.asked == [(verb, "j1")]


@pytest.mark.parametrize("verb", ["cancel", "suspend", "resume"])
def test_of_several_jobs_those_that_can_are_done(run: Run, server: Fake, verb: str) -> None:
    result = run(verb, "j9", "j1", "j3", "j2", "j1")
    assert result.exit_code == 1
    assert [call[1] for call in server.asked] == ["j9", "j1", "j3", "j2"]
    assert len(result.stdout.splitlines()) == 2
    assert result.stderr.splitlines() == [
        "error: j9: there is no job 'j9'",
        "error: j3: j3 has already succeeded",
    ]


def test_of_several_jobs_json_tells_which(run: Run) -> None:
    result = run("cancel", "j1", "j9", "--json")
    document = json.loads(result.stdout)
    assert result.exit_code == 1
    assert [job["id"] for job in document["done"]] == ["j1"]
    assert document["failed"] == [{"id": "j9", "error": "there is no job 'j9'"}]


def test_a_single_job_ends_with_its_own_code(run: Run) -> None:
    assert run("cancel", "j9").exit_code == 3
    assert run("cancel", "j3").exit_code == 1


def test_a_size_is_pinned_and_let_go(run: Run, server: Fake) -> None:
    assert run("scale", "j1", "4").stdout == "j1 (digits) running, pinned to 4\n"
    assert run("scale", "j1", "--auto").stdout == "j1 (digits) running, size left to the policy\n"
    assert json.loads(run("scale", "j1", "2", "--json").stdout)["pinned"] == 2
    assert server.asked == [("scale", "j1", 4), ("scale", "j1", None), ("scale", "j1", 2)]


@pytest.mark.parametrize("wish", [(), ("4", "--auto"), ("0",), ("-1",), ("many",)])
def test_a_size_is_one_clear_wish(run: Run, server: Fake, wish: tuple[str, ...]) -> None:
    assert run("scale", "j1", *wish).exit_code == 2
    assert server.asked == []


def test_a_job_is_moved(run: Run, server: Fake) -> None:
    assert run("move", "j1", "--to", "n1").stdout == "j1 (digits) running, moving to n1\n"
    assert json.loads(run("move", "j1", "--to", "n1", "--json").stdout)["id"] == "j1"
    assert run("move", "j1").exit_code == 2
    assert server.asked == [("move", "j1", "n1")] * 2


def test_who_is_waited_for_is_told(run: Run, server: Fake) -> None:
    until = "it goes on with 4 workers until 6 fit: none of 8 slots is free, j5 has 4"
    server.all_jobs["j1"] = running().model_copy(
        update={"reason": until, "waits_for": waiting_for(queued()).ahead[:1]}
    )
    lines = run("scale", "j1", "6").stdout.splitlines()
    assert lines == [
        f"j1 (digits) running, pinned to 6: {until}",
        "  waits for: j1 digits of ada (1 worker, running, ends in 5–9 min)",
    ]
    assert run("move", "j1", "--to", "n1").stdout.startswith("j1 (digits) running, to move to n1: it goes on")
    assert json.loads(run("scale", "j1", "6", "--json").stdout)["waits_for"][0]["eta"]["high_s"]


def test_a_node_is_drained_and_taken_back(run: Run, server: Fake) -> None:
    assert run("drain", "n0").stdout == "n0 draining, 1 job to move: j1:2\n"
    assert run("drain", "n0", "--off").stdout == "n0 up\n"
    assert json.loads(run("drain", "n0", "--json").stdout)["state"] == "draining"
    assert [call for call in server.asked if call[0] != "nodes"] == [
        ("drain", "n0"),
        ("undrain", "n0"),
        ("drain", "n0"),
    ]


def test_the_policy_is_shown_by_default(run: Run, server: Fake) -> None:
    words = "policy elastane (Elastane)\n  decides every 30 s: 12 decisions, the last in 3.21 ms\n"
    assert run("policy").stdout == run("policy", "show").stdout == words
    assert PolicyInfo.model_validate_json(run("policy", "--json").stdout) == server.policy()


def test_the_policy_is_changed(run: Run, server: Fake) -> None:
    assert run("policy", "set", "tiresias(queues=2)").stdout.startswith("policy tiresias(queues=2)\n")
    assert (
        "shadow fifo: would have done otherwise in 3 of 10 decisions" in run("policy", "shadow", "fifo").stdout
    )
    assert "shadow" not in run("policy", "shadow", "--off").stdout
    assert server.asked == [("set_policy", "tiresias(queues=2)"), ("set_shadow", "fifo"), ("set_shadow", None)]
    assert "shadow" not in run("policy", "shadow", "off").stdout
    assert server.asked[-1] == ("set_shadow", None)


@pytest.mark.parametrize("wish", [(), ("fifo", "--off")])
def test_a_shadow_is_one_clear_wish(run: Run, server: Fake, wish: tuple[str, ...]) -> None:
    assert run("policy", "shadow", *wish).exit_code == 2
    assert server.asked == []


def test_policies_are_listed_without_a_server(run: Run, server: Fake) -> None:
    assert "fifo" in {each["name"] for each in json.loads(run("policy", "list", "--json").stdout)}
    assert server.asked == []


def test_users_come_and_go(run: Run, server: Fake) -> None:
    assert run("user").stdout == run("user", "list").stdout == "name  role   tenant\nada   admin  vision\n"
    added = run("user", "add", "bob", "--role", "viewer", "--tenant", "nlp")
    assert added.stdout == "added bob (viewer, tenant nlp)\n"
    assert "elastane token new bob" in added.stderr
    assert run("user", "remove", "bob").stdout == "removed bob\n"
    assert server.asked[-2:] == [("add_user", "bob", "viewer", "nlp"), ("remove_user", "bob")]


def test_users_as_json(run: Run) -> None:
    assert json.loads(run("user", "--json").stdout) == [{"name": "ada", "role": "admin", "tenant": "vision"}]
    assert json.loads(run("user", "add", "bob", "--json").stdout)["role"] == "user"
    assert json.loads(run("user", "remove", "bob", "--json").stdout) == {"removed": "bob"}


def test_an_unknown_role_is_refused_with_those_there_are(run: Run, server: Fake) -> None:
    result = run("user", "add", "bob", "--role", "root")
    assert result.exit_code == 2
    assert "viewer" in result.stderr
    assert server.asked == []


def test_tokens_are_listed_without_their_secret(run: Run) -> None:
    assert run("token").stdout == (
        "id  user  label   made     expires\n"
        "t1  ada   laptop  3 d ago  never\n"
        "t2  ada   laptop  3 d ago  revoked\n"
        "t3  ada   laptop  3 d ago  in 30 d\n"
    )
    assert json.loads(run("token", "list", "--json").stdout)[1]["revoked"] is True


def test_a_new_token_stands_alone_on_standard_output(run: Run, server: Fake) -> None:
    result = run("token", "new", "bob", "--label", "ci", "--expires", "30d")
    assert result.stdout == "secret\n"
    assert "t9" in result.stderr
    assert server.asked == [("new_token", "bob", "ci", 30 * 86400.0)]
    assert json.loads(run("token", "new", "bob", "--json").stdout)["token"] == "secret"


def test_a_new_token_is_for_oneself_by_default(run: Run, server: Fake) -> None:
    run("token", "new")
    assert server.asked == [("new_token", None, "", None)]


@pytest.mark.parametrize("expires", ["soon", "0", "-3d"])
def test_a_token_needs_a_time_that_can_be_read(run: Run, server: Fake, expires: str) -> None:
    result = run("token", "new", "bob", "--expires", expires)
    assert result.exit_code == 2
    assert "--expires" in result.stderr
    assert server.asked == []


def test_a_token_is_revoked(run: Run, server: Fake) -> None:
    assert run("token", "revoke", "t1").stdout == "revoked t1\n"
    assert json.loads(run("token", "revoke", "t1", "--json").stdout) == {"revoked": "t1"}
    assert server.asked[0] == ("revoke_token", "t1")


def test_quotas_are_shown(run: Run, server: Fake) -> None:
    server.quota_list = [QuotaInfo(tenant="vision", slots=4, used=2), QuotaInfo(tenant="nlp", lends=False)]
    assert run("quota").stdout == (
        "tenant  used     slots  weight  lends\n"
        "vision     2         4       1  yes\n"
        "nlp        0  no limit       1  no\n"
    )
    assert json.loads(run("quota", "list", "--json").stdout)[0]["slots"] == 4


@pytest.mark.parametrize(
    ("flags", "sent"),
    [
        (("--slots", "8"), (8, None, None)),
        (("--unlimited",), (None, None, None)),
        (("--weight", "2"), (4, 2.0, None)),
        (("--keeps",), (4, None, False)),
        (("--slots", "0", "--lends"), (0, None, True)),
    ],
)
def test_what_is_not_said_about_a_quota_stays(
    run: Run, server: Fake, flags: tuple[str, ...], sent: tuple[object, ...]
) -> None:
    server.quota_list = [QuotaInfo(tenant="vision", slots=4)]
    assert run("quota", "set", "vision", *flags).exit_code == 0
    assert server.asked[-1] == ("set_quota", "vision", *sent)


def test_a_changed_quota_as_json(run: Run) -> None:
    assert json.loads(run("quota", "set", "vision", "--slots", "3", "--json").stdout)["slots"] == 3


@pytest.mark.parametrize("flags", [(), ("--slots", "1", "--unlimited"), ("--slots", "-1")])
def test_a_quota_is_one_clear_wish(run: Run, server: Fake, flags: tuple[str, ...]) -> None:
    assert run("quota", "set", "vision", *flags).exit_code == 2
    assert server.asked == []


def test_bounds_of_a_pool_are_set_and_the_rest_stays(run: Run, server: Fake) -> None:
    result = run("pool", "set", "spot", "--most", "8", "--idle-s", "60", "--budget", "10")
    assert result.exit_code == 0, result.stderr
    assert server.asked[-1] == ("set_pool", "spot", {"most": 8, "idle_s": 60.0, "budget_per_hour": 10.0})
    assert "spot" in result.stdout
    assert run("pool", "set", "spot", "--no-budget", "--json").exit_code == 0
    assert server.asked[-1] == ("set_pool", "spot", {"budget_per_hour": -1.0})


@pytest.mark.parametrize("words", [(), ("--budget", "3", "--no-budget")])
def test_nothing_to_set_and_contradictions_are_refused(run: Run, server: Fake, words: tuple[str, ...]) -> None:
    assert run("pool", "set", "spot", *words).exit_code == 2
    assert not server.asked
