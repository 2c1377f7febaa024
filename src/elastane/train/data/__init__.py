"""Data by position: each sample once per pass, under any sequence of resizes."""

from elastane.train.data.choose import source_of
from elastane.train.data.contract import Source
from elastane.train.data.sampling import sample_generator
from elastane.train.data.seek import SeekableStream

__all__ = ["SeekableStream", "Source", "sample_generator", "source_of"]
