"""A spaCy of a few lines, for tests: installed as packages in a folder, so that worker processes find it as well.

Words are runs of word characters or single other characters. A sentence ends with a full stop; its longest word (the
first of them) is the root, the others hang on it, but `the` and `a` on the word that follows.
"""

import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

SOURCE = """
import re, types, warnings, contextlib

calls = []

class Word:
    def __init__(self, text):
        self.text = text

def doc_of(text):
    words = [Word(w) for w in re.findall(r"\\\\w+|[^\\\\w ]", text)]
    start = 0
    for i, word in enumerate(words):
        word.i = i
        if word.text == "." or i == len(words) - 1:
            sentence = words[start:i + 1]
            root = max(sentence, key=lambda w: len(w.text))
            for j, each in enumerate(sentence):
                article = each.text in ("the", "a") and j + 1 < len(sentence)
                each.head = sentence[j + 1] if article and each is not root else root
            start = i + 1
    return words

class Language:
    max_length = 200
    def __init__(self, name, exclude):
        self.pipe_names = ["tok2vec"] if name == "fake_tagger" else ["tok2vec", "parser"]
    def get_pipe_meta(self, name):
        return types.SimpleNamespace(assigns=["token.head", "token.dep"] if name == "parser" else ["doc.tensor"])
    @contextlib.contextmanager
    def memory_zone(self):
        yield
    def pipe(self, texts, batch_size):
        warnings.warn("[W999] a warning of spaCy")
        calls.append(list(texts))
        return map(doc_of, texts)

def load(name, exclude):
    warnings.warn("[W998] a warning of spaCy")
    if name == "fake_broken":
        raise OSError("[E053] Could not read\\\\n config.cfg")
    if name == "fake_dying":
        import os
        os._exit(3)
    if name == "fake_sleeping":
        import time
        time.sleep(600)
    return Language(name, exclude)
""".replace("\\\\", "\\")


def heads_of(text: str) -> list[int]:
    """Return the head of each word as the fake parser gives it, itself for a root."""
    names: dict[str, object] = {}
    exec(SOURCE, names)
    words = names["doc_of"](text)  # type: ignore[operator]
    return [word.head.i for word in words]


def write_fake_spacy(package: Path, models: Iterable[tuple[str, str]] = (("fake_model", "1.0"),)) -> None:
    """Make a folder for Python's path that holds the fake, and models of these names and versions."""
    package.mkdir()
    (package / "spacy.py").write_text(SOURCE, encoding="utf-8")
    for name, version in models:
        info = package / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")


def install_fake_spacy(
    folder: Path, monkeypatch: pytest.MonkeyPatch, models: Iterable[tuple[str, str]] = (("fake_model", "1.0"),)
) -> None:
    """Put the fake before any real spaCy, with models of these names and versions."""
    package = folder / "packages"
    write_fake_spacy(package, models)
    monkeypatch.syspath_prepend(str(package))
    spec = importlib.util.spec_from_file_location("spacy", package / "spacy.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "spacy", module)
