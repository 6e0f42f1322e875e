"""`indigo show`."""

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from indigo_cli.core.trace import GenerationTrace, Hypothesis, Insertion
from indigo_cli.data.orders_file import OrdersRow, write_orders
from indigo_cli.data.traces_file import trace_row
from indigo_cli.engine.prepare import prepare
from indigo_cli.recipe import load_recipe
from tests.traces import write_traces


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """Two lines, two hypotheses each."""
    path = tmp_path / "out.traces.jsonl"
    rows = []
    for line, words in enumerate((["red", "cat"], ["big", "dog"])):
        for rank in (1, 2):
            insertions = (Insertion(7, 0, 0, math.log(0.5), 0.0), Insertion(6, 0, 1, math.log(0.25), -0.1))
            trace = GenerationTrace(insertions, end_log_prob=-0.2)
            tokens = words if rank == 1 else [*reversed(words)]
            rows.append(
                trace_row(line, rank, Hypothesis(trace, -0.5 * rank, True), text=" ".join(tokens), tokens=tokens)
            )
    write_traces(path, {"target_lang": "en", "system": "indigo"}, rows)
    return path


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """Orders of two targets, without a corpus."""
    path = tmp_path / "train.mine.orders.jsonl.gz"
    rows = [OrdersRow(4, ((2, 0, 1), (0, 1, 2)), (-1.5, -2.5)), OrdersRow(9, ((0,),), (-0.5,))]
    write_orders(path, {"order": "mine", "split": "train"}, rows)
    return path


