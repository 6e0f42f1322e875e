"""Code from its description. Code is split at white space, never by Moses, no blank is lost, and its words are the
vocabulary.

Source: Gu, Liu & Cho 2019, section 5 (Django).
"""

from indigo_cli.tasks.task import Task

TASK = Task(
    "nl2code",
    prefers={"tokenizer": {"moses": "exact"}, "vocabulary": {"bpe": "word"}},
)
