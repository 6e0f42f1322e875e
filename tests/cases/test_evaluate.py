"""Scores of short, empty, tokenised, unspaced text, and of references in the wrong place."""

import math
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU

from indigo_cli.core.moses import MosesTokenizer
from indigo_cli.core.tokenizer import make_tokenizer
from indigo_cli.engine.assess import EvaluateConfig, assess, assess_files
from indigo_cli.metrics import METRICS, build_sentence_metric
from indigo_cli.metrics.metric import corpus_score, corpus_statistics
from indigo_cli.metrics.ribes import sentence_ribes
from indigo_cli.metrics.tokenize import TokenizerName

WORDS = ["red", "cat", "dog", "it's", "5", "the", "far"]
EN = MosesTokenizer("en")
NAMES = sorted(METRICS)
short = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
plain = st.lists(st.sampled_from(WORDS), min_size=4, max_size=8).map(" ".join)
maybe_empty = st.sampled_from(["", " ", "\u3000", "cat", "the red cat", ".", "\u200b"])


def score(name: str, hypotheses: list[str], references: list[list[str]], tokenize: str = "13a") -> float:
    metric = METRICS[name](tokenize=tokenize)
    return corpus_score(metric, corpus_statistics(metric, hypotheses, references))


@given(line=short)
def test_case_89_a_short_answer_is_right_or_wrong(line: str) -> None:
    """Alone, by effective order: all or nothing, no smoothed score for a wrong one, and the signature says so."""
    sentence = build_sentence_metric("bleu", tokenize="13a")
    assert sentence.score(sentence.stats(line, [line])) == pytest.approx(100.0)
    assert sentence.score(sentence.stats(line, ["zzz " * len(line.split())])) == 0.0
    assert "eff:yes" in sentence.signature(num_references=1, resamples=5, seed=1)
    if len(BLEU().tokenizer(line).split()) < 4:
        assert score("bleu", [line], [[line]]) == 0.0


TALK = ["It's a cat, isn't it?", 'He said: "no (never)!"', "Tom & Jerry's [5 < 6]; a|b.", "We've 1,000 well-fed dogs."]


@pytest.mark.parametrize("kind", ["moses", "without escapes", "bpe"])
def test_case_91_tokenised_output_is_named_and_plain_text_is_not(kind: str) -> None:
    """Whatever split it: it scores less by the tokeniser of plain text, all by none; scored as it stands."""

    def split(line: str) -> str:
        text = " ".join(EN.tokenize(line))
        if kind == "bpe":
            return text.replace("cat", "c@@ at").replace("dogs", "d@@ ogs")
        return text if kind == "moses" else " ".join(EN.detokenize([token]) for token in text.split())

    tokenised = [split(line) for line in TALK]
    config = EvaluateConfig(metrics=["bleu"])
    report = assess({"out": tokenised}, [TALK], config=config, resamples=5)
    assert any("out" in warning and "tokenised" in warning for warning in report.warnings)
    assert report.systems[0].scores["bleu"].score < 99
    assert "tok:13a" in report.systems[0].scores["bleu"].signature
    assert assess({"out": TALK}, [TALK], config=config, resamples=5).warnings == ()
    none = EvaluateConfig(metrics=["bleu"], tokenize="none")
    same = assess({"out": tokenised}, [tokenised], config=none, resamples=5)
    assert same.systems[0].scores["bleu"].score == pytest.approx(100.0) and same.warnings == ()


@given(data=st.data(), lines=st.integers(1, 5), files=st.integers(1, 3))
def test_case_93_a_reference_file_has_a_line_for_each_output(data: st.DataObject, lines: int, files: int) -> None:
    """Whatever their numbers, equal ones included: files are never taken for sentences."""
    hypotheses = [data.draw(plain) for _ in range(lines)]
    references = [[data.draw(plain) for _ in range(lines)] for _ in range(files)]
    assert score("bleu", hypotheses, references) == pytest.approx(BLEU().corpus_score(hypotheses, references).score)
    assert score("exact", hypotheses, references) == pytest.approx(
        sum(line in row for line, row in zip(hypotheses, zip(*references, strict=True), strict=True)) / lines
    )


@settings(max_examples=10)
@given(data=st.data(), lines=st.integers(1, 4), files=st.integers(1, 2))
def test_case_95_empty_lines_on_any_side_have_scores(data: st.DataObject, lines: int, files: int) -> None:
    """Of every metric, with intervals and a baseline; also where all is empty."""
    hypotheses = [data.draw(maybe_empty) for _ in range(lines)]
    references = [[data.draw(maybe_empty) for _ in range(lines)] for _ in range(files)]
    config = EvaluateConfig(metrics=NAMES, empty_reference="zero")
    report = assess(
        {"a": hypotheses, "b": references[0]}, references, config=config, resamples=5, baseline=("a", hypotheses)
    )
    for system in report.systems:
        for figure in system.scores.values():
            assert all(math.isfinite(value) and value >= 0 for value in (figure.score, figure.low, figure.high))
            assert figure.p_value is None or 0 <= figure.p_value <= 1
    for line in (*hypotheses, ""):
        for name in ("bleu", "chrf", "ter"):
            assert score(name, [line], [[line]]) == pytest.approx(
                0.0 if name == "ter" or not line.split() or name == "bleu" else 100.0
            )


