"""Targets from text files: the orders are those of a split of the same lines; any stream, any stop, any wrong file."""

import io
import os
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from indigo_cli.engine import offline_search
from indigo_cli.engine.search_parts import SearchParts
from indigo_cli.engine.search_targets import TextTargets, rereadable
from indigo_cli.errors import DataError, RunError, UsageError
from tests.ranks import on_ranks
from tests.searching import ONE_THREAD, SEEDED, Search
from tests.tiny import Tiny


@pytest.fixture
def text(tiny: Tiny) -> dict[str, Any]:
    """The files that `train` was made of."""
    folder = tiny.recipe_path.parent
    return {"source": str(folder / "train.src"), "target": str(folder / "train.tgt")}


def test_orders_are_those_of_the_split(search: Search, text: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = search()
    search.output.unlink()
    monkeypatch.setattr(offline_search, "BLOCK_TARGETS", 512)
    assert search(**text) == wanted
    assert search.summary is not None and search.summary.figures["targets"] == 60


def test_it_needs_nothing_but_the_run_folder(
    search: Search, text: dict[str, Any], capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    search(**text)
    offline_search.search_split(
        search.run, **text, corpus_folder=tmp_path / "none", settings=SEEDED, runtime=ONE_THREAD
    )
    assert capsysbinary.readouterr().out == search.output.read_bytes(), "without -o to standard output"


def test_empty_long_and_unknown_lines(search: Search, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_text("\n" + "ant " * 30 + "\nzebra\n", "utf-8")
    target.write_text("ant bee\n" + "cat " * 12 + "\n\n", "utf-8")
    rows = search(source=str(source), target=str(target))
    assert [(row.id, len(row.orders[0])) for row in rows] == [(0, 2), (1, 12), (2, 0)]
    said = capsys.readouterr().err
    assert "1 line was read with a source cut to preprocess.max_length" in said and said.count("line 2") == 2
    assert "1 line was longer than preprocess.max_length" in said


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
def test_a_stopped_search_goes_on_with_the_same_text_only(
    search: Search, text: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    search(**text)
    whole = search.output.read_bytes()
    search.output.unlink()
    write = SearchParts.write
    with monkeypatch.context() as patched:

        def failing(parts: SearchParts, number: int, *rest: Any) -> None:
            if number == 5:
                raise RunError("disk full")
            write(parts, number, *rest)

        patched.setattr(SearchParts, "write", failing)
        with pytest.raises(RunError):
            search(**text)
    (search.parts / "00000002.jsonl").unlink()
    other = tmp_path / "other.tgt"
    other.write_text(" " + Path(text["target"]).read_text("utf-8"), "utf-8")
    with pytest.raises(UsageError, match="searched with target_sha256"):
        search(source=text["source"], target=str(other), resume=True)
    with pytest.raises(UsageError, match="searched with split None"):
        search(resume=True)
    search(**text, resume=True)
    assert search.output.read_bytes() == whole
    search(**text, resume=True)
    assert search.summary is not None and search.summary.figures["targets"] == 60


def test_standard_input_and_pipes_are_read_once(
    search: Search, text: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wanted = search(**text)
    content = Path(text["target"]).read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))
    assert search(source=text["source"], target="-", overwrite=True) == wanted
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(content))
    writer.start()
    assert search(source=text["source"], target=str(pipe), overwrite=True) == wanted
    writer.join()
    with rereadable(text["target"]) as file:
        assert file == text["target"]


def test_any_block_can_be_asked_for(text: dict[str, Any], search: Search, tiny: Tiny) -> None:
    from indigo_cli.engine.loaded_run import load_run
    from tests.scoring import CPU

    targets = TextTargets(load_run(search.run, device=CPU), text["source"], text["target"], names=("a", "b"))
    everything = list(targets.items(range(60)))
    assert targets.total == 60 and [item.line for item in everything] == targets.ids(range(60)) == list(range(60))
    for within in (range(8, 16), range(40, 48), range(56, 60), range(0, 8), range(3, 3), range(8, 9)):
        assert list(targets.items(within)) == everything[within.start : within.stop]


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"source": "SRC"}, UsageError, "--input needs the targets"),
        ({"target": "TGT"}, UsageError, "--target needs the sources"),
        ({"source": "SRC", "target": "TGT", "split": "valid"}, UsageError, "both name the sources"),
        ({"target": "TGT", "split": "valid"}, UsageError, "has targets of its own"),
        ({"source": "-", "target": "-"}, UsageError, "cannot both come from standard input"),
        ({"source": "SRC", "target": "nowhere"}, UsageError, "no such file"),
        ({"source": "SRC", "target": "SHORT"}, DataError, "do not belong together"),
        ({"source": "SRC", "target": "TRACES"}, UsageError, "traces have orders of their own"),
        ({"source": "SRC", "target": "LATIN"}, DataError, "not valid UTF-8"),
    ],
)
def test_wrong_files(
    search: Search,
    text: dict[str, Any],
    tmp_path: Path,
    options: dict[str, str],
    kind: type[Exception],
    message: str,
) -> None:
    contents = {"SHORT": b"ant\n", "TRACES": b'{"format": "indigo-traces", "version": 1}\n', "LATIN": b"\xe6\n"}
    files = {name: str(tmp_path / name) for name in contents} | {"SRC": text["source"], "TGT": text["target"]}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(kind, match=message):
        search(**{name: files.get(value, value) for name, value in options.items()})
    assert not search.output.exists() and not search.parts.exists()


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
def test_several_processes_share_the_lines(search: Search, text: dict[str, Any]) -> None:
    search(**text)
    whole = search.output.read_bytes()
    search.output.unlink()

    def work(**files: Any) -> bool:
        options: dict[str, Any] = {"settings": SEEDED, "output": str(search.output), "runtime": ONE_THREAD}
        return offline_search.search_split(search.run, **files, **options) is None

    assert on_ranks(2, partial(work, **text)) == [False, True]
    assert search.output.read_bytes() == whole
    search.output.unlink()
    answers = on_ranks(2, partial(work, source=text["source"], target="-"))
    assert {type(answer) for answer in answers} == {UsageError}
