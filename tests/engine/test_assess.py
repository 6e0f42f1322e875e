"""Files in, report out: what counts as a line, a reference, a hypothesis, and what a report says."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from indigo_cli.engine.assess import EvaluateConfig, assess, assess_files
from indigo_cli.errors import DataError, UsageError

REFERENCE = ["the red cat sat on the mat", "a dog ran far off today", "two big dogs ran to the barn", "it's late"]
SYSTEM = ["the red cat sat on a mat", "a dog ran far off", "two big dogs ran to the barn", "it is late"]
ALL = EvaluateConfig(metrics=["bleu", "chrf", "ter", "ribes", "exact"])


def _write(path: Path, lines: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


class TestAssess:
    def test_perfect_output_has_perfect_scores_and_no_width(self) -> None:
        report = assess({"same": REFERENCE}, [REFERENCE], config=ALL)
        (system,) = report.systems
        assert {name: round(figure.score, 9) for name, figure in system.scores.items()} == {
            "bleu": 100.0,
            "chrf": 100.0,
            "ter": 0.0,
            "ribes": 1.0,
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

    def test_randomisation_instead_of_the_bootstrap(self) -> None:
        references = REFERENCE * 25
        better = [line if i % 10 else "wrong" for i, line in enumerate(references)]
        worse = [line if i % 3 else "wrong" for i, line in enumerate(references)]
        systems = {"better": better, "worse": worse}
        config = EvaluateConfig(metrics=["exact", "ribes"], significance="randomisation")
        report = assess(systems, [references], config=config, baseline=("better", better), resamples=50, trials=300)
        same, other = report.systems
        assert set(same.p_values().values()) == {1.0}
        assert all(p is not None and p < 0.01 for p in other.p_values().values())
        assert report.comparison is not None
        assert vars(report.comparison) == {"name": "randomisation", "samples": 300, "seed": 12345}
        by_bootstrap = assess(
            systems,
            [references],
            config=EvaluateConfig(metrics=config.metrics),
            baseline=("better", better),
            resamples=50,
        )
        for name, figure in by_bootstrap.systems[1].scores.items():
            found = other.scores[name]
            assert (figure.score, figure.low, figure.high) == (found.score, found.low, found.high)

    def test_baseline_may_be_one_of_the_systems(self) -> None:
        report = assess({"a": SYSTEM, "b": REFERENCE}, [REFERENCE], config=ALL, baseline=("b", REFERENCE), resamples=50)
        outside = assess({"a": SYSTEM}, [REFERENCE], config=ALL, baseline=("b", REFERENCE), resamples=50)
        assert report.systems[0] == outside.systems[0]
        assert report.baseline == outside.baseline
        assert [row.name for row in report.rows()] == ["b", "a"]
        with pytest.raises(ValueError, match="two texts under the name 'a'"):
            assess({"a": SYSTEM}, [REFERENCE], config=ALL, baseline=("a", REFERENCE))

    def test_japanese_is_scored_by_more_than_one_token(self) -> None:
        """A partly right line without spaces: by 13a it is one wrong token, by its language it is partly right."""
        hypothesis, reference = ["私は昨日新しい本を読んだ"], ["私は昨日古い本を読みました"]
        config = EvaluateConfig(metrics=["bleu", "ribes"])
        blind = assess({"a": hypothesis}, [reference], config=config, resamples=5)
        assert {figure.score for figure in blind.systems[0].scores.values()} == {0.0}
        seeing = assess({"a": hypothesis}, [reference], config=config, language="ja", resamples=5)
        scores = seeing.systems[0].scores
        assert 0 < scores["bleu"].score < 100
        assert 0 < scores["ribes"].score < 1
        tokenizers = {part for figure in scores.values() for part in figure.signature.split("|") if "tok:" in part}
        assert len(tokenizers) == 1 and tokenizers.pop().startswith(("tok:char", "tok:ja-mecab"))
        assert seeing.warnings == ()

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
        config = EvaluateConfig(metrics=["bleu", "chrf", "ter", "exact"])
        report = assess_files([hypothesis], [reference], config=config)
        assert report.num_lines == 3
        assert report.systems[0].scores["exact"].score == pytest.approx(1 / 3)

    def test_empty_reference_has_no_ribes(self, tmp_path: Path) -> None:
        """Case 97: an error that names the line, or 0 where that was asked for. One of several may be missing."""
        hypothesis, reference = _write(tmp_path / "hyp", ["a", "b", ""]), _write(tmp_path / "ref", ["a", " ", ""])
        with pytest.raises(DataError, match="empty in every reference, and ribes cannot score it") as caught:
            assess_files([hypothesis], [reference], config=EvaluateConfig(metrics=["bleu", "ribes"]))
        assert caught.value.where == f"{reference}:2"
        assert "evaluate.empty_reference=zero" in caught.value.fix
        zero = EvaluateConfig(metrics=["ribes"], empty_reference="zero")
        assert assess_files([hypothesis], [reference], config=zero).systems[0].scores["ribes"].score == 1 / 3
        second = _write(tmp_path / "ref2", ["", "b", "c"])
        both = assess_files([hypothesis], [reference, second], config=EvaluateConfig(metrics=["ribes"]))
        assert both.systems[0].scores["ribes"].score == 2 / 3

    def test_of_several_systems_the_first_is_the_baseline(self, tmp_path: Path) -> None:
        """As with sacreBLEU's paired tests; one named by --baseline comes first."""
        first, second = _write(tmp_path / "a", SYSTEM), _write(tmp_path / "b", REFERENCE)
        reference = _write(tmp_path / "r", REFERENCE)
        config = EvaluateConfig(metrics=["chrf"])
        report = assess_files([first, second, first], [reference], config=config)
        assert report.baseline is not None and report.baseline.name == first
        assert [row.name for row in report.rows()] == [first, second]
        assert report.systems[0].p_values() == {"chrf": 1.0}
        named = assess_files([first, second], [reference], config=config, baseline=second)
        assert [row.name for row in named.rows()] == [second, first]
        assert assess_files([first], [reference], config=config).baseline is None

    def test_standard_input_serves_one_file(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="one file only"):
            assess_files(["-"], ["-"], config=ALL)


def test_no_model_library_is_loaded() -> None:
    code = "import indigo_cli.engine.assess, sys; sys.exit('torch' in sys.modules or 'sacrebleu' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
