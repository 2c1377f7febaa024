"""What of an environment is taken along: what finds programs and modules, what is named, never a secret."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.client.exported_variables import exported, read_export
from elastane.errors import ElastaneError
from elastane.jobs.secrecy import looks_secret

HERE = {
    **{"PATH": "/v/bin", "PYTHONPATH": "/code", "VIRTUAL_ENV": "/v", "LC_ALL": "C", "HOME": "/home/me"},
    **{"FOO": "1", "BAR": "2", "HF_TOKEN": "hf_x", "ELASTANE_HOME": "/e", "SLURM_JOB_ID": "7", "RANK": "0"},
}


def taken(*written: str) -> dict[str, str]:
    return dict(exported(read_export(written), HERE).variables)


USUAL = {"PATH": "/v/bin", "PYTHONPATH": "/code", "VIRTUAL_ENV": "/v", "LC_ALL": "C"}


def test_the_usual_ones_are_always_taken_and_named_ones_as_well() -> None:
    assert taken() == USUAL
    assert taken("FOO,NEW=x=y", "BAR") == {**USUAL, "FOO": "1", "BAR": "2", "NEW": "x=y"}


def test_all_leaves_out_secrets_and_what_belongs_to_others_and_none_takes_nothing() -> None:
    assert taken("ALL") == {**USUAL, "FOO": "1", "BAR": "2"}
    assert exported(read_export(["ALL"]), HERE).left_out == ("HF_TOKEN",)
    assert taken("ALL,FOO=3")["FOO"] == "3"
    assert taken("NONE") == {}
    assert taken("NONE,FOO=3") == {"FOO": "3"}


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("HF_TOKEN", "HF_TOKEN looks like a secret"),
        ("MY_PASSWORD=x", "--export MY_PASSWORD_FILE=/path"),
        ("NOWHERE", "NOWHERE is not set here"),
        ("a-b", "expected NAME, NAME=VALUE, ALL or NONE"),
        ("=1", "expected NAME"),
        ("NONE,ALL", "NONE takes nothing along"),
    ],
)
def test_mistakes_are_one_line_with_what_to_write_instead(written: str, words: str) -> None:
    with pytest.raises(ElastaneError, match=words) as told:
        taken(written)
    assert "\n" not in str(told.value)


@given(st.dictionaries(st.text(max_size=8) | st.sampled_from(sorted(HERE)), st.text(max_size=8), max_size=8))
def test_no_environment_makes_it_fail_or_hand_on_a_secret(environment: dict[str, str]) -> None:
    chosen = exported(read_export(["ALL"]), environment).variables
    assert not [name for name, value in chosen.items() if looks_secret(name, value)]
