"""A run and raw text -> text, n-best lists or traces, in input order."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch

from indigo_cli.core import console
from indigo_cli.core.format import Format
from indigo_cli.core.trace import GenerationTrace, Hypothesis
from indigo_cli.data.collate import collate_source
from indigo_cli.data.corpus import Corpus
from indigo_cli.data.files import open_output, refuse_existing
from indigo_cli.data.traces_file import dump_header, dump_row, trace_row
from indigo_cli.decoding.beam import beam_search, normalised
from indigo_cli.engine.lines import BLOCK_LINES, line_blocks
from indigo_cli.engine.loaded_run import LoadedRun, load_run
from indigo_cli.engine.runtime import Runtime
from indigo_cli.errors import UsageError

NAMED_LINES = 5
"""So many cut lines are named in the warning; all are counted."""


@dataclass(frozen=True)
class Output:
    """One hypothesis of a line, with the text it spells."""

    hypothesis: Hypothesis
    text: str


@dataclass
class GenerateSummary:
    """Counts of one `decode`."""

    lines: int = 0
    cut_sources: list[int] = field(default_factory=list)
    unfinished: list[int] = field(default_factory=list)

    def text(self) -> str:
        """One line for people."""
        return f"decoded {self.lines:,} line{'s' * (self.lines != 1)}"

    def warnings(self) -> list[str]:
        """Lines that were not treated as a user may expect."""
        found = []
        for lines, what in (
            (self.cut_sources, "longer than preprocess.max_length and cut"),
            (self.unfinished, "out of steps before <eod> (decode.max_length, decode.max_length_ratio)"),
        ):
            if lines:
                named = ", ".join(str(line + 1) for line in lines[:NAMED_LINES])
                more = ", ..." if len(lines) > NAMED_LINES else ""
                count = f"{len(lines)} lines were" if len(lines) > 1 else "1 line was"
                found.append(f"{count} {what}: line {named}{more}")
        return found


Item = tuple[int, Sequence[int]]
"""0-based line and source ids."""


class Generator:
    """Decodes with one loaded run.

    Args:
        run: The run; its recipe's [decode] section says how to search.
        device: Where its weights are.
        runtime: Precision.
    """

    def __init__(self, run: LoadedRun, *, device: torch.device, runtime: Runtime) -> None:
        self.run, self.device, self.runtime = run, device, runtime
        self.config = run.recipe.decode
        self.max_source = run.recipe.preprocess.max_length

    def decode(self, block: Sequence[Item], summary: GenerateSummary) -> list[list[Output]]:
        """Return the outputs of each item, best first; never an empty list."""
        outputs: list[list[Output]] = [[] for _ in block]
        sources = []
        for line, ids in block:
            if len(ids) > self.max_source:
                summary.cut_sources.append(line)
            sources.append(ids[: self.max_source])
        for batch in self._batches([len(ids) for ids in sources]):
            for i, hypotheses in zip(batch, self._search([sources[i] for i in batch]), strict=True):
                outputs[i] = self._outputs(hypotheses)
                if not outputs[i][0].hypothesis.finished:
                    summary.unfinished.append(block[i][0])
        for i, ids in enumerate(sources):
            if not len(ids):
                outputs[i] = [Output(Hypothesis(GenerationTrace(()), score=0.0, finished=False), "")]
        summary.unfinished.sort()
        summary.lines += len(block)
        return outputs

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Yield indices of sources of similar length within the budget; empty sources are left out."""
        order = np.argsort(np.array(lengths, dtype=np.int64), kind="stable").tolist()
        batch: list[int] = []
        for i in order:
            if not lengths[i]:
                continue
            if batch and (len(batch) + 1) * lengths[i] * self.config.beam_size > self.config.batch_tokens:
                yield batch
                batch = []
            batch.append(i)
        if batch:
            yield batch

    def _search(self, sources: Sequence[Sequence[int]]) -> list[list[Hypothesis]]:
        source = collate_source(sources).to(self.device)
        limits = [min(self.config.max_length, math.ceil(self.config.max_length_ratio * len(ids))) for ids in sources]
        with self.runtime.autocast(self.device):
            return beam_search(
                self.run.system,
                source,
                beam_size=self.config.beam_size,
                length_penalty=self.config.length_penalty,
                max_lengths=limits,
            )

    def _outputs(self, hypotheses: Sequence[Hypothesis]) -> list[Output]:
        codec = self.run.codecs.target
        found = [Output(hypothesis, codec.text_of_ids(hypothesis.trace.tokens())) for hypothesis in hypotheses]
        return merge_strings(found, self.config.length_penalty) if self.config.merge_strings else found

    def row(self, line: int, rank: int, output: Output) -> dict[str, Any]:
        """Return the object of a traces file."""
        tokens = self.run.codecs.target.vocabulary.decode(output.hypothesis.trace.tokens())
        return trace_row(line, rank, output.hypothesis, text=output.text, tokens=tokens)


def merge_strings(outputs: Sequence[Output], length_penalty: float) -> list[Output]:
    """Add the probabilities of hypotheses that spell one string; the best trace of each string stands for it.

    Finished and unfinished ones are kept apart: an unfinished one spells the beginning of something else.
    """
    groups: dict[tuple[str, bool], list[Output]] = {}
    for output in outputs:
        groups.setdefault((output.text, output.hypothesis.finished), []).append(output)
    merged = []
    for group in groups.values():
        best = max(group, key=lambda output: output.hypothesis.trace.log_prob)
        top = best.hypothesis.trace.log_prob
        together = top + math.log(math.fsum(math.exp(o.hypothesis.trace.log_prob - top) for o in group))
        score = normalised(together, len(best.hypothesis.trace), length_penalty)
        merged.append(replace(best, hypothesis=replace(best.hypothesis, score=score, merged_log_prob=together)))
    return sorted(merged, key=lambda output: (output.hypothesis.finished, output.hypothesis.score), reverse=True)


