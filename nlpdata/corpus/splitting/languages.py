"""The language of a text, by the library py3langid: a small model of its own, no download."""

from functools import cache

SAMPLE = 1000  # characters of a document that tell its language


@cache
def _identifier() -> object:
    import py3langid

    return py3langid


def identify(text: str) -> str:
    """The code of the language in which a text most probably is, e.g. "en"."""
    return _identifier().classify(text)[0]  # type: ignore[attr-defined]
