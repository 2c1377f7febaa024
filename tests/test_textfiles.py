"""Files of users are read with limits, and what is wrong with them is said in one sentence."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from elastane.errors import ElastaneError
from elastane.jobs.yamlio import read_yaml
from elastane.predict.devices import load_devices
from elastane.predict.eta.log_parsers import Lines
from elastane.predict.prices import load_prices
from elastane.sim.truth.measured import MeasuredApp
from elastane.sim.workloads.loader import load
from elastane.textfiles import LONGEST_LINE, lines_of, open_text, read_json, read_text
from sim.conftest import write_profiles

POLLUX = "name,time,application,num_replicas,batch_size\n"
PHILLY = {
    "jobid": "a",
    "submitted_time": "2017-10-02 08:00:00",
    "vc": "x",
    "attempts": [
        {
            "start_time": "2017-10-02 08:00:00",
            "end_time": "2017-10-02 09:00:00",
            "detail": [{"ip": "m", "gpus": ["g"]}],
        }
    ],
}


def put(tmp_path: Path, data: str | bytes, name: str = "file") -> Path:
    path = tmp_path / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def test_a_gzip_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = put(tmp_path, gzip.compress(b"0\n" * 5_000_000))
    with (
        open_text(path, most=1_000_000) as file,
        pytest.raises(ElastaneError, match="more than 1 MB once unpacked"),
    ):
        file.read()
    with open_text(path) as file, pytest.raises(ElastaneError, match="more than 10,000 lines"):
        sum(1 for _ in lines_of(file, path, most=10_000))


def test_a_document_is_refused_at_the_limit_of_documents(tmp_path: Path) -> None:
    path = put(tmp_path, gzip.compress(bytes(140_000_000), 1))
    with pytest.raises(ElastaneError, match="once unpacked"):
        read_text(path)


def test_an_endless_line_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path, POLLUX + "a," + "9" * (LONGEST_LINE + 5) + ",cifar10,1,128\n")
    with pytest.raises(ElastaneError, match=f"line 2: longer than {LONGEST_LINE:,}"):
        load(path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [("9" * 5000, "too many digits"), ("[" * 200_000, "nested too deeply"), ("{", "line 1: not JSON")],
)
def test_documents_that_are_none(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ElastaneError, match=problem):
        read_json(put(tmp_path, text))


def test_nested_merge_keys_are_no_bomb() -> None:
    lines = ["a: &a {x: 1}", "b0: &b0 {<<: [" + ",".join(["*a"] * 10) + "]}"]
    lines += [f"b{n}: &b{n} {{<<: [{','.join([f'*b{n - 1}'] * 10)}]}}" for n in range(1, 9)]
    with pytest.raises(ElastaneError, match="merge keys"):
        read_yaml("\n".join(lines), "bomb.yaml")
    assert read_yaml("base: &b {x: 1}\njob: {<<: *b, y: 2}", "") == {"base": {"x": 1}, "job": {"x": 1, "y": 2}}


@pytest.mark.parametrize("text", ["name,memory_gb\nmine,80,2000\n", "name,memory_gb,aliases\nmine,80\n"])
def test_device_rows_of_another_length_than_the_header(tmp_path: Path, text: str) -> None:
    with pytest.raises(ElastaneError, match="device file"):
        load_devices(put(tmp_path, text, "r1.csv"))


def test_a_log_line_with_a_carriage_return_in_it_is_passed_over() -> None:
    lines = Lines()
    found = list(lines.feed("epoch,step,train_loss\n0,9,1.5\n0,1\r9,1.25\n0,19,1.25\n"))
    assert [record.step for record in found] == [9, 19]
    assert lines.skipped == 1


def test_a_log_line_without_end_is_not_kept() -> None:
    lines = Lines()
    for _ in range(40):
        assert not list(lines.feed("x" * 100_000))
    assert len(lines._rest) <= LONGEST_LINE


def test_a_number_of_5000_digits_in_a_philly_log(tmp_path: Path) -> None:
    text = json.dumps([PHILLY]).replace('"vc"', f'"n": {"9" * 5000}, "vc"')
    with pytest.raises(ElastaneError, match="line 1: not valid JSON: a number has too many digits"):
        load(put(tmp_path, text), format="philly")


def test_a_philly_log_is_read_in_pieces_and_keeps_its_lines(tmp_path: Path) -> None:
    jobs = ",\n".join(json.dumps({**PHILLY, "jobid": f"j{n}", "vc": "v" * 900}) for n in range(500))
    assert len(load(put(tmp_path, f"[{jobs}]"), format="philly").jobs) == 500
    with pytest.raises(ElastaneError, match="line 501: not valid JSON"):
        load(put(tmp_path, f"[{jobs},\n{{]"), format="philly")
    with pytest.raises(ElastaneError, match="line 500: not valid JSON"):
        load(put(tmp_path, f"[{jobs}"[:-2]), format="philly")


@pytest.mark.parametrize("time", ["9223372036854775808", "1e300"])
def test_a_submission_at_the_end_of_time_is_a_bad_row(tmp_path: Path, time: str) -> None:
    path = put(tmp_path, f"{POLLUX}a,0,cifar10,1,128\nb,{time},cifar10,1,128\n")
    with pytest.raises(ElastaneError, match="job b: is submitted more than 100 years after the first"):
        load(path)
    trace = load(path, skip_bad=True)
    assert [job.id for job in trace.jobs] == ["a"]
    assert trace.skipped == 1


def test_a_job_of_many_years_is_a_bad_row(tmp_path: Path) -> None:
    path = put(tmp_path, "job_id,submission_time,duration,num_gpu\na,0,1e18,1\n")
    with pytest.raises(ElastaneError, match=r"job a, column duration: 1e\+18 is longer than a year"):
        load(path)


@pytest.mark.parametrize(
    ("file", "old", "new", "problem"),
    [
        ("placements.csv", "\n1,8", "\n²,8", "not a digit"),
        ("placements.csv", "\n1,8,0.066", "\n1,8,inf", "step_time is inf"),
        ("placements.csv", "\n1,8,0.066,0.0", "\n1,8", "not a number"),
        ("validation-32.csv", "\n100,", "\nnan,", "progress is nan"),
    ],
)
def test_damaged_profiles(tmp_path: Path, file: str, old: str, new: str, problem: str) -> None:
    folder = write_profiles(tmp_path)
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1))
    with pytest.raises(ElastaneError, match=problem):
        MeasuredApp(folder)


def test_prices_that_are_no_numbers(tmp_path: Path) -> None:
    head = "provider,device,gpus,usd_per_hour,source,as_of\n"
    with pytest.raises(ElastaneError, match="must be finite"):
        load_prices(put(tmp_path, f"{head}x,t4,1,inf,here,2026-01-01\n"))
    with pytest.raises(ElastaneError, match="cannot be read"):
        load_prices(put(tmp_path, head.encode() + b"\xff,t4\n"))


def test_a_device_file_of_endless_rows_is_refused_while_it_is_read(tmp_path: Path) -> None:
    bomb = put(tmp_path, gzip.compress(b"name,memory_gb\n" + b"mine,80\n" * 20_000), "bomb.csv")
    with pytest.raises(ElastaneError, match="more than 10,000 lines"):
        load_devices(bomb)
