"""`indigo demo`: the whole chain on star graphs and on sentences that are installed with Python, without downloads."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Task(StrEnum):
    """What the models learn."""

    sentences = "sentences"
    star_graph = "star-graph"
    all = "all"


class Size(StrEnum):
    """How much of it: `tiny` learns nothing and is over in seconds."""

    tiny = "tiny"
    small = "small"


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="A folder for each task is made in it.")] = Path(
        "runs/demo"
    ),
    task: Annotated[
        Task,
        typer.Option("--task", help="star-graph: paths in graphs; sentences: words to put in order; all: both."),
    ] = Task.all,
    size: Annotated[
        Size,
        typer.Option(
            "--size",
            help="small: on two cores 3 minutes (star-graph) and 6 (sentences); tiny: seconds, learns nothing.",
        ),
    ] = Size.small,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the demo that stands in the folder.")] = False,
    seed: Annotated[int | None, typer.Option("--seed", help="Of the trainings, instead of the recipes'.")] = None,
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N")] = "auto",
    precision: Annotated[str, typer.Option("--precision", help="fp32 or bf16")] = "fp32",
    threads: Annotated[
        int,
        typer.Option("--threads", help="CPU threads; with one, the two trainings run side by side; 0 = all there are."),
    ] = 1,
) -> None:
    """Train a model from left to right and one in orders that it finds, score both, and show an output growing."""
    import time

    from indigo_cli.core import console
    from indigo_cli.demo.chain import Plan, check_folder, run_demo
    from indigo_cli.demo.report import commands, render
    from indigo_cli.demo.steps import num_cores
    from indigo_cli.demo.tasks import TASKS
    from indigo_cli.engine.present import print_to_terminal
    from indigo_cli.engine.runtime import Runtime

    began = time.monotonic()
    options = [("--device", device, "auto"), ("--precision", precision, "fp32"), ("--threads", str(threads), "")]
    if device != "auto" or precision != "fp32" or threads < 1:
        Runtime(device, precision, threads).start()  # says now, not in some minutes, what cannot be had
    training = () if seed is None else ("--seed", str(seed))
    computing = tuple(word for name, value, default in options if value != default for word in (name, value))
    names = list(TASKS) if task is Task.all else [task.value]
    plans = [Plan(output / name, name, size.value, training, computing) for name in names]
    for plan in plans:
        check_folder(plan.folder, overwrite=overwrite)
    at_once = 2 if threads == 1 and num_cores() > 1 else 1
    for number, plan in enumerate(plans, start=1):
        if len(plans) > 1:
            console.status(f"task {number} of {len(plans)}: {plan.task.title.lower()}")
        results = run_demo(plan, at_once=at_once)
        print_to_terminal(render(results))
        typer.echo("\n".join([*commands(results), ""]))
    console.status(f"everything is in {output}, after {console.clock(time.monotonic() - began)}")
