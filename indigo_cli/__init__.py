"""indigo: insertion-based sequence generation."""

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from indigo_cli.api import Model

__version__ = "0.1.0"
__all__ = ["__version__", "load"]


def load(
    run: str | PathLike[str],
    *,
    checkpoint: str = "",
    ensemble: Sequence[str | PathLike[str]] = (),
    overrides: Sequence[str] = (),
    device: str = "auto",
    precision: str = "fp32",
    threads: int = 0,
) -> "Model":
    """Load a run that `indigo train` wrote, to decode and score from Python.

    Args:
        run: Run folder.
        checkpoint: Name under `checkpoints/`; default `best` where it exists, else `last`.
        ensemble: Further runs of the same kind and vocabulary, whose probabilities are averaged with this one's.
        overrides: `section.key=value`, as `--set` takes them.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        precision: `fp32` or `bf16`.
        threads: CPU threads; 0 = as many as there are.

    Raises:
        indigo_cli.errors.IndigoError: the folder, a checkpoint or a setting cannot be used. Its `render()` says how to
            mend it.
    """
    from indigo_cli.api import Model  # torch loads here, not with the package

    return Model.load(
        run,
        checkpoint=checkpoint,
        ensemble=ensemble,
        overrides=overrides,
        device=device,
        precision=precision,
        threads=threads,
    )
