"""The Python interface gives what the command line gives, byte for byte, and says what is wrong before it computes."""

import subprocess
import sys
from pathlib import Path

import pytest

import indigo_cli
from indigo_cli.core.format import Format
from indigo_cli.data.orders_file import read_order_rows
from indigo_cli.data.traces_file import read_traces
from indigo_cli.engine.generate import generate
from indigo_cli.engine.score import score
from indigo_cli.errors import DataError, RecipeError, UsageError
from tests.tiny import Tiny

LINES = ["ant bee cat", "", "dog eel fox gnu", "zebra", "ant"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "lines.src"
    path.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return path


@pytest.mark.parametrize("settings", [{}, {"beam_size": 1}, {"search": "joint"}, {"search": "sample", "top_k": 3}])
def test_texts_are_the_lines_of_decode(tiny: Tiny, source: Path, tmp_path: Path, settings: dict[str, object]) -> None:
    overrides = [f"decode.{key}={value}" for key, value in settings.items()]
    generate(tiny.run, source=str(source), output=str(tmp_path / "out"), overrides=overrides, seed=3)
    texts = indigo_cli.load(tiny.run).texts(iter(LINES), settings=settings, seed=3)
    assert "".join(f"{text}\n" for text in texts) == (tmp_path / "out").read_text("utf-8")


def test_decode_gives_the_rows_of_a_traces_file(tiny: Tiny, source: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.traces.jsonl"
    generate(tiny.run, source=str(source), output=str(path), form=Format.jsonl, n_best=3)
    found = [row for rows in indigo_cli.load(tiny.run).decode(LINES, n_best=3) for row in rows]
    _, wanted = read_traces(path)
    assert [(row.id, row.rank, row.text, row.order, row.score) for row in found] == [
        (row.id, row.rank, row.text, row.order, row.score) for row in wanted
    ]
    assert {row.id for row in found} == set(range(len(LINES)))


def test_score_gives_the_rows_of_an_orders_file(tiny: Tiny, tmp_path: Path) -> None:
    folder = tiny.recipe_path.parent
    path = tmp_path / "out.orders.jsonl"
    score(tiny.run, source=str(folder / "test.src"), target=str(folder / "test.tgt"), draws=4, output=str(path))
    sources, targets = ((folder / f"test.{side}").read_text("utf-8").splitlines() for side in ("src", "tgt"))
    rows = list(indigo_cli.load(tiny.run).score(sources, targets, draws=4))
    _, wanted = read_order_rows(path)
    for row, other in zip(rows, wanted, strict=True):
        assert (row.id, row.orders) == (other.id, other.orders)
        assert row.log_probs == pytest.approx(other.log_probs, rel=1e-5)


def test_score_of_decoded_text_is_its_log_prob(tiny: Tiny) -> None:
    model = indigo_cli.load(tiny.run)
    (best,) = (rows[0] for rows in model.decode(["ant bee cat"]))
    (row,) = model.score(["ant bee cat"], [best.text], orders=[[best.order]])
    assert row.log_probs == pytest.approx((best.log_prob,), abs=1e-4)
    (named,) = model.score(["ant bee cat"], [best.text], order="l2r")
    assert named.orders == (tuple(range(len(best.tokens))),)


def test_an_ensemble_of_one_run_twice_is_the_run(tiny: Tiny) -> None:
    alone, twice = (list(indigo_cli.load(tiny.run, ensemble=runs).texts(LINES)) for runs in ([], [tiny.run]))
    assert alone == twice


@pytest.mark.parametrize(
    ("orders", "message"),
    [([[[0, 1]]], "no order of 3 tokens"), ([], "at least one order"), ([[[0, 1, 2]], [[0]]], "more orders")],
)
def test_orders_that_do_not_fit_are_refused(tiny: Tiny, orders: list[list[list[int]]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(indigo_cli.load(tiny.run).score(["ant bee cat"], ["cat bee ant"], orders=orders))


def test_wrong_settings_are_named(tiny: Tiny) -> None:
    model = indigo_cli.load(tiny.run)
    with pytest.raises(RecipeError) as error:
        list(model.texts(LINES, settings={"beam_sise": 2, "top_p": 0.0}))
    assert "did you mean `beam_size`?" in error.value.render() and "decode.top_p" in error.value.render()
    with pytest.raises(TypeError, match="one text"):
        list(model.texts("ant bee"))
    with pytest.raises(UsageError):
        indigo_cli.load(tiny.run.parent / "nowhere")


def test_nothing_is_scored_by_guess(tiny: Tiny) -> None:
    """A misspelt order is not l2r, targets are not their own sources, and no order is not an order."""
    model = indigo_cli.load(tiny.run)
    with pytest.raises(UsageError, match="unknown order 'l2rr'") as error:
        list(model.score(["ant"], ["ant"], order="l2rr"))
    assert "did you mean `l2r`?" in error.value.fix
    with pytest.raises(UsageError, match="need their sources"):
        list(model.score(None, ["ant"]))
    for options in ({"order": "l2r"}, {"draws": 2}):
        with pytest.raises(UsageError, match="given already"):
            list(model.score(["ant"], ["ant"], orders=[[[0]]], **options))
    for draws in (0, 10**12):
        with pytest.raises(UsageError, match="cannot be drawn"):
            list(model.score(["ant"], ["ant"], draws=draws))


def test_the_package_itself_loads_no_torch() -> None:
    code = "import sys, indigo_cli; indigo_cli.load; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
