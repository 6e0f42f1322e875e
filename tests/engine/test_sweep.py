"""A sweep gives the figures that `decode` and `evaluate` give, chooses the best, and fails before it works."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from indigo_cli.core.trace import GenerationTrace, Hypothesis, Insertion
from indigo_cli.decoding.config import DecodeConfig, ranking_score
from indigo_cli.decoding.search import search_batch
from indigo_cli.engine import sweep as sweep_module
from indigo_cli.engine.assess import assess
from indigo_cli.engine.generate import generate
from indigo_cli.engine.generator import Generator
from indigo_cli.engine.lines import EncodedLine
from indigo_cli.engine.nbest import Output
from indigo_cli.engine.sweep import sweep
from indigo_cli.engine.sweep_grid import Point
from indigo_cli.engine.sweep_plot import draw_sweep
from indigo_cli.engine.sweep_report import Scored, SweepReport
from indigo_cli.errors import DataError, IndigoError, UsageError
from tests.tiny import Tiny

RERANK = "decode.rerank=source_words"


def scored(merged: float, plain: float | None = None, *, beam: int = 5, penalty: float = 1.0) -> Scored:
    scores = {"merged": {"m": merged}, "plain": {"m": merged if plain is None else plain}}
    config = DecodeConfig(beam_size=beam, length_penalty=penalty)
    return Scored(
        Point({"beam_size": beam, "length_penalty": penalty}, config), scores, 1.0, 4.0, 3.0, {"merged": 0, "plain": 1}
    )


def test_reranking_is_no_part_of_a_sweep(tiny: Tiny) -> None:
    """It would be scored on another list than `decode` takes it from."""
    for settings, overrides in ((["decode.rerank=none,source_words"], []), (["decode.beam_size=2"], [RERANK])):
        with pytest.raises(UsageError, match="re-ranking") as caught:
            sweep(tiny.run, settings, overrides=overrides)
        assert caught.value.where == "decode.rerank" and "decode.rerank=none" in caught.value.fix


def report(*rows: Scored, higher: bool = True) -> SweepReport:
    return SweepReport("valid", 8, rows, {"m": higher}, {"m": 2}, {"m": "v"})


@pytest.mark.parametrize(
    ("settings", "overrides"),
    [
        (["decode.beam_size=1,4", "decode.length_penalty=0,1"], []),
        (["decode.eod_penalty=-1..1"], ["decode.length_formula=gnmt", "decode.search=joint"]),
    ],
)
@pytest.mark.slow
def test_every_figure_is_that_of_decode_and_evaluate(
    tiny: Tiny, tmp_path: Path, settings: list[str], overrides: list[str]
) -> None:
    found = sweep(tiny.run, settings, overrides=overrides)
    references = [(tiny.recipe_path.parent / "valid.tgt").read_text(encoding="utf-8").splitlines()]
    rows = found.as_rows()
    assert len(rows) == 2 * len(found.scored)
    for number, row in enumerate(rows):
        merge = {"merged": "true", "plain": "false"}[row["ranking"]]
        options = [f"decode.{key}={row[key]}" for key in found.keys]
        path = tmp_path / f"{number}.txt"
        options += [*overrides, f"decode.merge_strings={merge}"]
        generate(tiny.run, split="valid", output=str(path), overrides=options)
        lines = path.read_text(encoding="utf-8").splitlines()
        again = assess({"": lines}, references, config=tiny.recipe().evaluate, language="en").systems[0].scores
        assert {name: row[name] for name in again} == {name: round(value.score, 8) for name, value in again.items()}


def test_the_split_is_searched_once_for_each_combination(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    widths: list[int] = []

    def counted(*args: Any, **options: Any) -> Any:
        widths.extend([options["width"]] * len(args[3]))
        return search_batch(*args, **options)

    monkeypatch.setattr("indigo_cli.engine.searcher.search_batch", counted)
    sweep(tiny.run, ["decode.beam_size=2..3"])
    assert widths == [2] * 8 + [3] * 8


def hypothesis(words: Sequence[int], slots: Sequence[int], log_prob: float, config: DecodeConfig) -> Hypothesis:
    steps = zip(words, slots, range(len(words)), strict=True)
    trace = GenerationTrace(
        tuple(Insertion(word, slot, number, log_prob / len(words), 0.0) for word, slot, number in steps),
        end_log_prob=0.0,
    )
    return Hypothesis(trace, ranking_score(log_prob, len(words), True, config), True)


def test_rankings_differ_where_two_traces_spell_one_string(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    reference = (tiny.recipe_path.parent / "valid.tgt").read_text(encoding="utf-8").splitlines()

    def searches(self: Generator, block: Sequence[EncodedLine]) -> Iterator[list[tuple[int, list[Output]]]]:
        for place, line in reversed(list(enumerate(block))):  # in any order
            one = Output(hypothesis((9, 10), (0, 1), -1.0, self.config), reference[line.number])
            other = replace(one, hypothesis=hypothesis((10, 9), (0, 0), -1.1, self.config))
            wrong = Output(hypothesis((9, 9), (0, 1), -0.9, self.config), "wrong")
            yield [(place, [wrong, one, other])]

    monkeypatch.setattr(Generator, "searches", searches)
    found = sweep(tiny.run, ["decode.beam_size=3"], overrides=['evaluate.metrics=["exact"]'])
    (row,) = found.scored
    assert row.scores == {"merged": {"exact": 1.0}, "plain": {"exact": 0.0}}
    assert (row.hypotheses, row.strings) == (3.0, 2.0)
    assert found.text().endswith("1.0000 with --set decode.beam_size=3 --set decode.merge_strings=true")


def test_the_best_is_chosen_over_both_rankings() -> None:
    best = scored(1, 4, beam=9)
    assert report(scored(3), best, scored(2, 3.5)).chosen() == (best, "plain")
    least = scored(2, 1, beam=9)
    assert report(scored(3), least, scored(5), higher=False).chosen() == (least, "plain")


def test_ties_go_to_the_smaller_beam_then_to_what_comes_first() -> None:
    small, early = scored(3, beam=2, penalty=0.5), scored(3, beam=2, penalty=0.1)
    assert report(scored(3, beam=4), small, early).chosen() == (small, "merged")
    assert report(scored(3, 3 + 1e-12)).chosen()[1] == "merged", "no real difference"


def test_table_marks_the_chosen_figure_and_no_other() -> None:
    table = report(scored(3), scored(5, 4)).table()
    cells = [[str(cell) for cell in column.cells] for column in table.columns]
    assert [column for column in cells if any("*" in cell for cell in column)] == [["3.00  ", "5.00 *"]]
    assert cells[:2] == [["5", "5"], ["1.0", "1.0"]]


def test_rows_as_text() -> None:
    lines = [line.split("\t") for line in report(scored(3, 2.5)).as_tsv().splitlines()]
    assert lines[0] == [
        "beam_size", "length_penalty", "ranking", "m", "hypotheses", "strings", "unfinished", "seconds", "chosen",
    ]  # fmt: skip
    assert lines[1:] == [
        ["5", "1.0", "merged", "3", "4.0", "3.0", "0", "1.0", "true"],
        ["5", "1.0", "plain", "2.5", "4.0", "3.0", "1", "1.0", "false"],
    ]


@pytest.mark.parametrize(("split", "warned"), [("valid", False), ("test", True), ("train", True)])
def test_choosing_on_another_split_than_valid_is_warned_of(
    tiny: Tiny, capsys: pytest.CaptureFixture[str], split: str, warned: bool
) -> None:
    found = sweep(tiny.run, ["decode.beam_size=1"], split=split)
    said = capsys.readouterr().err
    assert ("warning: settings are chosen on valid, never on a test set" in said) == warned
    assert found.split == split
    assert "beam_size 1: bleu" in said, "results come as they are found"


@pytest.mark.slow
def test_files_are_complete_and_never_in_the_way(tiny: Tiny, tmp_path: Path) -> None:
    table, picture = tmp_path / "a.tsv", tmp_path / "a.png"
    found = sweep(tiny.run, ["decode.beam_size=1,2"], output=table, png=picture)
    assert table.read_text(encoding="utf-8") == found.as_tsv()
    assert picture.read_bytes().startswith(b"\x89PNG")
    for options in ({"output": table}, {"png": picture}):
        with pytest.raises(UsageError, match="exists"):
            sweep(tiny.run, ["decode.beam_size=1"], **options)  # type: ignore[arg-type]
    again = sweep(tiny.run, ["decode.beam_size=1"], output=table, overwrite=True)
    assert table.read_text(encoding="utf-8") == again.as_tsv()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"settings": ["decode.beam_size=1,0"]}, "greater than or equal to 1"),
        ({"settings": ["decode.beam_sise=1"]}, "unknown key"),
        ({"overrides": ['evaluate.metrics=["bleu","blue"]']}, "blue"),
        ({"split": "dev"}, "no split"),
    ],
)
def test_nothing_is_decoded_if_something_is_wrong(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], message: str
) -> None:
    monkeypatch.setattr(sweep_module, "_decode", lambda *args: pytest.fail("it decoded"))
    with pytest.raises(IndigoError, match=message):
        sweep(tiny.run, **{"settings": ["decode.beam_size=1,2"], **options})


def test_references_that_changed_are_refused(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indigo_cli.data.references.sha256_file", lambda path: "another")
    with pytest.raises(DataError, match="changed"):
        sweep(tiny.run, ["decode.beam_size=1"])


def test_settings_that_the_sweep_overrules_are_named(tiny: Tiny, capsys: pytest.CaptureFixture[str]) -> None:
    overrides = ["decode.beam_size=7", "decode.merge_strings=false", "decode.max_length=9"]
    sweep(tiny.run, ["decode.beam_size=1"], overrides=overrides)
    said = capsys.readouterr().err
    assert "--set decode.beam_size=7 has no effect" in said
    assert "--set decode.merge_strings=false has no effect" in said
    assert "max_length" not in said


def test_an_ensemble_of_a_run_with_itself_sweeps_like_the_run(tiny: Tiny) -> None:
    rows = [
        [{key: row[key] for key in row if key != "seconds"} for row in found.as_rows()]
        for found in (
            sweep(tiny.run, ["decode.beam_size=1,3"]),
            sweep(tiny.run, ["decode.beam_size=1,3"], ensemble=[tiny.run]),
        )
    ]
    assert rows[0] == rows[1]


def test_samples_can_be_swept_and_their_seed_counts(tiny: Tiny, tmp_path: Path) -> None:
    sampled = ["decode.search=sample"]
    options: list[dict[str, Any]] = [{"seed": 3}, {"seed": 3}, {"seed": 4}]
    found = [sweep(tiny.run, ["decode.temperature=0.5,2"], overrides=sampled, **option) for option in options]
    scores = [[row.scores for row in report.scored] for report in found]
    assert scores[0] == scores[1]
    assert all(row["merged"] == row["plain"] for row in scores[0])
    assert all(row.hypotheses == 1 for row in found[0].scored)


def lines_of(figure: Figure, panel: int = 0) -> dict[str, tuple[list[float], list[float]]]:
    return {
        str(line.get_label()): (list(line.get_xdata()), list(line.get_ydata()))  # type: ignore[arg-type]
        for line in figure.axes[panel].get_lines()
    }


def test_picture_has_a_line_for_each_ranking_and_further_setting() -> None:
    rows = [scored(beam, beam - 1, beam=beam, penalty=penalty) for beam in (1, 5, 20) for penalty in (0.5, 1.0)]
    lines = lines_of(draw_sweep(report(*rows)))
    assert lines["length_penalty 0.5, strings merged"] == ([1, 5, 20], [1, 5, 20])
    assert lines["length_penalty 1.0, single traces"] == ([1, 5, 20], [0, 4, 19])
    assert lines["chosen by m: 20.00"] == ([20], [20])
    assert len(lines) == 5


def test_picture_of_names_puts_them_side_by_side() -> None:
    rows = [replace(scored(1), point=Point({"search": name}, DecodeConfig())) for name in ("beam", "joint")]
    figure = draw_sweep(report(*rows))
    assert lines_of(figure)["strings merged"] == ([0, 1], [1, 1])
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["beam", "joint"]
