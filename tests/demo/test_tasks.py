"""The table of the demo's tasks: what each writes, and that the command line knows it."""

from pathlib import Path

import pytest

from indigo_cli.commands.demo import Task
from indigo_cli.demo import tasks
from indigo_cli.demo.sentences import Sentences
from indigo_cli.demo.star_graph import HALVES, SIZES
from indigo_cli.demo.tasks import TASKS, TINY_HELD_OUT, find_sentences


def test_the_command_line_offers_each_and_all() -> None:
    assert {task.value for task in Task} == {*TASKS, "all"}


def test_sentences_are_written_split_by_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Sentences(train=["Sort it.", "Sort the list now."], valid=["Read the file now."], test=["Take it."])
    monkeypatch.setattr(tasks, "find_sentences", lambda size: found)
    TASKS["sentences"].write(tmp_path / "data", "tiny")
    written = {path.name: path.read_text("utf-8") for path in (tmp_path / "data").iterdir()}
    assert written == {
        "train.txt": "Sort it.\nSort the list now.\n",
        "valid.txt": "Read the file now.\n",
        "test.txt": "Take it.\n",
    }


def test_the_parts_of_star_graphs_are_their_halves_one_after_another(tmp_path: Path) -> None:
    task = TASKS["star-graph"]
    assert tuple(task.parts) == HALVES
    task.write(tmp_path, "tiny")
    for side in ("src", "tgt"):
        whole = (tmp_path / f"test.{side}").read_text("utf-8")
        assert whole == "".join((tmp_path / f"test.{part}.{side}").read_text("utf-8") for part in task.parts)
    assert whole.count("\n") == SIZES["tiny"].num_items["test"]


@pytest.mark.slow
def test_tiny_sentences_come_from_the_standard_library_alone() -> None:
    found = find_sentences("tiny")
    assert len(found.train) > 500
    assert len(found.valid) == len(found.test) == TINY_HELD_OUT
