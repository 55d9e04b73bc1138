"""The language of a text, by the library py3langid: a small model of its own, no download."""

SAMPLE = 1000  # characters of a document that tell its language


def identify(text: str) -> str:
    """The code of the language in which a text most probably is, e.g. "en"."""
    import py3langid

    return py3langid.classify(text)[0]
