"""`indigo preprocess` as a user meets it; what it makes is tested in `tests/engine/test_prepare.py`."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indigo_cli.data.corpus import Corpus
from indigo_cli.recipe import load_recipe

RECIPE = """
name = "tiny"
[data]
source_lang = "en"
target_lang = "en"
[data.splits]
train = { source = ["my data/train 1.en"], target = ["-x.en"] }
valid = { source = ["my data/train 1.en"], target = ["-x.en"] }
[preprocess]
merges = 2
"""


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "my data").mkdir()
    (tmp_path / "my data" / "train 1.en").write_text("red cat\n\ntwo cats\n", "utf-8")
    (tmp_path / "-x.en").write_text("cat red\nnothing\ncats two\n", "utf-8")
    (tmp_path / "tiny.toml").write_text(RECIPE, "utf-8")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "tiny.toml"


Run = Callable[..., Any]


def test_default_folder_summary_and_stored_recipe(recipe: Path, indigo: Run) -> None:
    done = indigo("preprocess", recipe, "--seed", "7")
    assert done.status == 0 and done.out == ""
    assert "train: 2 of 3 lines (dropped: 1 empty source)" in done.err
    corpus = Corpus.open("runs/tiny/corpus")
    assert corpus.splits == ["train", "valid"]
    assert load_recipe(corpus.folder / "recipe.toml") == load_recipe(recipe, ["seed=7"])


@pytest.mark.slow
def test_no_torch_is_needed(recipe: Path) -> None:
    """Torch takes 200 MB of each process that loads it; `None` makes an import of it fail."""
    code = "import sys; sys.modules['torch'] = None; from indigo_cli.cli import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code, "preprocess", recipe, "-o", "c"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_settings_reach_the_corpus(recipe: Path, indigo: Run) -> None:
    done = indigo("preprocess", recipe, "-o", "c", "--set", "preprocess.vocabulary=word", "--quiet")
    assert done.status == 0 and done.err == ""
    assert Corpus.open("c").manifest["settings"]["vocabulary"] == "word"


def test_the_second_run_refuses_and_changes_nothing(recipe: Path, indigo: Run) -> None:
    assert indigo("preprocess", recipe, "-o", "c").status == 0
    before = {path: path.read_bytes() for path in Path("c").iterdir()}
    again = indigo("preprocess", recipe, "-o", "c", "--set", "preprocess.merges=1")
    assert again.status == 2 and "hint:" in again.err and "--overwrite" in again.err
    assert before == {path: path.read_bytes() for path in Path("c").iterdir()}
    assert indigo("preprocess", recipe, "-o", "c", "--overwrite").status == 0


def test_sides_that_do_not_match_exit_2_with_both_names_and_counts(recipe: Path, indigo: Run) -> None:
    (recipe.parent / "-x.en").write_text("cat red\nnothing\n", "utf-8")
    done = indigo("preprocess", recipe, "-o", "c")
    assert done.status == 2
    assert "train 1.en has 3 lines" in done.err and "-x.en has 2 lines" in done.err
    assert "Traceback" not in done.err and list(Path.cwd().iterdir()) == []


def test_bad_bytes_exit_2_with_file_and_line(recipe: Path, indigo: Run) -> None:
    (recipe.parent / "-x.en").write_bytes(b"cat\nred \xff cat\nx\n")
    done = indigo("preprocess", recipe, "-o", "c")
    assert done.status == 2 and f"at: {recipe.parent / '-x.en'}:2" in done.err
    assert list(Path.cwd().iterdir()) == []


def test_ctrl_c_exits_130_and_leaves_nothing(recipe: Path, indigo: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("indigo_cli.core.bpe.learn", interrupt)
    done = indigo("preprocess", recipe, "-o", "c")
    assert done.status == 130 and len(done.err.splitlines()) == 1
    assert list(Path.cwd().iterdir()) == []
