"""Pictures: whole PNG files, the same bytes for the same figure, a useful message without matplotlib."""

import sys
from pathlib import Path

import pytest

from indigo_cli.engine.plot import new_figure, save_png
from indigo_cli.errors import UsageError


def _draw(path: Path, *, overwrite: bool = False) -> bytes:
    figure = new_figure()
    figure.add_subplot().plot([1, 2, 3], [3, 1, 2])
    save_png(figure, path, overwrite=overwrite)
    return path.read_bytes()


def test_same_figure_gives_same_png(tmp_path: Path) -> None:
    first = _draw(tmp_path / "a.png")
    assert first.startswith(b"\x89PNG") and first == _draw(tmp_path / "b.png")


def test_existing_picture_is_kept_unless_told(tmp_path: Path) -> None:
    before = _draw(tmp_path / "a.png")
    with pytest.raises(UsageError, match="output"):
        _draw(tmp_path / "a.png")
    assert _draw(tmp_path / "a.png", overwrite=True) == before


def test_missing_matplotlib_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UsageError) as error:
        new_figure()
    assert "indigo-cli[plot]" in str(error.value.fix)
