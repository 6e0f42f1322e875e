"""Headlines and summaries: a source file of documents or first sentences, a target file of headlines, line by line.

A document is one line; of an input that is longer than `preprocess.max_length` decoding reads the beginning, as usual.

Source: Rush, Chopra & Weston 2015 (headlines from first sentences); Takase & Okazaki 2019 (of a given length).
"""

from indigo_cli.tasks.task import Task

TASK = Task("summarization", metrics=("rouge1", "rouge2", "rougeL", "length"))
