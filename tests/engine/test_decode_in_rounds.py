"""Runs of the Insertion Transformer through decode, score, sweep and ensembles."""

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from indigo_cli.core.format import Format
from indigo_cli.engine.generate import generate
from indigo_cli.engine.sweep import sweep
from indigo_cli.errors import DataError, UsageError
from tests.runs import valid_rows
from tests.scoring import Score, decoded, near, tolerance
from tests.tiny import WORDS, Tiny

pytestmark = pytest.mark.slow  # three trainings
SMALL = ("model.system=insertion", "order.name=blt", "train.max_steps=30", "train.validate_every=30", "model.dropout=0")


KINDS = {
    "fractional": ("train.validate_decode=4",),
    "absolute": ("model.positions=absolute",),
    "sequence": ("model.positions=absolute", "model.termination=sequence"),
}
"""States that are kept, states made anew, and a system that ends the sentence in any slot."""


class Runs(dict[str, Path]):
    """Trains a kind when it is asked for first."""

    def __init__(self, tiny: Tiny, folder: Path) -> None:
        super().__init__()
        self.tiny, self.folder = tiny, folder

    def __missing__(self, kind: str) -> Path:
        self.tiny.train(self.folder / kind, *SMALL, *KINDS[kind])
        self[kind] = self.folder / kind
        return self[kind]