def generate(
    run: Path,
    *,
    source: str = "-",
    split: str = "",
    corpus_folder: Path | None = None,
    output: str = "-",
    form: Format = Format.text,
    n_best: int = 1,
    checkpoint: str = "",
    overrides: Sequence[str] = (),
    runtime: Runtime | None = None,
    overwrite: bool = False,
) -> GenerateSummary:
    """Decode text or a split and write the results.

    Args:
        run: Run folder.
        source: Text file, one sentence a line; `-` is standard input. Not used with `split`.
        split: A split of the run's corpus.
        corpus_folder: Instead of the one that the run recorded.
        output: File, or `-`.
        form: See `Format`.
        n_best: Hypotheses of a line, for `tsv` and `jsonl`.
        checkpoint, overrides: See `load_run`.
        runtime: Device, precision, threads.
        overwrite: Replace an output that stands.
    """
    refuse_existing(output, overwrite)
    runtime = runtime or Runtime()
    device = runtime.start()
    loaded = load_run(run, checkpoint=checkpoint, overrides=overrides, device=device)
    if n_best < 1 or n_best > loaded.recipe.decode.beam_size:
        raise UsageError(
            f"{n_best} best of a beam of {loaded.recipe.decode.beam_size} cannot be given",
            where="--n-best",
            fix=f"--beam {max(n_best, 1)}" if n_best > 0 else "1 or more",
        )
    if form is Format.text and n_best > 1:
        raise UsageError("text has room for one hypothesis a line", where="--n-best", fix="--format tsv or jsonl")
    generator = Generator(loaded, device=device, runtime=runtime)
    summary = GenerateSummary()
    total = None
    if split:
        corpus = _corpus_of(loaded, corpus_folder)
        blocks, total = _split_blocks(corpus, split), len(corpus.split(split))
        num_lines = int(corpus.manifest["splits"][split]["lines"])
    else:
        blocks = _text_blocks(loaded, source)
        num_lines = 0
    with open_output(output, overwrite) as stream, console.progress("decode", total=total) as bar:
        writer = _WRITERS[form](stream, generator, n_best)
        writer.start()
        for block in blocks:
            writer.write(block, generator.decode(block, summary))
            stream.flush()
            bar.advance(len(block))
        writer.end(num_lines)
    for warning in summary.warnings():
        console.warn(warning)
    return summary


def _text_blocks(loaded: LoadedRun, source: str) -> Iterator[list[Item]]:
    line = 0
    for lines in line_blocks(source):
        yield [(line + i, loaded.codecs.encode_source(text)) for i, text in enumerate(lines)]
        line += len(lines)


def _corpus_of(loaded: LoadedRun, folder: Path | None) -> Corpus:
    """Open the run's corpus and check that it is the one the run was trained on."""
    corpus = Corpus.open(folder or Path(loaded.folder.facts["corpus"]))
    if corpus.digest != loaded.folder.facts["corpus_digest"]:
        raise UsageError(
            "this corpus is not the one that the run was trained on (another digest)",
            where=str(corpus.folder),
            fix="preprocess it with the run's recipe, or decode raw text with --input",
        )
    return corpus


def _split_blocks(corpus: Corpus, name: str) -> Iterator[list[Item]]:
    split = corpus.split(name)
    items: Iterable[Item] = ((int(line), split.source[i].tolist()) for i, line in enumerate(split.lines))
    stream = iter(items)
    while block := list(islice(stream, BLOCK_LINES)):
        yield block


class _Writer:
    """Writes the outputs of blocks in one format."""

    def __init__(self, stream: TextIO, generator: Generator, n_best: int) -> None:
        self.stream, self.generator, self.n_best = stream, generator, n_best

    def start(self) -> None:
        """Write what comes before all lines."""

    def end(self, num_lines: int) -> None:
        """Write what comes behind all lines."""

    def write(self, block: Sequence[Item], outputs: Sequence[Sequence[Output]]) -> None:
        """Write the outputs of a block."""
        for (line, _), found in zip(block, outputs, strict=True):
            for rank, output in enumerate(found[: self.n_best], start=1):
                self.write_one(line, rank, output)

    def write_one(self, line: int, rank: int, output: Output) -> None:
        """Write one hypothesis."""
        raise NotImplementedError


class _TextWriter(_Writer):
    """The best text of each raw line; a line of the split that preprocessing dropped is empty."""

    next_line = 0

    def write_one(self, line: int, rank: int, output: Output) -> None:
        self.stream.write("\n" * (line - self.next_line) + output.text.replace("\n", " ") + "\n")
        self.next_line = line + 1

    def end(self, num_lines: int) -> None:
        self.stream.write("\n" * max(0, num_lines - self.next_line))


class _TsvWriter(_Writer):
    """id, rank, score, text; tabs in the text as spaces."""

    def write_one(self, line: int, rank: int, output: Output) -> None:
        text = output.text.replace("\t", " ").replace("\n", " ")
        self.stream.write(f"{line}\t{rank}\t{output.hypothesis.score:.6g}\t{text}\n")


class _TracesWriter(_Writer):
    """A traces file."""

    def start(self) -> None:
        self.stream.write(dump_header(self.generator.run.header()) + "\n")

    def write_one(self, line: int, rank: int, output: Output) -> None:
        self.stream.write(dump_row(self.generator.row(line, rank, output)) + "\n")


_WRITERS: dict[Format, Callable[[TextIO, Generator, int], _Writer]] = {
    Format.text: _TextWriter,
    Format.tsv: _TsvWriter,
    Format.jsonl: _TracesWriter,
}
