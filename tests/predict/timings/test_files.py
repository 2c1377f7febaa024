"""Timing files are known by their columns, cards by name or column, and mistakes by their line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from elastane.errors import ElastaneError
from elastane.predict.operators import Kind
from elastane.predict.timings import load_timings

CONVOLUTION = (
    "activation_fct,batchsize,channels_in,channels_out,kernelsize,matsize,optimizer,padding,strides,time_ms,use_bias\n"
    "1,4,3,16,3,32,0,1,1,0.5,1\n"
    "1,4,3,16,3,32,1,1,1,2.5,1\n"
)
DENSE = "activation_fct,batchsize,dim_input,dim_output,optimizer,time_ms\n0,8,100,200,0,0.25\n"
PRODUCT = "device,time_ms,b,m,n,k\nTesla T4,1.5,2,10,20,30\nTesla V100-PCIE-16GB,0.5,2,10,20,30\n"


def test_a_folder_of_all_layouts(tmp_path: Path) -> None:
    (tmp_path / "convolution_k40.csv").write_text(CONVOLUTION)
    with gzip.open(tmp_path / "dense_p100.csv.gz", "wt") as file:
        file.write(DENSE)
    (tmp_path / "modern_bmm.csv").write_text(PRODUCT)
    sets = {each.name: each for each in load_timings(tmp_path)}
    assert set(sets) == {"convolution on k40", "dense on p100", "modern_bmm on t4", "modern_bmm on v100"}
    forward, training = (each.operator for each in sets["convolution on k40"].timings)
    assert forward.flops == 2 * 4 * 32 * 32 * 9 * 3 * 16
    assert training.flops == 3 * forward.flops
    assert sets["dense on p100"].timings[0].seconds == 0.00025
    assert sets["modern_bmm on t4"].timings[0].operator.kind is Kind.MATMUL


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("dense_k40.csv", "a,b\n1,2\n", "known layouts"),
        ("dense_k40.csv", "", "known layouts"),
        ("dense_k41.csv", DENSE, "did you mean"),
        ("dense_k40.csv", DENSE.replace("0.25", "fast"), "line 2"),
        ("dense_k40.csv", DENSE.replace("0.25", "0"), "line 2"),
        ("dense_k40.csv.gz", DENSE, "cannot be read"),
    ],
)
def test_mistakes_are_told_in_a_sentence(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ElastaneError, match=message):
        load_timings(tmp_path / name)


def test_a_folder_without_timings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ElastaneError, match="there is no"):
        load_timings(tmp_path)
    with pytest.raises(ElastaneError, match="cannot be read"):
        load_timings(tmp_path / "none.csv")
