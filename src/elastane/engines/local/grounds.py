"""The folder of a job is its own, so it may put anything in its place; an attempt begins only in real folders.

Through a link the service would make folders and write logs wherever the job likes, and tell it that place as its own.
"""

from __future__ import annotations

from pathlib import Path

from elastane.train.errors import TrainError


def make_folders(run: Path) -> None:
    """Make what is missing of a job's folders.

    Raises:
        TrainError: something else stands in the place of one.
    """
    for folder in (run.parent, run, run / "logs"):
        try:
            folder.mkdir(parents=folder == run.parent, exist_ok=True)
        except OSError as error:
            raise TrainError(f"the job's folder {folder} cannot be made: {error.strerror}") from None
        if folder.is_symlink():
            raise TrainError(f"the job's folder {folder} is a link; it must be a folder, as it was made")
