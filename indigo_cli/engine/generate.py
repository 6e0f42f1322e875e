"""A run and raw text -> text, n-best lists or traces, in input order."""

import io
import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from indigo_cli.core import console
from indigo_cli.core.chunks import chunked
from indigo_cli.core.format import Format
from indigo_cli.data.corpus import Corpus
from indigo_cli.data.files import STANDARD_STREAM, open_output, refuse_existing, sha256_file
from indigo_cli.engine.canvas_lines import CanvasReader, with_canvases
from indigo_cli.engine.distributed import check_shared, processes_of
from indigo_cli.engine.flops import DecodingCost, Meter
from indigo_cli.engine.generator import Generator, block_size
from indigo_cli.engine.kept_blocks import KeptBlocks
from indigo_cli.engine.length_wish import LengthOption, note_ratio, with_wishes
from indigo_cli.engine.lines import EncodedLine, LineCount, encode_item, line_blocks
from indigo_cli.engine.loaded_run import LoadedRun, load_ensemble
from indigo_cli.engine.nbest import Output
from indigo_cli.engine.runtime import Runtime
from indigo_cli.engine.writers import WRITERS
from indigo_cli.errors import DataError, UsageError

_UNKNOWN = " (such a file does not say by what run and settings it was made)"


@dataclass
class GenerateSummary:
    """Counts of one `decode`; lines that were not treated as a user may expect are named; what it cost, if asked."""

    lines: int = 0
    cut: LineCount = field(default_factory=LineCount)
    unknown: LineCount = field(default_factory=LineCount)
    unfinished: LineCount = field(default_factory=LineCount)
    cost: DecodingCost | None = None

    def add(self, line: EncodedLine, *, finished: bool) -> None:
        """Count a line, and whether its best hypothesis is finished; lines come in the order of the input."""
        self.lines += 1
        for count, happened in (
            (self.cut, line.cut),
            (self.unknown, line.unknown),
            (self.unfinished, bool(len(line.ids)) and not finished),
        ):
            if happened:
                count.add(line.number)

    def text(self) -> str:
        """One line for people."""
        return f"decoded {self.lines:,} line{'s' * (self.lines != 1)}"

    def warnings(self) -> list[str]:
        """Return one line for each kind of trouble."""
        kinds = (
            (self.cut, "longer than preprocess.max_length and cut"),
            (self.unknown, "without any known word"),
            (self.unfinished, "out of steps before <eod> (decode.max_length, decode.max_length_ratio, bans)"),
        )
        return [count.text(what) for count, what in kinds if count.count]


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
    ensemble: Sequence[Path] = (),
    overrides: Sequence[str] = (),
    seed: int | None = None,
    runtime: Runtime | None = None,
    overwrite: bool = False,
    canvas: str = "",
    count_flops: bool = False,
    resume: bool = False,
    length: LengthOption | None = None,
) -> GenerateSummary:
    """Decode text or a split and write the results.

    Args:
        run: Run folder.
        source: Text file, one sentence a line; `-` is standard input. Not used with `split`.
        split: A split of the run's corpus.
        corpus_folder: Instead of the one that the run recorded.
        output: File, or `-`.
        form: See `Format`.
        n_best: Hypotheses of a line, for `tsv` and `jsonl`; the number of draws with `decode.search = "sample"`.
        checkpoint, ensemble, overrides: See `load_ensemble`.
        seed: Of the draws; None takes the recipe's.
        runtime: Device, precision, threads.
        overwrite: Replace an output that stands.
        canvas: Text file: words that must appear in the output of each line, see `CanvasReader`.
        count_flops: Measure what it costs, see `Meter`; everything is decoded twice.
        length: How long outputs are to be, see `LengthOption`; None = by the ratio of training, where the run was
            trained with lengths.
        resume: Keep finished blocks beside the output, and go on from those that stand; see `KeptBlocks`.

    Raises:
        UsageError: the run, an option or the input cannot be used.
        DataError: a line that is not UTF-8; the lines before it are answered.
    """
    if resume:
        files = (canvas, "" if split else source, length.file if length is not None else "")
        _check_resumable(files, overwrite=overwrite, count_flops=count_flops)
    else:
        refuse_existing(output, overwrite)
    if form is Format.text and n_best > 1:
        raise UsageError("text has room for one hypothesis a line", where="--n-best", fix="--format tsv or jsonl")
    runtime = runtime or Runtime()
    summary = GenerateSummary()
    with processes_of(runtime) as processes, ExitStack() as opened:
        loaded = load_ensemble([run, *ensemble], checkpoint=checkpoint, overrides=overrides, device=processes.device)
        generator = Generator(loaded, device=processes.device, runtime=runtime, n_best=n_best, seed=seed, length=length)
        note_ratio(generator.wisher, length)
        most = block_size(n_best)
        decode = generator.decode
        if count_flops:
            if processes.world > 1:
                what = "what decoding costs is measured on one process"
                raise UsageError(what, where="--count-flops", fix="run it without torchrun")
            meter = Meter(generator)
            decode, summary.cost = meter.decode, meter.cost
        if canvas:
            check_shared(canvas, processes)
            generator.use_canvas()
        if split:
            corpus = loaded.open_corpus(corpus_folder)
            blocks, total = split_blocks(generator, corpus, split, most), len(corpus.split(split))
            num_lines = int(corpus.manifest["splits"][split]["lines"])
        else:
            check_shared(source, processes)
            blocks, total, num_lines = generator.encode_blocks(line_blocks(source, most=most)), None, 0
        if canvas:
            reader = CanvasReader(loaded.codecs.target, max_length=generator.max_source)
            blocks = with_canvases(blocks, canvas, reader, num_lines=num_lines if split else None)
        if generator.wisher is not None:
            blocks = with_wishes(blocks, generator.wisher, num_lines=num_lines if split else None)
        if canvas and generator.hard_length is not None:
            blocks = generator.hard_length.checked(blocks, canvas)
        kept, done = None, frozenset[int]()  # where finished blocks are kept, and the numbers of those that stand
        if resume:
            inputs = {"input": f"{corpus.digest} {split}" if split else sha256_file(source)}
            if canvas:
                inputs["canvas"] = sha256_file(canvas)
            header = loaded.header() if form is Format.jsonl else None
            kept = KeptBlocks(output, {**inputs, **_facts(generator, form)}, header)
            found = processes.first_does(partial(kept.begin, opened))
            if found is None:
                console.note(f"{output} stands already: nothing is decoded{'' if header else _UNKNOWN}")
                return summary
            done = found
        elif output != STANDARD_STREAM:
            processes.first_does(partial(KeptBlocks(output, {}).begin_anew, overwrite=overwrite))

        def work(numbered: tuple[int, list[EncodedLine]]) -> list[list[Output]] | None:
            number, block = numbered
            return None if number in done else decode(block)

        decoded = processes.in_order(enumerate(blocks), work)
        if not processes.is_first:
            deque(decoded, maxlen=0)
            return summary
        try:
            with open_output(output, overwrite) as stream, console.progress("decode", total=total) as bar:
                text = _BlockText(form, loaded)
                stream.write(text.taken())
                for (number, block), lists in decoded:
                    if lists is None:
                        assert kept is not None
                        written, unfinished = kept.read(number)
                        text.writer.skip(block[-1].number)
                    else:
                        written, unfinished = text.of(block, lists)
                        if kept is not None:
                            kept.write(number, written, unfinished)
                    stream.write(written)
                    stream.flush()
                    for line in block:
                        summary.add(line, finished=line.number not in unfinished)
                    bar.advance(len(block))
                text.writer.end(num_lines)
                stream.write(text.taken())
        except DataError:
            console.warn_of(summary.warnings())  # of the lines before the one that cannot be read
            raise
        if kept is not None:
            kept.remove()
    console.warn_of(summary.warnings())
    return summary


