"""What counts as the text of a system: lines of text, or rank 1 of traces, through to their scores."""

from pathlib import Path
from typing import Any

import pytest

from indigo_cli.core.trace import GenerationTrace, Hypothesis, Insertion
from indigo_cli.data.traces_file import trace_row
from indigo_cli.engine.assess import EvaluateConfig, assess_files
from indigo_cli.engine.outputs import read_output
from indigo_cli.errors import DataError
from tests.traces import write_traces

REFERENCE = ["the red cat sat on the mat", "a dog ran far off today", "two big dogs ran to the barn", "it's late"]
SYSTEM = ["the red cat sat on a mat", "a dog ran far off", "two big dogs ran to the barn", "it is late"]
ALL = EvaluateConfig(metrics=["bleu", "chrf", "ter", "ribes", "exact"])


def _write(path: Path, lines: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def _row(line: int, rank: int, text: str) -> dict[str, object]:
    words = text.split()
    insertions = tuple(Insertion(5 + slot, slot, slot, -0.5, 0.0) for slot in range(len(words)))
    hypothesis = Hypothesis(GenerationTrace(insertions, (), -0.1), score=-1.0 / rank, finished=True)
    return trace_row(line, rank, hypothesis, text=text, tokens=words)


def _write_traces(path: Path, rows: list[dict[str, object]], **header: Any) -> str:
    write_traces(path, header, rows)
    return str(path)


class TestTraces:
    def test_rank_one_counts_in_the_order_of_ids(self, tmp_path: Path) -> None:
        rows = [_row(1, 2, "wrong"), _row(1, 1, "two"), _row(0, 1, "one"), _row(0, 2, "two")]
        assert read_output(_write_traces(tmp_path / "a.jsonl.gz", rows)).lines == ["one", "two"]

    def test_scores_equal_those_of_the_text(self, tmp_path: Path) -> None:
        traces = _write_traces(tmp_path / "a.traces.jsonl", [_row(i, 1, line) for i, line in enumerate(SYSTEM)])
        text, reference = _write(tmp_path / "hyp", SYSTEM), _write(tmp_path / "ref", REFERENCE)
        report = assess_files([traces, text], [reference], config=ALL)
        assert report.systems[0].scores == report.systems[1].scores

    def test_header_names_the_language(self, tmp_path: Path) -> None:
        traces = _write_traces(tmp_path / "a.jsonl", [_row(0, 1, "小猫今天喝了牛奶")], target_lang="zh")
        reference = _write(tmp_path / "ref", ["小猫今天喝了豆奶"])
        config = EvaluateConfig(metrics=["bleu"])
        assert "tok:zh" in assess_files([traces], [reference], config=config).systems[0].scores["bleu"].signature
        other = _write_traces(tmp_path / "b.jsonl", [_row(0, 1, "x")], target_lang="de")
        with pytest.raises(DataError, match="different target languages: de, zh"):
            assess_files([traces, other], [reference], config=config)
        report = assess_files([traces, other], [reference], config=config, language="de")
        assert "tok:13a" in report.systems[0].scores["bleu"].signature

    def test_wishes_of_traces_are_what_length_compares_with(self, tmp_path: Path) -> None:
        """Of rank 1, in the unit of the header: 2 of 3 words, 1 of 1; the text beside is held to the same."""
        rows = [
            {**_row(0, 1, "one two"), "wish": 3},
            {**_row(0, 2, "one"), "wish": 9},
            {**_row(1, 1, "three"), "wish": 1},
        ]
        traces = _write_traces(tmp_path / "a.jsonl", rows, length_unit="word")
        other, reference = _write(tmp_path / "b", ["a b c d e", "f"]), _write(tmp_path / "ref", ["x", "x"])
        report = assess_files([traces, other], [reference], config=EvaluateConfig(metrics=["length"]), parts=True)
        figures = [system.scores["length"] for system in report.systems]
        assert [figure.score for figure in figures] == [1.0, 0.5]
        assert [figure.parts["squared"].score for figure in figures] == [0.5, 2.0]
        assert figures[0].parts["unused"].score == pytest.approx(1 / 6)
        assert "unit:word|wish:traces" in figures[0].signature and "compared with those of" in report.warnings[0]

    def test_repeats(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="second hypothesis of rank 1 for id 0"):
            read_output(_write_traces(tmp_path / "a.jsonl", [_row(0, 1, "a"), _row(0, 1, "b")]))

    def test_lines_that_preprocessing_dropped_count_as_empty(self, tmp_path: Path) -> None:
        """The scores are those of text with empty lines in their places; the warning counts them."""
        kept = {0: SYSTEM[0], 2: SYSTEM[2]}
        traces = _write_traces(tmp_path / "a.jsonl", [_row(line, 1, text) for line, text in kept.items()])
        text = _write(tmp_path / "a", [kept.get(line, "") for line in range(len(REFERENCE))])
        reference = _write(tmp_path / "r", REFERENCE)
        of_traces = assess_files([traces], [reference], config=ALL)
        of_text = assess_files([text], [reference], config=ALL)
        assert of_traces.systems[0].scores == of_text.systems[0].scores
        assert of_traces.warnings == (f"{traces}: 2 of 4 lines have no hypothesis and count as empty",)
        with pytest.raises(DataError, match="has 3 lines but"):
            assess_files([traces], [_write(tmp_path / "short", REFERENCE[:2])], config=ALL)

    def test_a_line_behind_the_last_one_costs_no_memory(self, tmp_path: Path) -> None:
        traces = _write_traces(tmp_path / "a.jsonl", [_row(10**15, 1, "far")])
        with pytest.raises(DataError, match=r"1,000,000,000,000,001 lines but 4 are to be scored"):
            assess_files([traces], [_write(tmp_path / "r", REFERENCE)], config=ALL)

    def test_no_language_is_none(self, tmp_path: Path) -> None:
        assert read_output(_write_traces(tmp_path / "a.jsonl", [_row(0, 1, "a")], target_lang=None)).language == ""

    def test_broken_row_is_named_by_file_and_line(self, tmp_path: Path) -> None:
        path = Path(_write_traces(tmp_path / "a.jsonl", [_row(0, 1, "a")]))
        path.write_text(path.read_text(encoding="utf-8") + "{\n", encoding="utf-8")
        with pytest.raises(DataError) as caught:
            read_output(str(path))
        assert caught.value.where == f"{path}:3"

    def test_newer_version_is_refused(self, tmp_path: Path) -> None:
        path = _write(tmp_path / "a.jsonl", ['{"format": "indigo-traces", "version": 99}'])
        with pytest.raises(DataError, match="newer"):
            read_output(path)

    def test_json_text_is_text(self, tmp_path: Path) -> None:
        """A user may translate JSON; only our header makes a traces file."""
        lines = ['{"format": "xml"}', "[1]", "[" * 10_000]
        assert read_output(_write(tmp_path / "hyp", lines)).lines == lines
