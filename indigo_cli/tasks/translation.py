"""Parallel sentences: source and target files, line by line."""

from indigo_cli.tasks.task import Task

TASK = Task("translation")
