"""What every task must offer, so that no other module asks for one by name."""

import dataclasses
from pathlib import Path

import pytest

from indigo_cli.data.corpus import Corpus
from indigo_cli.engine.prepare import prepare
from indigo_cli.engine.prepare_settings import DataConfig, PreprocessConfig, SplitConfig
from indigo_cli.metrics import METRICS
from indigo_cli.tasks import PLANNED, TASKS, find_task

LINES = ["the red cat sat", "a dog ran", "the dog sat"]


class Recipe:
    name = "contract"
    preprocess = PreprocessConfig(merges=5)

    def __init__(self, task: str, text: str) -> None:
        splits = dict.fromkeys(("train", "valid"), SplitConfig([text], [text]))
        self.data = DataConfig(task, "en", "en", splits)


@pytest.mark.parametrize("name", TASKS)
def test_a_task_makes_a_corpus_that_later_input_fits(name: str, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("\n".join(LINES) + "\n", "utf-8")
    corpus = Corpus.open(prepare(Recipe(name, str(text)), tmp_path / "corpus").folder)
    assert corpus.manifest["task"] == name and corpus.codecs.source_is_bag == TASKS[name].source_is_bag
    valid = corpus.split("valid")
    for i, line in enumerate(LINES):
        assert corpus.codecs.encode_source(line) == valid.source[i].tolist()
        assert corpus.codecs.target.encode(line) == valid.target[i].tolist()
        assert corpus.codecs.target.text_of_ids(valid.target[i].tolist()) == line


@pytest.mark.parametrize("name", TASKS)
def test_a_task_names_settings_that_exist(name: str) -> None:
    task = find_task(name)
    assert task.name == name and name not in PLANNED
    assert set(task.prefers) <= {field.name for field in dataclasses.fields(PreprocessConfig)}
    assert not (task.source_is_bag and task.reads_source)
    assert task.metrics and set(task.metrics) <= set(METRICS)
