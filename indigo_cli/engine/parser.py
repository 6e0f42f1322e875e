"""Dependency parses of targets from spaCy, the extra `syntax`, in one process or several.

What is parsed is the target as plain text, so it needs no raw files and fits the tokens by construction; spaCy cuts it
into words of its own. An unknown piece is written as `PLACEHOLDER`.
"""

import logging
import multiprocessing
import os
import re
import signal
import threading
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from itertools import islice
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from indigo_cli.core import console
from indigo_cli.core.moses import language_code
from indigo_cli.core.text import Codecs
from indigo_cli.data.conllu import Tree, align
from indigo_cli.engine.parser_model import FROM_FILE, ParserModel
from indigo_cli.engine.parses import Item, Spelling, bare, parse_of_tokens
from indigo_cli.engine.tokenise_pool import usual_workers
from indigo_cli.errors import RunError, UsageError
from indigo_cli.orders import Parse

PLACEHOLDER = "X"
"""For `<unk>` in any language. With 17 % of the tokens of English captions and news replaced by it 82 % of the heads
stay as they were; `xxx` kept 81 %, `<unk>` 75 %, and `thing`, which is English, 86 %."""
EXCLUDED = (
    "attribute_ruler",
    "entity_linker",
    "entity_ruler",
    "lemmatizer",
    "morphologizer",
    "ner",
    "senter",
    "spancat",
    "tagger",
    "textcat",
    "textcat_multilabel",
    "trainable_lemmatizer",
)
"""Parts of a spaCy pipeline that a parser does without."""
CHUNK_TARGETS = 256
"""Targets parsed together. Fixed: sums over a batch round by its make-up, and workers must not change a tree."""
WITHOUT_BLANKS = ("ja", "zh")
"""Languages whose words are written without blanks; a corpus of words has some between them."""
_STRAY_BLANK = re.compile(r"(?<![!-~]) | (?![!-~])")
PER_WORKER = 10_000
"""Targets that are worth a process of their own, which takes seconds to start."""


@contextmanager
def _silence() -> Iterator[None]:
    """Keep what spaCy has to say about versions and settings off the user's terminal."""
    logging.getLogger("spacy").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Parser:
    """A loaded model and the codec of its targets.

    Args:
        folder: Of the corpus, where the codecs lie.
        name: Of the model.
    """

    def __init__(self, folder: Path, name: str) -> None:
        codec = Codecs.load(folder).target
        self._spelling, self._blanks = (
            Spelling(codec, unknown=PLACEHOLDER),
            language_code(codec.lang) not in WITHOUT_BLANKS,
        )
        with _silence():
            self._nlp = _load(name)

    def __call__(self, chunk: Sequence[Item]) -> list[Parse | None]:
        """Return the parse of each target, None for an empty one."""
        sentences = [(line, ids, self._sentence(ids)) for line, ids in chunk]
        longest = self._nlp.max_length
        for line, _, text in sentences:
            if len(text) > longest:
                console.warn(f"line {line} (from 0) has {len(text):,} characters, too many to parse: left to right")
        trees = iter(self._trees([text for _, _, text in sentences if 0 < len(text) <= longest]))
        return [
            self._parse(ids, next(trees) if 0 < len(text) <= longest else None, f"line {line} (from 0)")
            for line, ids, text in sentences
        ]

    def _sentence(self, ids: Sequence[int]) -> str:
        text = self._spelling.sentence(ids)
        return text if self._blanks else _STRAY_BLANK.sub("", text)

    def _trees(self, texts: Sequence[str]) -> list[tuple[tuple[int, ...], list[str]]]:
        """Return heads and words of each text. The zone gives back what words of this chunk would leave in memory."""
        with _silence(), self._nlp.memory_zone():
            return [
                (tuple(word.head.i for word in doc), [word.text for word in doc])
                for doc in self._nlp.pipe(texts, batch_size=CHUNK_TARGETS)
            ]

    def _parse(self, ids: Sequence[int], tree: tuple[tuple[int, ...], list[str]] | None, where: str) -> Parse | None:
        if not ids:
            return None
        if tree is None or not any(bare(word) for word in tree[1]):  # nothing to parse: left to right
            return Parse((0,), ((0, 0),) * len(ids), where=where)
        heads, words = tree
        own = Tree(heads, tuple((word, i, i) for i, word in enumerate(words)), where)
        texts, sizes = self._spelling.tokens(ids)
        return parse_of_tokens(align(texts, own, normalise=bare, enough_alike=0.0), sizes, own)


