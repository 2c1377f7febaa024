"""Loading in general: detection, errors that point at the row, skipping, gzip, order and names."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elastane.errors import ElastaneError
from elastane.sim.workloads import load
from elastane.sim.workloads.formats import FORMATS

ITP = "job_id,submission_time,duration,num_gpu\n"


@pytest.fixture
def put(tmp_path):
    def write(text: str | bytes):
        path = tmp_path / "trace.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("a,10,x,1", "line 3, column duration: 'x' is not a number"),
        ("a,10,nan,1", "line 3, column duration: 'nan'"),
        ("a,10,-5,1", "line 3, column duration: '-5'"),
        ("a,10,5,1.5", "line 3, column num_gpu: '1.5' is not a whole number"),
        ("a,10,5,-1", "line 3, column num_gpu: '-1'"),
        ("a,,5,1", "line 3, column submission_time: ''"),
        ("a,10,5", "line 3, .*has 3 columns where the header has 4"),
        ("a,10,5,1,9", "line 3, .*has 5 columns where the header has 4"),
    ],
)
def test_bad_row_names_file_line_column_and_value_and_can_be_skipped(put, row, says):
    path = put(f"{ITP}good,0,5,1\n{row}\n")
    with pytest.raises(ElastaneError, match=rf"trace\.csv, {says}.*--skip-bad"):
        load(path)
    trace = load(path, skip_bad=True)
    assert [job.id for job in trace.jobs] == ["good"]
    assert trace.skipped == 1
    assert any("skipped 1 bad rows, the first: line 3" in note for note in trace.notes)


def test_gzip_is_recognised_by_content_whatever_the_name(put):
    assert len(load(put(gzip.compress(f"{ITP}a,0,5,1\n".encode()))).jobs) == 1


def test_broken_gzip_is_a_users_error(put):
    with pytest.raises(ElastaneError, match="not readable"):
        load(put(gzip.compress(ITP.encode() * 50)[:40]))


def test_binary_file_is_a_users_error(put):
    with pytest.raises(ElastaneError, match="not readable text"):
        load(put(b"\xff\xfe\x00\x81"))


def test_byte_order_mark_and_windows_line_ends_do_not_matter(put):
    assert len(load(put(b"\xef\xbb\xbf" + f"{ITP}a,0,5,1\n".replace("\n", "\r\n").encode())).jobs) == 1


def test_unknown_content_lists_the_known_formats(put):
    with pytest.raises(ElastaneError, match=r"no known trace format.*begins 'colour,price'") as caught:
        load(put("colour,price\nred,3\n"))
    assert all(form.name in str(caught.value) for form in FORMATS)


@pytest.mark.parametrize("text", ["", "\n\n", ITP])
def test_file_without_jobs_is_an_error(put, text):
    with pytest.raises(ElastaneError, match=r"it is empty|no usable job"):
        load(put(text))


def test_missing_file_and_directory(tmp_path):
    with pytest.raises(ElastaneError, match="No such file"):
        load(tmp_path / "absent.csv")
    with pytest.raises(ElastaneError, match="is a directory"):
        load(tmp_path)


def test_forced_format_names_the_missing_column(put):
    with pytest.raises(ElastaneError, match="has no column name, time"):
        load(put(f"{ITP}a,0,5,1\n"), format="pollux")


def test_unknown_format_and_foreign_option_are_refused(put):
    path = put(f"{ITP}a,0,5,1\n")
    with pytest.raises(ElastaneError, match="did you mean 'helios'"):
        load(path, format="helois")
    with pytest.raises(ElastaneError, match="itp has no option steps_per_s"):
        load(path, steps_per_s=3.0)


def test_columns_may_come_in_another_order_with_others_between(put):
    (job,) = load(put("num_gpu,colour,duration,submission_time,job_id\n4,red,60,7,a\n")).jobs
    assert (job.id, job.gpus, job.duration_s) == ("a", 4, 60.0)


def test_repeated_names_are_numbered(put):
    trace = load(put(f"{ITP}a,0,5,1\na,1,5,1\na,2,5,1\n"))
    assert [job.id for job in trace.jobs] == ["a", "a#2", "a#3"]
    assert "numbered 2 repeated job names" in trace.notes


row = st.tuples(st.integers(0, 10**6), st.integers(1, 10**6), st.integers(0, 64))


@given(rows=st.lists(row, min_size=1, max_size=30).filter(lambda rows: any(gpus for *_, gpus in rows)))
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_record_is_a_job_or_counted_and_the_first_job_is_at_zero(put, rows):
    lines = "".join(f"j{n},{at},{long},{gpus}\n" for n, (at, long, gpus) in enumerate(rows))
    trace = load(put(ITP + lines))
    times = [job.submit_s for job in trace.jobs]
    assert len(trace.jobs) + trace.skipped == len(rows)
    assert times == sorted(times)
    assert times[0] == 0.0
