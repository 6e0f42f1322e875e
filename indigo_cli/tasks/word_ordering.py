"""Recover a sentence from the bag of its words, each tokenised by itself; only target files are read.

Source: Gu, Liu & Cho 2019, section 5 (word order recovery): the encoder has no positions, and the output vocabulary is
not restricted to the bag.
"""

from indigo_cli.tasks.task import Task

TASK = Task("word_ordering", reads_source=False, source_is_bag=True)
