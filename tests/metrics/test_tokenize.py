"""Choice of the evaluation tokeniser, and the warnings about text that does not fit it."""

from importlib.util import find_spec

import pytest

from indigo_cli.errors import UsageError
from indigo_cli.metrics import tokenize
from indigo_cli.metrics.tokenize import choose_tokenizer, tokenisation_warnings


@pytest.mark.parametrize("code", ["zh", "ZH", "zh-CN", "zh_Hant", "zho", "cmn", "yue"])
def test_chinese(code: str) -> None:
    assert choose_tokenizer("auto", code) == "zh"


@pytest.mark.parametrize(("installed", "expected"), [(True, "ja-mecab"), (False, "char")])
def test_japanese_takes_mecab_where_installed(installed: bool, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenize, "find_spec", lambda package: object() if installed else None)
    assert choose_tokenizer("auto", "ja") == expected


@pytest.mark.parametrize("code", ["", "de", "en", "ro", "zha", "jav"])
def test_others(code: str) -> None:
    assert choose_tokenizer("auto", code) == "13a"


@pytest.mark.parametrize("name", ["13a", "zh", "intl", "char", "none"])
def test_a_name_overrules_the_language(name: str) -> None:
    assert choose_tokenizer(name, "ja") == name


def test_unknown_names_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        choose_tokenizer("13b", "en")
    assert caught.value.where == "evaluate.tokenize"
    assert "did you mean `13a`?" in caught.value.fix


@pytest.mark.skipif(find_spec("MeCab") is not None, reason="MeCab is installed")
def test_missing_packages_are_named() -> None:
    with pytest.raises(UsageError, match="MeCab and ipadic") as caught:
        choose_tokenizer("ja-mecab", "ja")
    assert "sacrebleu[ja]" in caught.value.fix


@pytest.mark.parametrize(
    "line",
    [
        "It 's a cat , isn 't it ?",
        "the cat sat .",
        "do n't go",
        "say &quot;hi",
        "a well @-@ known cat",
        "un@@ known words",
    ],
)
def test_tokenised_text_is_noticed_from_the_first_line_on(line: str) -> None:
    (warning,) = tokenisation_warnings("hyp.txt", [line], [["a plain reference, detokenised."]], "13a")
    assert "hyp.txt" in warning
    assert tokenisation_warnings("hyp.txt", [line], [[line]], "none") == []


@pytest.mark.parametrize(
    ("hypothesis", "reference"),
    [
        ("It's a cat, isn't it?", "It's a cat."),
        ("Où vas-tu ?", "Où est-il ?"),  # French sets that space itself
        ("", ""),
    ],
)
def test_plain_text_is_not(hypothesis: str, reference: str) -> None:
    assert tokenisation_warnings("hyp.txt", [hypothesis], [[reference]], "13a") == []


def test_chinese_scored_as_words_is_noticed() -> None:
    references = [["小猫今天喝了豆奶", "狗 跑"]]
    (warning,) = tokenisation_warnings("hyp.txt", ["小猫", "狗"], references, "13a")
    assert "evaluate.tokenize=zh" in warning
    assert tokenisation_warnings("hyp.txt", ["小猫", "狗"], references, "zh") == []
    assert tokenisation_warnings("hyp.txt", ["Katze"], [["die Katze 猫 schläft"]], "13a") == []