def _load(name: str) -> Any:
    """Return spaCy's pipeline without what is not needed."""
    try:
        import spacy

        nlp = spacy.load(name, exclude=list(EXCLUDED))
    except Exception as error:  # a model may fail in any way: another version, a package it needs, a damaged file
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        what = f"the spaCy model {name} cannot be loaded: {reason}"
        raise UsageError(what, where="order.parser", fix=f"install it again; {FROM_FILE}") from error
    if not any("token.head" in nlp.get_pipe_meta(pipe).assigns for pipe in nlp.pipe_names):
        what = f"the spaCy model {name} has no dependency parser"
        raise UsageError(what, where="order.parser", fix=f"name another; {FROM_FILE}")
    return nlp


def num_workers(wanted: int, targets: int) -> int:
    """Return how many processes to parse in: those asked for, or as many as are worth their start if 0."""
    return wanted or max(1, min(usual_workers(), targets // PER_WORKER))


class ParserPool:
    """Parses chunks in this process or in several, which start when they are first needed. A context manager.

    Args:
        folder: Of the corpus.
        model: From `find_model`.
        workers: Processes; 1 = this one.
    """

    def __init__(self, folder: Path, model: ParserModel, *, workers: int = 1) -> None:
        self.model, self._folder, self._workers = model, folder, workers
        self._parser: Parser | None = None
        self._executor: ProcessPoolExecutor | None = None
        self._born: set[BaseProcess] = set()

    def __enter__(self) -> "ParserPool":
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        if self._executor is not None:
            for worker in self._born if kind is not None else ():  # nobody waits for what they are at
                worker.kill()
            self._executor.shutdown(cancel_futures=True)
        self._parser = self._executor = None

    def map(self, chunks: Iterable[list[Item]]) -> Iterator[list[Parse | None]]:
        """Yield the parses of each chunk in turn; no more than a few chunks are on their way.

        Raises:
            RunError: a process died.
        """
        if self._workers == 1:
            self._parser = self._parser or Parser(self._folder, self.model.name)
            yield from map(self._parser, chunks)
            return
        if self._executor is None:
            # Not forked: threads of numpy and torch do not survive a fork.
            context = multiprocessing.get_context("spawn")
            self._executor = ProcessPoolExecutor(self._workers, mp_context=context, initializer=_start_worker)
        running: deque[Future[list[Parse | None]]] = deque()
        chunks = iter(chunks)
        try:
            while True:
                for chunk in islice(chunks, 2 * self._workers + 2 - len(running)):
                    others = set(multiprocessing.active_children()) - self._born
                    with _deaf():  # a worker starts when there is work for it
                        future = self._executor.submit(_parse_in_worker, self._folder, self.model.name, chunk)
                    self._born = set(multiprocessing.active_children()) - others
                    running.append(future)
                if not running:
                    return
                yield running.popleft().result()
        except BrokenProcessPool as error:
            fix = "choose fewer with --workers if memory ran out"
            raise RunError("a process that parses has died", fix=fix) from error


@contextmanager
def _deaf() -> Iterator[None]:
    """Let no Ctrl-C through: processes born meanwhile never hear one, and leave it to this one."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_worker() -> None:
    """End with the main process, however it ends."""
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _parse_in_worker(folder: Path, name: str, chunk: list[Item]) -> list[Parse | None]:
    return _parser_of_worker(folder, name)(chunk)


_parser_of_worker = lru_cache(maxsize=1)(Parser)


class SpacyParses:
    """The parses of a split's targets; see `engine.parses.Parses`.

    Args:
        pool: Parses; the caller closes it.
        total: Targets, for a progress bar; 0 shows none.
        label: Of the bar.
    """

    def __init__(self, pool: ParserPool, *, total: int = 0, label: str = "parse") -> None:
        self._pool, self._total, self._label = pool, total, label

    def __call__(self, items: Iterable[Item]) -> Iterator[Parse | None]:
        """See `Parses`."""
        items = iter(items)
        chunks = iter(lambda: list(islice(items, CHUNK_TARGETS)), [])
        shown = console.progress(self._label, total=self._total, unit="targets") if self._total else nullcontext()
        with shown as bar:
            for parses in self._pool.map(chunks):
                if bar is not None:
                    bar.advance(len(parses))
                yield from parses

    def finish(self) -> None:
        """There is nothing to say: a parser finds structure."""
