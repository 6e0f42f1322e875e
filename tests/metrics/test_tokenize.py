"""Choice of the evaluation tokeniser, and the warnings about text that does not fit it."""

from importlib.util import find_spec

import pytest

from indigo_cli.errors import UsageError
from indigo_cli.metrics import tokenize
from indigo_cli.metrics.tokenize import TOKENIZERS, choose_tokenizer, load_tokenizer, tokenisation_warnings


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


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("13a", ["Isn't", "it", "3.5", "猫が", "?"]),
        ("intl", ["Isn", "'", "t", "it", "3.5", "猫が", "?"]),
        ("zh", ["Isn't", "it", "3.5", "猫", "が", "?"]),
        ("char", list("Isn'tit3.5猫が?")),
        ("none", ["Isn't", "it", "3.5", "猫が?"]),
    ],
)
def test_tokens(name: str, tokens: list[str]) -> None:
    tokenizer = load_tokenizer(name)
    assert tokenizer("Isn't it\u2028 3.5 猫が?\t") == tokens
    assert tokenizer.signature == name
    assert tokenizer("") == tokenizer(" ") == []


@pytest.mark.parametrize("name", TOKENIZERS)
def test_every_tokeniser_loads_or_says_what_it_needs(name: str) -> None:
    try:
        chosen = choose_tokenizer(name, "")
    except UsageError as error:
        assert "needs the Python packages" in error.what
    else:
        assert len(load_tokenizer(chosen)("한국어 日本語 words")) >= 3


def test_a_japanese_line_is_many_tokens() -> None:
    """Scored as 13a it would be one, right or wrong as a whole."""
    line = "私は昨日新しい本を読んだ"
    assert load_tokenizer("13a")(line) == [line]
    assert len(load_tokenizer(choose_tokenizer("auto", "ja"))(line)) >= 6