class _BlockText:
    """What a format makes of one block after another."""

    def __init__(self, form: Format, run: LoadedRun) -> None:
        self._stream = io.StringIO()
        self.writer = WRITERS[form](self._stream, run)

    def of(self, block: Sequence[EncodedLine], lists: Sequence[Sequence[Output]]) -> tuple[str, list[int]]:
        """Return the text of a block, and the lines whose best hypothesis ran out of steps."""
        for line, outputs in zip(block, lists, strict=True):
            self.writer.write(line.number, outputs)
        unfinished = [
            line.number for line, outputs in zip(block, lists, strict=True) if not outputs[0].hypothesis.finished
        ]
        return self.taken(), unfinished

    def taken(self) -> str:
        """Return what was written since the last call."""
        text = self._stream.getvalue()
        self._stream.seek(0)
        self._stream.truncate()
        return text


def _check_resumable(files: Sequence[str], *, overwrite: bool, count_flops: bool) -> None:
    """Refuse what goes ill with going on later."""
    if overwrite:
        fix = "give one of the two"
        raise UsageError("--resume keeps what --overwrite deletes", where="--resume", fix=fix)
    if count_flops:
        raise UsageError("what a whole decoding costs is measured in one go", where="--count-flops", fix="leave it out")
    for path in files:
        if path == STANDARD_STREAM or (os.path.exists(path) and not os.path.isfile(path)):
            what = "standard input or a pipe cannot be read again when decoding goes on"
            raise UsageError(what, where="--resume", fix="name a file with --input, or a --split")


def _facts(generator: Generator, form: Format) -> dict[str, Any]:
    """Return what outputs depend on, beside the inputs; batches may be cut in another way when decoding goes on."""
    run = generator.run
    sections = {"decode": asdict(run.recipe.decode), "model": asdict(run.recipe.model)}
    del sections["decode"]["batch_tokens"]
    if run.recipe.decode.canvas_order == "best":  # found by a search
        sections["search"] = asdict(run.recipe.search)
    return {
        "weights": run.weights_digest(),
        "output_format": form.value,
        "n_best": generator.n_best,
        "seed": generator.seed,
        **{f"{section}.{key}": value for section, keys in sections.items() for key, value in keys.items()},
        "max_length": generator.max_source,
        "precision": generator.runtime.precision,
        "block": block_size(generator.n_best),
        **(generator.wisher.facts() if generator.wisher is not None else {}),
    }


def split_blocks(generator: Generator, corpus: Corpus, name: str, most: int) -> Iterator[list[EncodedLine]]:
    """Yield the sources of a split, at most `most` in a block; the same blocks whoever decodes them."""
    split = corpus.split(name)
    return chunked((encode_item(split, i, max_length=generator.max_source) for i in range(len(split))), most)
