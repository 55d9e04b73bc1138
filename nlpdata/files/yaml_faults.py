"""What PyYAML raises for a file that is not YAML, and why in words, as json_files has it for JSON."""

import yaml

_OF_TAGS = (LookupError, AttributeError, TypeError)
MOST_YAML_BYTES = 1 << 19
"""Of a file of YAML, or of another language for configurations: PyYAML takes many seconds for more."""

YAML_FAULTS = (yaml.YAMLError, ValueError, RecursionError, *_OF_TAGS)
"""What yaml.safe_load raises for what it does not read; see yaml_fault."""


def yaml_fault(error: Exception) -> str:
    """Why yaml.safe_load refuses a text, in one line."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, _OF_TAGS):  # '!!int ""' is an IndexError of PyYAML's
        return "a tag, such as !!int, has a value of another kind"
    return " ".join(str(error).split())
