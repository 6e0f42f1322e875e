"""Porter's stemmer, from the extra `rouge` (NLTK): the same that the package rouge-score stems with."""

from collections.abc import Callable

from indigo_cli.core.recent import remember
from indigo_cli.errors import UsageError


def load_stemmer(setting: str) -> Callable[[str], str]:
    """Return the function from an English word in lower case to its stem.

    Args:
        setting: Which key of the recipe asks for it, for the message.
    Raises: UsageError where NLTK is not installed.
    """
    try:
        from nltk.stem.porter import PorterStemmer
    except ImportError as error:
        fix = f"pip install 'indigo-cli[rouge]', or --set {setting}=false"
        raise UsageError("stems need the Python package nltk", where=setting, fix=fix) from error
    stemmer = PorterStemmer()

    return remember(lambda word: str(stemmer.stem(word)))