@pytest.fixture(scope="module")
def runs(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return Runs(tiny, tmp_path_factory.mktemp("rounds"))


def test_validation_decodes(runs: dict[str, Path]) -> None:
    (row,) = valid_rows(runs["fractional"]).values()
    assert 0.0 <= row["bleu"] <= 100.0


@pytest.mark.parametrize("kind", ["fractional", "absolute", "sequence"])
@pytest.mark.parametrize("how", ["decode.beam_size=1", "decode.beam_size=3", "decode.search=sample"])
def test_a_run_scores_what_it_decoded(
    runs: dict[str, Path], scored: Score, tmp_path: Path, kind: str, how: str
) -> None:
    path, records = decoded(runs[kind], tmp_path, how, "decode.max_length=6", split="test", n_best=2)
    rows = scored(runs[kind], split="test", target=path)
    assert len(rows) == len(records)
    for record, row in zip(records, rows, strict=True):
        assert row.log_probs is not None
        assert row.log_probs[0] == near(record.log_prob, abs=tolerance(record.log_prob))
        serial = kind == "sequence"
        assert len(record.close_log_probs) == (0 if serial else len(record.tokens) + 1)
        assert (record.end_log_prob is not None) == (serial and record.finished)
        assert record.rounds == tuple(range(len(record.rounds))) if serial else True
        assert record.log_prob == near(
            math.fsum([*record.word_log_probs, *record.slot_log_probs, *record.close_log_probs])
            + (record.end_log_prob or 0.0)
        )


def test_closings_are_predictions_and_blank_lines_cost_nothing(
    runs: dict[str, Path], scored: Score, tmp_path: Path
) -> None:
    text = tmp_path / "in.txt"
    text.write_text("bee cat\n\ndog\n", "utf-8")
    path, records = decoded(runs["fractional"], tmp_path, source=str(text))
    rows = scored(runs["fractional"], source=str(text), target=path)
    assert rows[1].log_probs == (0.0,)
    assert scored.summary.predictions == sum(len(r.tokens) + len(r.close_log_probs) for r in records)
    assert "slots closed" in scored.summary.text()


def test_one_slot_at_a_time(runs: dict[str, Path], scored: Score, tmp_path: Path) -> None:
    how = ("decode.serial=true", "decode.search=joint", "decode.close_penalty=0.3")
    path, records = decoded(runs["absolute"], tmp_path, *how, split="test")
    rows = scored(runs["absolute"], "decode.serial=true", split="test", target=path)
    for record, row in zip(records, rows, strict=True):
        assert record.rounds == tuple(range(len(record.tokens)))
        assert row.log_probs is not None
        assert row.log_probs[0] == near(record.log_prob, abs=tolerance(record.log_prob))
    with pytest.raises(DataError, match="one slot at a time"):
        scored(runs["absolute"], split="test", target=path)
    path, _ = decoded(runs["absolute"], tmp_path, split="test")
    with pytest.raises(DataError, match="in rounds"):
        scored(runs["absolute"], "decode.serial=true", split="test", target=path)


@pytest.mark.parametrize("kind", ["fractional", "absolute"])
def test_lists_are_different_strings_and_the_same_in_any_company(
    runs: dict[str, Path], tmp_path: Path, kind: str
) -> None:
    sources = ["ant bee cat", "dog", "eel fox gnu hen ibis", "", "cat bee"]
    (tmp_path / "all").write_text("".join(f"{line}\n" for line in sources), "utf-8")
    _, together = decoded(runs[kind], tmp_path, source=str(tmp_path / "all"), n_best=4)
    for i, line in enumerate(sources):
        (tmp_path / "one").write_text(f"{line}\n", "utf-8")
        _, alone = decoded(runs[kind], tmp_path, source=str(tmp_path / "one"), n_best=4)
        own = [record for record in together if record.id == i]
        assert [record.text for record in alone] == [record.text for record in own]
        assert [record.score for record in alone] == near([record.score for record in own])
        finished = [record.text for record in own if record.finished]
        assert len(set(finished)) == len(finished)


def test_a_penalty_on_closing_is_chosen_by_a_sweep(runs: dict[str, Path]) -> None:
    report = sweep(runs["fractional"], ["decode.close_penalty=0,3"], overrides=["decode.beam_size=1"])
    assert [row.point.values for row in report.scored] == [{"close_penalty": 0.0}, {"close_penalty": 3.0}]


def test_an_ensemble_of_a_run_with_itself_is_the_run(runs: dict[str, Path], tmp_path: Path) -> None:
    for kind in KINDS:
        _, one = decoded(runs[kind], tmp_path, split="test")
        _, two = decoded(runs[kind], tmp_path, split="test", ensemble=[runs[kind]])
        assert [r.text for r in one] == [r.text for r in two]
        assert [r.log_prob for r in one] == near([r.log_prob for r in two])
    with pytest.raises(UsageError, match="termination"):
        decoded(runs["absolute"], tmp_path, split="test", ensemble=[runs["sequence"]])


@pytest.mark.parametrize("form", [Format.text, Format.tsv])
def test_text_and_lists(runs: dict[str, Path], tmp_path: Path, form: Format) -> None:
    output = tmp_path / "out"
    summary = generate(runs["fractional"], split="test", output=str(output), form=form)
    assert summary.lines == len(output.read_text("utf-8").splitlines()) == 6


@pytest.mark.parametrize(
    ("kind", "override", "key"),
    [
        ("fractional", "decode.search=joint", "decode.search"),
        ("fractional", "decode.serial=true", "decode.serial"),
    ],
)
def test_searches_that_do_not_exist_are_refused(
    runs: dict[str, Path], tmp_path: Path, kind: str, override: str, key: str
) -> None:
    with pytest.raises(UsageError) as error:
        decoded(runs[kind], tmp_path, override, split="test")
    assert error.value.where == key


@pytest.mark.parametrize(
    ("kind", "override"),
    [
        ("fractional", "decode.eod_penalty=1"),
        ("absolute", "decode.block_ngrams=1"),
        ("tiny", "decode.close_penalty=1"),
        ("tiny", "decode.serial=true"),
    ],
)
def test_settings_of_other_searches_change_nothing_and_are_named(
    runs: dict[str, Path],
    tiny: Tiny,
    tmp_path: Path,
    kind: str,
    override: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = tiny.run if kind == "tiny" else runs[kind]
    usual, how = decoded(run, tmp_path, split="test", n_best=3)[1], override.partition("=")[0]
    assert f"{how} has no effect with" not in capsys.readouterr().err
    assert decoded(run, tmp_path, override, split="test", n_best=3)[1] == usual
    assert f"{how} has no effect with" in capsys.readouterr().err


def test_outputs_are_no_longer_than_asked(runs: dict[str, Path], tmp_path: Path) -> None:
    for limits, allowed in (((3, 3), {3}), ((0, 2), {0, 1, 2}), ((4, 7), {4, 5, 6, 7})):
        how = (f"decode.min_length={limits[0]}", f"decode.max_length={limits[1]}", "decode.max_length_ratio=99")
        records: Any = decoded(runs["fractional"], tmp_path, *how, split="test", n_best=3)[1]
        assert {len(record.tokens) for record in records} <= allowed


class TestCanvas:
    """Words that must appear."""

    def files(self, folder: Path, sources: list[str], canvases: list[str]) -> dict[str, str]:
        for name, lines in (("source", sources), ("canvas", canvases)):
            (folder / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
        return {"source": str(folder / "source"), "canvas": str(folder / "canvas")}

    @pytest.mark.parametrize("kind", ["fractional", "absolute"])
    @pytest.mark.parametrize("how", ["decode.beam_size=1", "decode.beam_size=3", "decode.search=sample"])
    def test_no_random_canvas_is_broken(
        self, runs: dict[str, Path], scored: Score, tmp_path: Path, kind: str, how: str
    ) -> None:
        rng = random.Random(5)
        sources, canvases, gaps = [], [], []
        for _ in range(34):
            words = [rng.choice([*WORDS, "quokka"]) for _ in range(rng.randrange(5))]
            gaps.append([rng.random() < 0.4 for _ in range(len(words) + 1)])
            parts = [
                part for gap, word in zip(gaps[-1], [*words, ""], strict=True) for part in ["[gap]"] * gap + [word]
            ]
            sources.append(" ".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 7))))
            canvases.append(" ".join(parts))
        n_best = 1 + ("beam_size=1" not in how)
        path, records = decoded(runs[kind], tmp_path, how, **self.files(tmp_path, sources, canvases), n_best=n_best)
        for record, row in zip(records, scored(runs[kind], source=str(tmp_path / "source"), target=path), strict=True):
            assert row.log_probs is not None and row.log_probs[0] == near(
                record.log_prob, abs=tolerance(record.log_prob)
            )
        assert {record.id for record in records} == set(range(34))
        for record in records:
            canvas, text = canvases[record.id], record.text.split()
            words = canvas.replace("[gap]", " ").split()
            assert record.given == len(words)
            places = record.order[: record.given]
            assert list(places) == sorted(places)
            assert [text[place] for place in places] == words
            opened = any(gaps[record.id])
            edges = (-1, *places, len(text))
            for gap, is_open in enumerate(gaps[record.id]):
                assert is_open or not opened or edges[gap + 1] == edges[gap] + 1

    def test_the_canvas_of_nothing_is_plain_decoding(self, runs: dict[str, Path], tmp_path: Path) -> None:
        sources = ["ant bee cat", "dog", "", "eel fox gnu hen"]
        files = self.files(tmp_path, sources, ["", "[gap]", "", " "])
        with_canvas = decoded(runs["fractional"], tmp_path, **files, n_best=2)[1]
        assert with_canvas == decoded(runs["fractional"], tmp_path, source=files["source"], n_best=2)[1]

    def test_a_line_without_a_source_is_its_canvas(self, runs: dict[str, Path], scored: Score, tmp_path: Path) -> None:
        files = self.files(tmp_path, ["", "dog", ""], ["bee [gap] cat", "ant", ""])
        path, records = decoded(runs["fractional"], tmp_path, **files)
        rows = scored(runs["fractional"], source=files["source"], target=path)
        assert [row.log_probs for row in rows] == [(0.0,), (near(records[1].log_prob),), (0.0,)]
        made = len(records[1].tokens) - 1
        assert scored.summary.predictions == made + len(records[1].close_log_probs) == 2 * made + 2
        assert (records[0].text, records[0].given, records[0].finished) == ("bee cat", 2, False)

    @pytest.mark.parametrize(
        ("old", "new", "fault"),
        [
            (',"open_gaps":[1]', "", "does not say which gaps"),
            ('"open_gaps":[1]', '"open_gaps":[0]', "a slot that was closed"),
            ('"open_gaps":[1]', '"open_gaps":[3]', "at most 2"),
        ],
    )
    def test_gaps_that_do_not_fit(
        self, runs: dict[str, Path], scored: Score, tmp_path: Path, old: str, new: str, fault: str
    ) -> None:
        files = self.files(tmp_path, ["ant bee cat"], ["bee [gap] cat"])
        path, (record,) = decoded(runs["fractional"], tmp_path, "decode.min_length=4", **files)
        assert record.open_gaps == (1,)
        Path(path).write_text(Path(path).read_text("utf-8").replace(old, new), "utf-8")
        with pytest.raises(DataError, match=fault) as caught:
            scored(runs["fractional"], source=files["source"], target=path)
        assert f"{path}:2" in caught.value.where

    @pytest.mark.parametrize(
        ("kind", "how", "fields", "fault"),
        [
            ("fractional", "decode.serial=false", {"rounds": [0, 0, 0]}, "cannot have grown"),
            ("fractional", "decode.serial=false", {"close_log_probs": [], "finished": False}, "one slot at a time"),
            ("absolute", "decode.serial=true", {"close_log_probs": []}, "made in rounds"),
            ("fractional", "decode.serial=false", {"given": 7}, "given must be 0"),
            ("fractional", "decode.serial=false", {"open_gaps": [0]}, "must be some"),
        ],
    )
    def test_histories_that_cannot_be(
        self, runs: dict[str, Path], scored: Score, tmp_path: Path, kind: str, how: str, fields: Any, fault: str
    ) -> None:
        files = self.files(tmp_path, ["ant bee cat"], [""])
        limits = ("decode.min_length=3", "decode.max_length=3")
        path, _ = decoded(runs[kind], tmp_path, *limits, **files)
        head, line = Path(path).read_text("utf-8").splitlines()
        Path(path).write_text(f"{head}\n{json.dumps({**json.loads(line), **fields})}\n", "utf-8")
        with pytest.raises(DataError, match=fault) as caught:
            scored(runs[kind], how, source=files["source"], target=path)
        assert f"{path}:2" in caught.value.where

    @pytest.mark.parametrize("count", [1, 3])
    def test_files_of_different_length(self, runs: dict[str, Path], tmp_path: Path, count: int) -> None:
        with pytest.raises(DataError, match="canvas file has"):
            decoded(runs["fractional"], tmp_path, **self.files(tmp_path, ["bee", "dog"], ["ant"] * count))

    def test_of_a_split_the_lines_are_its_raw_ones(self, runs: dict[str, Path], tmp_path: Path) -> None:
        (tmp_path / "canvas").write_text("".join(f"{word}\n" for word in WORDS[:6]), "utf-8")
        records = decoded(runs["absolute"], tmp_path, split="test", canvas=str(tmp_path / "canvas"))[1]
        assert [record.tokens[record.order[0]] for record in records] == WORDS[:6]

    def test_slots_that_wait_cannot_start_from_words(self, runs: dict[str, Path], tmp_path: Path) -> None:
        for kind, how in (("sequence", ()), ("absolute", ("decode.serial=true",))):
            with pytest.raises(UsageError, match="one at a time") as error:
                decoded(runs[kind], tmp_path, *how, **self.files(tmp_path, ["bee"], ["ant"]))
            assert error.value.where == "--canvas"
