"""Pictures: whole PNG files, the same bytes for the same figure, a useful message without matplotlib."""

import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from indigo_cli.engine.plot import FALLBACKS, families, new_figure, save_png
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


def test_missing_glyphs_are_counted_on_stderr_and_other_warnings_stay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figure = new_figure()
    figure.text(0.5, 0.5, "\uf8f0\uf8f1 \uf8f0", parse_math=False)  # for private use: in no font
    save_png(figure, tmp_path / "a.png")
    assert "2 characters are drawn as boxes" in capsys.readouterr().err
    quiet = figure.savefig

    def savefig(*args: Any, **options: Any) -> None:
        warnings.warn("something else", stacklevel=1)
        quiet(*args, **options)

    figure.savefig = savefig  # type: ignore[method-assign]
    with pytest.warns(UserWarning, match="something else"):
        save_png(figure, tmp_path / "b.png")
    assert (tmp_path / "b.png").is_file()


def test_families_start_with_the_wanted_one_and_are_installed() -> None:
    first, *others = families("monospace")
    assert first == "monospace"
    assert set(others) <= set(FALLBACKS)
