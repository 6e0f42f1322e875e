"""Which length counts as wanted: the limit, the wish of the output, that of the others, the reference."""

import pytest

from indigo_cli.engine.assess import EvaluateConfig, assess
from indigo_cli.engine.wishes import Wishes
from indigo_cli.errors import UsageError

REFERENCE = ["123456", "12"]
LENGTH = EvaluateConfig(metrics=["length"])


def absolute(config: EvaluateConfig = LENGTH, **wishes: Wishes) -> tuple[dict[str, float], str, tuple[str, ...]]:
    """Mean absolute difference by system, the signature's wish, warnings. Both texts have 4 characters a line."""
    systems = {"a": ["abcd", "abcd"], "b": ["a b ", "a  b"]}
    report = assess(systems, [REFERENCE], config=config, resamples=2, wishes=wishes, parts=True)
    found = {system.name: system.scores["length"].parts["absolute"].score for system in report.systems}
    keys = dict(part.split(":") for part in report.systems[0].scores["length"].signature.split("|"))
    return found, f"{keys['unit']} {keys['wish']}", report.warnings


def test_without_any_wish_the_reference_counts() -> None:
    assert absolute() == ({"a": 2.0, "b": 2.0}, "character reference", ())


def test_each_output_has_its_own_wish_and_lines_without_take_the_reference() -> None:
    found, signature, warnings = absolute(a=Wishes([5, 7]), b=Wishes([None, 4]))
    assert (found, signature, warnings) == ({"a": 2.0, "b": 1.0}, "character traces", ())


def test_an_output_without_is_held_against_what_the_others_were_to_do() -> None:
    found, _, (warning,) = absolute(a=Wishes([5, 7]))
    assert found == {"a": 2.0, "b": 2.0} and warning == "b: no wanted lengths, compared with those of a"
    systems = {"a": ["x"], "b": ["y"], "c": ["z"]}
    wishes = {"a": Wishes([5]), "b": Wishes([6])}
    report = assess(systems, [["123"]], config=LENGTH, resamples=2, wishes=wishes, parts=True)
    assert [system.scores["length"].parts["absolute"].score for system in report.systems] == [4.0, 5.0, 2.0]
    (warning,) = report.warnings
    assert "c: no wanted lengths, compared with the references'" in warning and "evaluate.length_limit=N" in warning


def test_the_limit_overrules_every_wish() -> None:
    config = EvaluateConfig(metrics=["length"], length_limit=10)
    assert absolute(config, a=Wishes([5, 7])) == ({"a": 6.0, "b": 6.0}, "character 10", ())


def test_the_unit_is_that_of_the_wishes() -> None:
    assert absolute(a=Wishes([1, 2], "word"))[:2] == ({"a": 0.5, "b": 0.5}, "word traces")
    config = EvaluateConfig(metrics=["length"], length_unit="word")
    assert absolute(config, a=Wishes([1, 2], "word"))[:2] == ({"a": 0.5, "b": 0.5}, "word traces")
    assert absolute(config)[:2] == ({"a": 0.0, "b": 1.0}, "word reference")


def test_other_units_than_the_wishes_have_are_refused() -> None:
    with pytest.raises(UsageError, match="a was decoded to lengths in the unit 'byte'") as caught:
        absolute(EvaluateConfig(metrics=["length"], length_unit="word"), a=Wishes([1, 2], "byte"))
    assert caught.value.where == "evaluate.length_unit" and "length_limit" in caught.value.fix
    with pytest.raises(UsageError, match="a: byte, b: word"):
        absolute(a=Wishes([1, 2], "byte"), b=Wishes([1, 2], "word"))
    limited = EvaluateConfig(metrics=["length"], length_limit=10)
    assert absolute(limited, a=Wishes([1, 2], "byte"), b=Wishes([1, 2], "word"))[1] == "character 10"
    assert absolute(limited, a=Wishes([1, 2], "word"))[:2] == ({"a": 9.0, "b": 8.0}, "word 10")


def test_pieces_of_a_vocabulary_are_not_tokens_of_the_evaluation() -> None:
    (warning,) = absolute(a=Wishes([1, 2], "token"), b=Wishes([1, 2], "token"))[2]
    assert "pieces of the vocabulary" in warning


def test_other_metrics_do_not_care() -> None:
    wishes = {"a": Wishes([1], "byte"), "b": Wishes([1], "word")}
    config = EvaluateConfig(metrics=["exact"])
    assert assess({"a": ["x"], "b": ["y"]}, [["x"]], config=config, resamples=2, wishes=wishes).warnings == ()
