"""The catalog is dense, per die, dated, and found by any name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from elastane.codec import encoded
from elastane.errors import ElastaneError
from elastane.predict.devices import catalog, find, load_devices, problem


def test_every_row_has_origin_and_date_and_no_problem() -> None:
    assert len({each.name for each in catalog()}) == len(catalog()) >= 15
    assert all(problem(each) is None and each.source and each.as_of for each in catalog())


def test_all_names_of_a_device_mean_the_same_and_no_name_means_two() -> None:
    aliases = [alias.casefold() for each in catalog() for alias in (each.name, *each.aliases)]
    assert len(set(aliases)) == len(aliases)
    assert find("tesla t4") is find("T4")


def test_a_peak_quoted_for_sparse_matrices_is_refused() -> None:
    h100 = find("h100")
    with pytest.raises(ElastaneError, match="sparsity"):
        replace(h100, peak_tflops={**h100.peak_tflops, "bf16": 1979.0})


def test_a_board_of_two_dies_is_in_the_catalog_as_one() -> None:
    assert find("k80").memory_gb == 12
    assert find("m60").bandwidth_gb_per_s == 160


def test_a_misspelt_device_or_precision_gets_a_hint() -> None:
    with pytest.raises(ElastaneError, match="did you mean 'a100-80g'"):
        find("a100-80")
    with pytest.raises(ElastaneError, match="did you mean 'bf16'"):
        find("t4").peak("bf61")


def test_a_precision_without_units_runs_as_fp32() -> None:
    assert find("p100").peak("bf16") == find("p100").peak("fp32")


def test_devices_are_read_from_json_and_csv(tmp_path: Path) -> None:
    (tmp_path / "own.json").write_text(json.dumps([encoded(find("t4"))]))
    assert load_devices(tmp_path / "own.json") == (find("t4"),)
    head = "name,memory_gb,bandwidth_gb_per_s,launch_us,peak_fp32,peak_bf16,source,as_of,aliases\n"
    (tmp_path / "own.csv").write_text(head + "mine,48,900,5,40,160,our own bench,2026-01-01,a|b\n")
    (mine,) = load_devices(tmp_path / "own.csv")
    assert (mine.peak("bf16"), mine.aliases) == (160e12, ("a", "b"))


@pytest.mark.parametrize("text", ["{}", "[{}]", "[1]", "nonsense", '[{"name": "x"}]'])
def test_a_file_that_is_none_is_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(ElastaneError, match="not usable"):
        load_devices(tmp_path / "bad.json")
    with pytest.raises(ElastaneError, match="cannot be read"):
        load_devices(tmp_path / "none.json")