def squeezed(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def test_whole_file_and_its_first_line(indigo: Any, traces: Path) -> None:
    done = indigo("show", traces)
    assert done.status == 0, done.err
    assert done.err == ""
    lines = squeezed(done.out)
    assert " ".join(lines[:2]).startswith("hypotheses of rank 1 in ")
    assert "target_lang en, system indigo" in lines
    assert "sequences 2" in lines
    assert "strictly right to left 100.0 %" in lines
    assert "generated first cat 50.0 %, dog 50.0 %" in lines
    assert "1 cat 0/0 0.500 ▄ 1.000 █ [cat]" in lines
    assert "2 red 0/1 0.250 ▂ 0.905 ▇ [red] cat" in lines
    assert "z │ 0 3 2 1" in lines
    assert "\x1b" not in done.out


def test_one_line_of_one_rank(indigo: Any, traces: Path) -> None:
    lines = squeezed(indigo("show", traces, "--id", "1", "--rank", "2").out)
    assert lines[0].startswith("line 1, rank 2")
    assert lines[1] == "dog big"
    assert "1 big 0/0 0.500 ▄ 1.000 █ [big]" in lines


def test_orders_need_no_words(indigo: Any, orders: Path) -> None:
    lines = squeezed(indigo("show", orders).out)
    assert "Kendall tau to left to right -0.333" in lines
    assert "line 4, order 1 of 2, log p -1.500" in lines
    assert "1 2 0/0 [2]" in lines
    second = squeezed(indigo("show", orders, "--id", "4", "--rank", "2").out)
    assert second[0] == "line 4, order 2 of 2, log p -2.500"


def test_orders_beside_their_corpus_show_words(indigo: Any, tmp_path: Path) -> None:
    (tmp_path / "train").write_text("birds sing\n\nwe listen\n", encoding="utf-8")
    (tmp_path / "recipe.toml").write_text(
        'name = "t"\n[data]\ntask = "word_ordering"\nsource_lang = "en"\ntarget_lang = "en"\n'
        '[data.splits]\ntrain = { target = ["train"] }\nvalid = { target = ["train"] }\n'
        '[preprocess]\ntokenizer = "none"\nvocabulary = "word"\n',
        encoding="utf-8",
    )
    prepare(load_recipe(tmp_path / "recipe.toml"), tmp_path / "corpus")
    assert indigo("reorder", tmp_path / "corpus", "r2l").status == 0
    file = tmp_path / "corpus" / "train.r2l.orders.jsonl"
    assert "1 listen 0/0 [listen]" in squeezed(indigo("show", file, "--id", "2").out)
    moved = file.rename(tmp_path / "moved.jsonl")
    assert "1 1 0/0 [1]" in squeezed(indigo("show", moved, "--id", "2").out)
    named = indigo("show", moved, "--id", "2", "--corpus", tmp_path / "corpus")
    assert "1 listen 0/0 [listen]" in squeezed(named.out)


def test_standard_input(indigo: Any, traces: Path) -> None:
    assert indigo("show", "-", "--id", "0", stdin=traces.read_bytes()).out == indigo("show", traces, "--id", "0").out


def test_html(indigo: Any, traces: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert indigo("show", traces, "--html", page).status == 0
    text = page.read_text(encoding="utf-8")
    assert "<html" in text
    assert "cat" in text
    again = indigo("show", traces, "--html", page)
    assert again.status == 2
    assert "exists" in again.err


def test_a_file_without_rows(indigo: Any, tmp_path: Path) -> None:
    write_traces(tmp_path / "t.jsonl", {}, [])
    done = indigo("show", tmp_path / "t.jsonl")
    assert done.status == 0
    assert "sequences 0" in squeezed(done.out)


def test_two_files_are_columns(indigo: Any, traces: Path, orders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")  # whatever the length of the temporary folder's name
    done = indigo("show", traces, orders)
    assert done.status == 0, done.err
    lines = squeezed(done.out)
    assert lines[0].startswith("hypotheses of rank 1 in ") and any(
        line.startswith("orders of rank 1 in ") for line in lines
    )
    assert "out train.mine" in lines
    assert "sequences 2 2" in lines
    assert "strictly right to left 100.0 % 0.0 %" in lines
    assert "Kendall tau to left to right -1.000 -0.333" in lines
    assert "of all orders together -0.396 nats" in lines  # log(e^-1.5 + e^-2.5) over three tokens
    assert not any("canvas" in line for line in lines)
    ranked = squeezed(indigo("show", traces, orders, "--rank", "2").out)
    assert "sequences 2 1" in ranked, "a target of one order has no second"


def test_a_line_of_two_files(indigo: Any, traces: Path, orders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_orders(orders, {"order": "mine"}, [OrdersRow(1, ((1, 0),))], overwrite=True)
    monkeypatch.setenv("COLUMNS", "200")
    beside = squeezed(indigo("show", traces, orders, "--id", "1").out)
    assert beside[0] == "out train.mine"
    assert any(line.startswith("line 1, rank 1") and line.endswith("line 1, order 1 of 1") for line in beside)
    monkeypatch.setenv("COLUMNS", "60")
    above = squeezed(indigo("show", traces, orders, "--id", "1").out)
    assert above.index("out") < above.index("1 dog 0/0 0.500 ▄ 1.000 █ [dog]") < above.index("train.mine")
    assert above[-1] == "2 0 0/1 [0] 1"


def test_scored_hypotheses_are_found_by_their_rank(indigo: Any, orders: Path) -> None:
    rows = [OrdersRow(0, ((0, 1),), (-1.0,), rank=1), OrdersRow(0, ((1, 0),), (-2.0,), rank=2)]
    write_orders(orders, {"order": "trace"}, rows, overwrite=True)
    assert squeezed(indigo("show", orders, "--id", "0", "--rank", "2").out)[0] == "line 0, rank 2, log p -2.000"
    assert "strictly left to right 100.0 %" in squeezed(indigo("show", orders).out)
    assert indigo("show", orders, "--id", "0", "--rank", "3").status == 2


def test_one_of_two_files_may_be_standard_input(indigo: Any, traces: Path) -> None:
    lines = squeezed(indigo("show", "-", traces, stdin=traces.read_bytes()).out)
    assert "- out" in lines and "sequences 2 2" in lines
    twice = indigo("show", "-", "-", stdin=traces.read_bytes())
    assert twice.status == 2
    assert "one file only" in twice.err


@pytest.mark.slow
def test_pictures_and_pages_of_two_files(indigo: Any, traces: Path, orders: Path, tmp_path: Path) -> None:
    page, picture = tmp_path / "a.html", tmp_path / "a.png"
    done = indigo("show", traces, traces, "--id", "0", "--html", page, "--png", picture)
    assert done.status == 0, done.err
    assert page.read_text(encoding="utf-8").count("line 0, rank 1") == 2
    assert picture.read_bytes().startswith(b"\x89PNG")
    again = indigo("show", traces, "--png", picture)
    assert (again.status, again.out) == (2, "")
    assert "exists" in again.err
    before = picture.read_bytes()
    assert indigo("show", traces, orders, "--png", picture, "--overwrite").status == 0
    assert picture.read_bytes() not in (before, b"")


def test_without_matplotlib_nothing_is_read(
    indigo: Any, traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    done = indigo("show", tmp_path / "missing.jsonl", "--png", tmp_path / "a.png")
    assert (done.status, done.out) == (2, "")
    assert "matplotlib" in done.err
    assert indigo("show", traces).status == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "neither a traces file nor an orders file"),
        ("{}\n", "neither a traces file nor an orders file"),
        ("not json\n", "not JSON"),
        ('{"format":["x"]}\n', "neither a traces file nor an orders file"),
        ('{"format":"indigo-orders","version":9}\n', "newer"),
        ('{"format":"indigo-traces","version":1}\n{"id":0}\n', "is missing"),
        ('{"format":"indigo-orders","version":1}\n{"id":0,"orders":[[1]]}\n', "outside 0..0"),
    ],
)
def test_faults_have_three_lines(indigo: Any, tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(content, encoding="utf-8")
    done = indigo("show", path)
    assert done.status == 2
    assert message in done.err
    assert f"at: {path}" in done.err
    assert done.out == ""


def test_a_line_that_is_not_there(indigo: Any, traces: Path, orders: Path) -> None:
    for arguments in (
        [traces, "--id", "7"],
        [traces, "--id", "0", "--rank", "3"],
        [orders, "--id", "9", "--rank", "2"],
    ):
        done = indigo("show", *arguments)
        assert done.status == 2
        assert "there is no line" in done.err


@pytest.mark.slow
def test_a_reader_that_leaves_early_ends_it_quietly(orders: Path) -> None:
    rows = [OrdersRow(0, (tuple(range(2000)),))]
    write_orders(orders, {"order": "l2r"}, rows, overwrite=True)
    command = f'"{sys.executable}" -m indigo_cli show "{orders}" | head -1'
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 141)
    assert done.stderr == ""


def test_nothing_is_shown_before_an_answer_is_possible(indigo: Any, traces: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("mine", encoding="utf-8")
    for arguments in (["--html", page], ["--rank", "0"]):
        done = indigo("show", traces, *arguments)
        assert (done.status, done.out) == (2, "")
    assert page.read_text(encoding="utf-8") == "mine"
