"""`decode --canvas` with InDIGO: whole runs, from a file of given words to traces, their scores and their picture."""

import random
import re
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import pytest

from indigo_cli.data.traces_file import TraceRecord
from indigo_cli.engine.fit import train
from indigo_cli.engine.prepare import prepare
from indigo_cli.errors import UsageError
from indigo_cli.recipe import load_recipe
from tests import tiny as tiny_task
from tests.conftest import Indigo
from tests.scoring import Score, decoded, near, tolerance
from tests.tiny import WORDS, Tiny, write_task

pytestmark = pytest.mark.slow
NUM_CANVASES = 200
WAYS = ("decode.beam_size=1", "decode.beam_size=3", "decode.search=joint", "decode.search=sample")
PIECES = ("preprocess.vocabulary=bpe", "preprocess.merges=12", "preprocess.max_length=40", "model.dropout=0")
SYLLABLES = ["".join(random.Random(i).choices("abc", k=1 + i % 6)) for i in range(40)]
"""Words whose pieces make up other words."""


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs over pieces of words: `untrained` and `trained`, a part of its words given."""
    folder = tmp_path_factory.mktemp("pieces")
    with patch.object(tiny_task, "WORDS", SYLLABLES):
        write_task(folder)
    prepare(load_recipe(folder / "recipe.toml", PIECES), folder / "corpus")
    for name, steps, rate in (("untrained", 1, 0), ("trained", 60, 0.3)):
        settings = (f"train.max_steps={steps}", "train.validate_every=60", "train.save_every=60")
        recipe = load_recipe(folder / "recipe.toml", (*PIECES, *settings, f"train.given_rate={rate}"))
        train(recipe, output=folder / name, corpus_folder=folder / "corpus")
    return folder


def write(folder: Path, sources: Sequence[str], canvases: Sequence[str]) -> dict[str, str]:
    for name, lines in (("source", sources), ("canvas", canvases)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return {"source": str(folder / "source"), "canvas": str(folder / "canvas")}


def draw_canvas(rng: random.Random, words: Sequence[str]) -> tuple[str, list[str], list[bool]]:
    """Return the line, its words and which gaps are open."""
    given = [rng.choice([*words, "quokka"]) for _ in range(rng.randrange(5))]
    marked = [rng.random() < 0.4 for _ in range(len(given) + 1)]
    parts = [part for gap, word in zip(marked, [*given, ""], strict=True) for part in ["[gap]"] * gap + [word]]
    return " ".join(parts), given, marked if any(marked) else [True] * len(marked)


def check_canvas(record: TraceRecord, given: Sequence[str], opened: Sequence[bool]) -> None:
    """The text is the given words, whole and in order, with others where gaps are open and nothing elsewhere."""
    gaps = [r"(\S+ )*" if is_open else "" for is_open in opened]
    parts = [part for gap, word in zip(gaps, [*given, None], strict=True) for part in (gap, f"{word} " if word else "")]
    assert re.fullmatch("".join(parts), f"{record.text} " if record.text else "")
    assert set(record.rounds[: record.given]) <= {-1}
    assert record.rounds[record.given :] == tuple(range(len(record.tokens) - record.given))
    assert list(record.word_log_probs[: record.given]) == [0.0] * record.given


@pytest.mark.parametrize("name", ["untrained", "trained"])
@pytest.mark.parametrize("order", ["l2r", "best"])
def test_no_random_canvas_is_broken(pieces: Path, tmp_path: Path, name: str, order: str) -> None:
    rng = random.Random(f"{name} {order}")
    count = NUM_CANVASES // (4 * len(WAYS)) + 1
    for how in WAYS:
        drawn = [draw_canvas(rng, SYLLABLES) for _ in range(count)]
        sources = [" ".join(rng.choices(SYLLABLES, k=rng.randint(1, 5))) for _ in drawn]
        files = write(tmp_path, sources, [line for line, _, _ in drawn])
        n_best = 1 + ("beam_size=1" not in how)
        limits = ("decode.max_length=8", f"decode.canvas_order={order}")
        records = decoded(pieces / name, tmp_path, how, *limits, **files, n_best=n_best)[1]
        assert {record.id for record in records} == set(range(count))
        for record in records:
            _, given, opened = drawn[record.id]
            check_canvas(record, given, opened)


@pytest.mark.parametrize("how", WAYS)
def test_the_canvas_of_nothing_is_plain_decoding(tiny: Tiny, tmp_path: Path, how: str) -> None:
    sources = ["ant bee cat", "dog", "", "eel fox gnu hen"]
    n_best = 1 + ("beam_size=1" not in how)
    files = write(tmp_path, sources, ["", "[gap]", "", " "])
    with_canvas = decoded(tiny.run, tmp_path, how, **files, n_best=n_best)[1]
    assert with_canvas == decoded(tiny.run, tmp_path, how, source=files["source"], n_best=n_best)[1]


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("order", ["l2r", "best"])
def test_a_line_is_the_same_in_any_company_and_scored_as_decoded(
    tiny: Tiny, scored: Score, tmp_path: Path, how: str, order: str
) -> None:
    sources = ["ant bee cat", "dog", "eel fox gnu hen ibis", "jay koi", "", "cat ant"]
    canvases = ["cat [gap] ant", "dog", "", "[gap] koi [gap] quokka jay", "bee bee", "cat"]
    settings = (how, f"decode.canvas_order={order}", "decode.max_length=6")
    n_best = 1 + ("beam_size=1" not in how)
    files = write(tmp_path, sources, canvases)
    path, together = decoded(tiny.run, tmp_path, *settings, **files, n_best=n_best)
    rows = scored(tiny.run, source=files["source"], target=path)
    for record, row in zip(together, rows, strict=True):
        assert row.log_probs is not None
        assert row.log_probs[0] == near(record.log_prob, abs=tolerance(record.log_prob))
    if "sample" in how:
        return  # a draw is keyed by the number of its line
    for i, lines in enumerate(zip(sources, canvases, strict=True)):
        alone = decoded(tiny.run, tmp_path, *settings, **write(tmp_path, *([line] for line in lines)), n_best=n_best)[1]
        own = [record for record in together if record.id == i]
        assert [record.text for record in alone] == [record.text for record in own]
        assert [record.log_prob for record in alone] == near([record.log_prob for record in own])


def test_given_words_come_in_the_best_order(tiny: Tiny, scored: Score, tmp_path: Path) -> None:
    """Of all orders of the given words alone it is the one the model likes best; a wide beam finds it."""
    source, words = "ant bee cat dog", ["dog", "bee", "ant"]
    files = write(tmp_path, [source], [" ".join(words)])
    how = ("decode.canvas_order=best", "search.beam_size=16")
    (record,) = decoded(tiny.run, tmp_path, *how, **files)[1]
    rows = scored.text(tiny.run, [(source, " ".join(words))], "order.name=rnd", draws=100)
    place = {at: number for number, at in enumerate(sorted(record.order[:3]))}
    assert len(rows[0].orders) == 6
    assert tuple(place[at] for at in record.order[:3]) == rows[0].orders[0]


def test_the_best_order_is_none_worse_than_left_to_right(tiny: Tiny, scored: Score, tmp_path: Path) -> None:
    """However narrow the beam is."""
    rng = random.Random(1)
    pairs = [(" ".join(rng.sample(WORDS, 4)), " ".join(rng.sample(WORDS, 3))) for _ in range(12)]
    sources, canvases = zip(*pairs, strict=True)
    how = ("decode.canvas_order=best", "search.beam_size=1", "search.reference=none")
    records = decoded(tiny.run, tmp_path, *how, **write(tmp_path, sources, [f"{line} [gap]" for line in canvases]))[1]
    rows = scored.text(tiny.run, pairs, "order.name=rnd", draws=100)
    for record, row in zip(records, rows, strict=True):
        assert row.log_probs is not None
        prices = dict(zip(row.orders, row.log_probs, strict=True))
        given = record.order[: record.given]
        assert prices[given] >= prices[tuple(range(len(given)))]


def test_an_ensemble_of_a_run_with_itself_is_the_run(tiny: Tiny, tmp_path: Path) -> None:
    files = write(tmp_path, ["ant bee cat", "dog eel"], ["cat [gap] ant", "eel"])
    for order in ("l2r", "best"):
        found = [
            decoded(tiny.run, tmp_path, f"decode.canvas_order={order}", **files, ensemble=others)[1]
            for others in ([], [tiny.run])
        ]
        assert [record.order for record in found[0]] == [record.order for record in found[1]]
        assert [record.log_prob for record in found[0]] == near([record.log_prob for record in found[1]])


def test_show_begins_with_what_was_given(tiny: Tiny, tmp_path: Path, indigo: Indigo) -> None:
    path, _ = decoded(tiny.run, tmp_path, **write(tmp_path, ["ant bee cat"], ["cat [gap] ant"]))
    shown = indigo("show", path, "--id", "0")
    assert shown.status == 0 and "given" in shown.out


def test_what_cannot_start_from_words(transformer: Path, position_first: Path, tmp_path: Path) -> None:
    files = write(tmp_path, ["bee"], ["ant"])
    for run, what in ((transformer, "left to right"), (position_first, "position first")):
        with pytest.raises(UsageError, match=what) as error:
            decoded(run, tmp_path, "decode.beam_size=1", **files)
        assert error.value.where == "--canvas" and error.value.fix


def test_words_of_the_toy_task_are_given_in_full(tiny: Tiny, tmp_path: Path) -> None:
    """A whole target, closed: it comes back as it is."""
    lines = [" ".join(WORDS[i : i + 4]) for i in range(5)]
    marked = [f"{line} [gap]" for line in lines]
    records = decoded(tiny.run, tmp_path, "decode.beam_size=1", **write(tmp_path, lines, marked))[1]
    assert all(record.text.startswith(line) for record, line in zip(records, lines, strict=True))
