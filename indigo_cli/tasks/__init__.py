"""Tasks of this version: `TASKS` maps the recipe's name to what differs."""

from indigo_cli.core.settings import did_you_mean
from indigo_cli.errors import UsageError
from indigo_cli.tasks import nl2code, summarization, translation, word_ordering
from indigo_cli.tasks.task import Task

TASKS: dict[str, Task] = {
    "translation": translation.TASK,
    "word_ordering": word_ordering.TASK,
    "nl2code": nl2code.TASK,
    "summarization": summarization.TASK,
}
PLANNED = ("captioning", "completion")


def find_task(name: str) -> Task:
    """Return the task of a recipe.

    Raises:
        UsageError: it is unknown, or not in this version.
    """
    if name in TASKS:
        return TASKS[name]
    available = f"available: {', '.join(TASKS)}"
    if name in PLANNED:
        raise UsageError(f"task {name!r} is not in this version", where="data.task", fix=available)
    near = did_you_mean(name.lower(), [*TASKS, *PLANNED])
    raise UsageError(f"unknown task {name!r}", where="data.task", fix=f"{near} {available}".strip())
