"""Files in, report out: what counts as a line, a reference, a hypothesis, and what a report says."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from indigo_cli.core.trace import GenerationTrace, Hypothesis, Insertion
from indigo_cli.data.traces_file import trace_row
from indigo_cli.engine.assess import EvaluateConfig, assess, assess_files, read_output
from indigo_cli.errors import DataError, UsageError
from tests.traces import write_traces

REFERENCE = ["the red cat sat on the mat", "a dog ran far off today", "two big dogs ran to the barn", "it's late"]
SYSTEM = ["the red cat sat on a mat", "a dog ran far off", "two big dogs ran to the barn", "it is late"]
ALL = EvaluateConfig(metrics=["bleu", "chrf", "ter", "exact"])


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


class TestAssess:
    def test_perfect_output_has_perfect_scores_and_no_width(self) -> None:
        report = assess({"same": REFERENCE}, [REFERENCE], config=ALL)
        (system,) = report.systems
        assert {name: round(figure.score, 9) for name, figure in system.scores.items()} == {
            "bleu": 100.0,
            "chrf": 100.0,
            "ter": 0.0,
            "exact": 1.0,
        }
        assert all(figure.low == pytest.approx(figure.high) for figure in system.scores.values())
        assert all(figure.p_value is None for figure in system.scores.values())

    def test_systems_do_not_change_each_other(self) -> None:
        together = assess({"a": SYSTEM, "b": REFERENCE}, [REFERENCE], config=ALL, resamples=50)
        alone = assess({"a": SYSTEM}, [REFERENCE], config=ALL, resamples=50)
        compared = assess({"a": SYSTEM}, [REFERENCE], config=ALL, baseline=("b", REFERENCE), resamples=50)
        assert together.systems[0] == alone.systems[0]
        assert compared.baseline == together.systems[1]
        for name, figure in alone.systems[0].scores.items():
            other = compared.systems[0].scores[name]
            assert (figure.score, figure.low, figure.high) == (other.score, other.low, other.high)

    def test_p_value_of_a_system_against_itself_is_one(self) -> None:
        report = assess({"a": SYSTEM}, [REFERENCE], config=ALL, baseline=("a", SYSTEM))
        assert set(report.systems[0].p_values().values()) == {1.0}

    def test_p_value_tells_a_clear_difference_from_none(self) -> None:
        references = REFERENCE * 25
        better = [line if i % 10 else "wrong" for i, line in enumerate(references)]
        worse = [line if i % 2 else "wrong" for i, line in enumerate(references)]
        other = [line if i % 10 != 1 else "wrong" for i, line in enumerate(references)]
        config = EvaluateConfig(metrics=["exact"])
        report = assess({"worse": worse, "as good": other}, [references], config=config, baseline=("b", better))
        clear, equal = (system.scores["exact"].p_value for system in report.systems)
        assert clear is not None and equal is not None
        assert clear < 0.01
        assert equal > 0.8

    def test_seed_moves_the_interval_only(self) -> None:
        references = [[f"{line} {number}" for number in range(10) for line in REFERENCE]]
        system = [f"{line} {number}" for number in range(10) for line in SYSTEM]
        first, again, other = (
            assess({"a": system}, references, config=ALL, seed=seed, resamples=50) for seed in (1, 1, 2)
        )
        assert first == again
        assert first.systems[0].scores["bleu"].score == other.systems[0].scores["bleu"].score
        assert first.systems[0].scores["bleu"].low != other.systems[0].scores["bleu"].low

    def test_language_picks_the_tokeniser(self) -> None:
        """Case 109."""
        hypothesis, reference = ["小猫今天喝了牛奶"], [["小猫今天喝了豆奶"]]
        config = EvaluateConfig(metrics=["bleu"])
        blind = assess({"a": hypothesis}, reference, config=config)
        assert blind.systems[0].scores["bleu"].score == 0.0
        assert any("Chinese" in warning for warning in blind.warnings)
        seeing = assess({"a": hypothesis}, reference, config=config, language="zh")
        assert seeing.systems[0].scores["bleu"].score == pytest.approx(70.71, abs=0.005)
        assert seeing.warnings == ()

    def test_tokenised_output_is_named(self) -> None:
        """Case 91."""
        report = assess({"tok.txt": ["It 's a cat , isn 't it ?"]}, [["It's a cat, isn't it?"]], config=ALL)
        assert any("tok.txt" in warning and "tokenised" in warning for warning in report.warnings)

    def test_json_of_one_system_is_that_of_the_contract(self) -> None:
        report = assess({"a": SYSTEM}, [REFERENCE], config=EvaluateConfig(metrics=["bleu"]))
        figure = report.systems[0].scores["bleu"]
        assert report.as_json() == {
            "n": 4,
            "metrics": {
                "bleu": {
                    "score": pytest.approx(figure.score),
                    "signature": figure.signature,
                    "ci": [pytest.approx(figure.low), pytest.approx(figure.high)],
                }
            },
        }

    def test_json_with_baseline_and_several_systems(self) -> None:
        report = assess({"a": SYSTEM, "b": REFERENCE}, [REFERENCE], config=ALL, baseline=("c", SYSTEM)).as_json()
        assert list(report) == ["n", "metrics", "baseline", "systems"]
        assert report["baseline"]["name"] == "c"
        assert report["baseline"]["metrics"] == report["metrics"]
        assert report["baseline"]["p_value"] == dict.fromkeys(ALL.metrics, 1.0)
        assert [system["name"] for system in report["systems"]] == ["a", "b"]
        assert report["systems"][1]["metrics"]["bleu"]["score"] == 100.0
        assert json.loads(json.dumps(report, allow_nan=False)) == report


class TestFiles:
    def test_lines_end_at_newlines_only(self, tmp_path: Path) -> None:
        """U+2028 and a lone carriage return stay inside the line; BOM and CRLF do not change a score."""
        reference = tmp_path / "ref"
        reference.write_bytes("the red\u2028cat\nit's\rlate\n".encode())
        hypothesis = tmp_path / "hyp"
        hypothesis.write_bytes("\ufeffthe red\u2028cat\r\nit's\rlate".encode())
        report = assess_files([str(hypothesis)], [str(reference)], config=EvaluateConfig(metrics=["exact", "chrf"]))
        assert report.num_lines == 2
        assert report.systems[0].scores["exact"].score == 1.0

    def test_several_references_and_compressed_files(self, tmp_path: Path) -> None:
        first = tmp_path / "ref.gz"
        with gzip.open(first, "wt", encoding="utf-8") as stream:
            stream.write("one\nzzz\n")
        second = _write(tmp_path / "ref2", ["zzz", "two"])
        hypothesis = _write(tmp_path / "hyp", ["one", "two"])
        report = assess_files([hypothesis], [str(first), second], config=EvaluateConfig(metrics=["exact"]))
        assert report.systems[0].scores["exact"].score == 1.0
        assert "nrefs:2" in report.systems[0].scores["exact"].signature

    @pytest.mark.parametrize("wrong", ["hyp", "ref2", "base", "src"])
    def test_unequal_lengths_name_both_files_and_counts(self, tmp_path: Path, wrong: str) -> None:
        paths = {name: _write(tmp_path / name, SYSTEM) for name in ("hyp", "ref", "ref2", "base", "src")}
        _write(tmp_path / wrong, SYSTEM[:3])
        with pytest.raises(DataError) as caught:
            assess_files(
                [paths["hyp"]],
                [paths["ref"], paths["ref2"]],
                config=ALL,
                baseline=paths["base"],
                source=paths["src"],
            )
        assert f"{paths[wrong]} has 3 lines" in caught.value.what
        assert f"{paths['ref']} has 4" in caught.value.what

    def test_nothing_to_score(self, tmp_path: Path) -> None:
        empty = _write(tmp_path / "empty", [])
        with pytest.raises(DataError, match="no line to score"):
            assess_files([empty], [empty], config=ALL)

    def test_empty_lines_count(self, tmp_path: Path) -> None:
        """Case 95, through files."""
        hypothesis, reference = _write(tmp_path / "hyp", ["", "red cat", ""]), _write(tmp_path / "ref", ["a", "", ""])
        report = assess_files([hypothesis], [reference], config=ALL)
        assert report.num_lines == 3
        assert report.systems[0].scores["exact"].score == pytest.approx(1 / 3)

    def test_standard_input_serves_one_file(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="one file only"):
            assess_files(["-"], ["-"], config=ALL)


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


def test_no_model_library_is_loaded() -> None:
    code = "import indigo_cli.engine.assess, sys; sys.exit('torch' in sys.modules or 'sacrebleu' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
