"""Pictures on disk: one way to make a figure and to write it as PNG. Matplotlib is an extra and loads on first use."""

import io
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from indigo_cli.core import console
from indigo_cli.data.files import atomic_write_bytes, refuse_existing
from indigo_cli.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOTS_PER_INCH = 150
MISSING_GLYPH = re.compile(r"Glyph (\d+) .* missing from")
"""What matplotlib says of a character that no font has."""
FALLBACKS = (
    "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans JP", "Source Han Sans", "IPAGothic", "TakaoGothic", "VL Gothic",
    "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "Droid Sans Fallback", "Hiragino Sans", "PingFang SC", "Yu Gothic",
    "MS Gothic", "Microsoft YaHei", "Malgun Gothic", "Apple SD Gothic Neo", "Arial Unicode MS", "Unifont",
)  # fmt: skip
"""Fonts with many scripts, asked in turn for what matplotlib's own lacks."""


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


def families(first: str) -> list[str]:
    """Return the font families to ask in turn for words of any language: `first`, then what is installed."""
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}
    return [first, *(name for name in FALLBACKS if name in installed)]


def save_png(figure: "Figure", path: Path | str, *, overwrite: bool = False) -> None:
    """Write a figure; the same figure gives the same bytes, and a file is complete or not there.

    Characters that no installed font has become empty boxes; stderr says how many.

    Raises: UsageError where a file stands and `overwrite` is not set.
    """
    refuse_existing(path, overwrite)
    content = io.BytesIO()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figure.savefig(content, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    boxes: set[str] = set()
    for warning in caught:
        if missing := MISSING_GLYPH.match(str(warning.message)):
            boxes.add(missing[1])
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    if boxes:
        what = "1 character is drawn as a box" if len(boxes) == 1 else f"{len(boxes)} characters are drawn as boxes"
        console.note(f"{path}: {what}: no installed font has it (Noto Sans CJK has most)")
    atomic_write_bytes(path, content.getvalue(), overwrite=overwrite)