@given(reference=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4, unique=True), more=st.integers(0, 3))
def test_case_97_one_word_in_common_has_no_order(reference: list[str], more: int) -> None:
    """Right where it is all of the reference, less its share of the output; else there is nothing to put in order."""
    hypothesis = [reference[0], *(f"z{number}" for number in range(more))]
    expected = (1 / (1 + more)) ** 0.25 if len(reference) == 1 else 0.0
    assert sentence_ribes(hypothesis, reference) == pytest.approx(expected)
    assert sentence_ribes([], reference) == sentence_ribes(["zzz"], reference) == 0.0


code = st.text(alphabet='x="ab (),\t\u00a0', min_size=1, max_size=12)


@given(reference=code, hypothesis=code)
def test_case_107_exact_is_the_text_itself(reference: str, hypothesis: str) -> None:
    """Blanks count, wherever they stand and of whatever kind; so do composed characters."""
    for line in (hypothesis, reference, reference.replace(" ", "  "), reference + " ", " ".join(reference.split())):
        assert score("exact", [line], [[reference]]) == float(line == reference)
    assert score("exact", ["caf\u00e9"], [["cafe\u0301"]]) == 0.0


def test_case_107_and_39_files_are_compared_as_they_stand(tmp_path: Path) -> None:
    """References are neither normalised nor split at blanks on their way from a file."""
    lines = ['x = "a  b"', " indented", "end ", "cafe\u0301 noir", "tab\tbed", "\u015fi"]
    changed = ['x = "a b"', "indented", "end", unicodedata.normalize("NFC", "cafe\u0301 noir"), "tab bed", "\u0219i"]
    for name, text in (("ref", lines), ("hyp", lines), ("other", changed)):
        (tmp_path / name).write_text("\n".join(text) + "\n", encoding="utf-8")
    config = EvaluateConfig(metrics=["exact"])
    report = assess_files([str(tmp_path / "hyp"), str(tmp_path / "other")], [str(tmp_path / "ref")], config=config)
    assert [system.scores["exact"].score for system in report.systems] == [1.0, 0.0]


UNSPACED = {
    "zh": ("小猫今天喝了牛奶", "小猫今天喝了豆奶"),
    "ja": ("私は昨日新しい本を読んだ", "私は昨日古い本を読んだ"),
}


@pytest.mark.parametrize("code", ["zh", "zh-CN", "zh_Hant", "cmn", "yue", "ja", "jpn", "JA-jp"])
def test_case_109_text_without_blanks_is_split_by_its_language(code: str) -> None:
    """Then one wrong word is one wrong word; without the language there is a warning, and never silence."""
    hypothesis, reference = UNSPACED["ja" if code.lower().startswith("j") else "zh"]
    config = EvaluateConfig(metrics=["bleu"])
    figures = {}
    for language in (code, "", "en"):
        report = assess({"a": [hypothesis]}, [[reference]], config=config, language=language, resamples=5)
        figure = report.systems[0].scores["bleu"]
        figures[language] = figure.score
        assert ("tok:13a" in figure.signature) == bool(report.warnings) == (language != code)
    assert figures[""] == figures["en"] == 0.0 < figures[code] < 100.0


@given(line=st.sampled_from(TALK))
def test_case_91_decoding_writes_what_evaluation_reads(line: str) -> None:
    """Tokens of Moses, put together again, are no tokenised text."""
    for tokenizer in (EN, make_tokenizer("tokenized", "en")):
        text = tokenizer.detokenize(EN.tokenize(line))
        report = assess({"out": [text]}, [[line]], config=EvaluateConfig(metrics=["bleu"]), resamples=5)
        assert report.warnings == ()


@pytest.mark.parametrize("line", ["быстрый кот", "小猫今天", "नमस्ते दुनिया", "Tiếng Việt", "cafe\u0301 noir"])
@pytest.mark.parametrize("tokenize", ["13a", "intl", "none", "char"])
def test_case_105_rouge_keeps_letters_of_every_script(line: str, tokenize: TokenizerName) -> None:
    """Identical lines score 1, whatever the script, and the signature names the words that were counted."""
    config = EvaluateConfig(metrics=["rouge1", "rouge2", "rougeL"], tokenize=tokenize)
    report = assess({"out": [f"{line} {line[::-1]}"]}, [[f"{line} {line[::-1]}"]], config=config, resamples=5)
    for figure in report.systems[0].scores.values():
        assert figure.score == pytest.approx(1.0)
        assert ("tok:words" in figure.signature) == (tokenize in ("13a", "intl"))
