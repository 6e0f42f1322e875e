"""Pictures on disk: one way to make a figure and to write it as PNG. Matplotlib is an extra and loads on first use."""

import io
from pathlib import Path
from typing import TYPE_CHECKING

from indigo_cli.data.files import atomic_write_bytes, refuse_existing
from indigo_cli.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOTS_PER_INCH = 150


def new_figure(*, width: float = 7.0, height: float = 4.2) -> "Figure":
    """Return an empty figure, sizes in inches; no display is needed and no global state is touched.

    Raises: UsageError where matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError(
            "pictures need matplotlib, which is not installed", where="--png", fix="pip install 'indigo-cli[plot]'"
        ) from error
    return Figure(figsize=(width, height), layout="constrained")


def save_png(figure: "Figure", path: Path | str, *, overwrite: bool = False) -> None:
    """Write a figure; the same figure gives the same bytes, and a file is complete or not there.

    Raises: UsageError where a file stands and `overwrite` is not set.
    """
    refuse_existing(path, overwrite)
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    atomic_write_bytes(path, content.getvalue(), overwrite=overwrite)
