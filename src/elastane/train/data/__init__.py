"""Data by position: each sample once per pass, under any sequence of resizes."""

from elastane.train.data.contract import Source
from elastane.train.data.make_source import source_of
from elastane.train.data.sample_rng import sample_generator
from elastane.train.data.seek import SeekableStream

__all__ = ["SeekableStream", "Source", "sample_generator", "source_of"]
