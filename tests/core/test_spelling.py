"""Romanian letters with a cedilla and with a comma below: one spelling on request, nothing else touched."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from indigo_cli.core.spelling import SPELLINGS, respell


def test_cedillas_become_commas() -> None:
    assert respell("şi ţara e mare ŞI ŢARA", "romanian") == "și țara e mare ȘI ȚARA"


@given(st.text() | st.text(alphabet="sștțşţŞŢ cç"))
def test_only_the_mark_below_changes(line: str) -> None:
    new = respell(line, "romanian")
    assert respell(line, "") == line and respell(new, "romanian") == new
    for before, after in zip(line, new, strict=True):
        names = (unicodedata.name(before, ""), unicodedata.name(after, ""))
        assert before == after or names[1] == names[0].replace("CEDILLA", "COMMA BELOW")
    assert not set(new) & set("şţŞŢ")


def test_every_spelling_names_its_language() -> None:
    assert {language for language, _ in SPELLINGS.values()} == {"ro"}
