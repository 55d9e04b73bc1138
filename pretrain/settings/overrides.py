"""--params_override: `a.b=1,c.d=[x,y],e="x,y",f=null,g={k: 1}` -> a tree. Values stay text; the fields' types decide.

  overrides   = assignment {"," assignment}, or one {map}
  assignment  = dotted path "=" value
  value       = "quoted", 'quoted', [value, ...], {name: value, ...}, null, or text up to the next comma

A comma inside quotes or balanced brackets does not end a value, and only a value that is in [] or {} from its first to
its last character is a list or a map: `x/[0-9]*.tfrecord` is text. Of two values for one path the last counts.
"""

import re
from collections.abc import Iterator
from typing import Any

from nlpdata.errors import UsageError

_PATH = re.compile(r"[A-Za-z_][\w-]*(\.[\w:-]+)*")
_OPEN, _CLOSE = "[{", "]}"


def parse_overrides(text: str) -> dict:
    """The tree of an override string.

    Raises:
      UsageError: it does not follow the grammar; the message quotes the part.
    """
    text = text.strip()
    if _closes_at_end(text) and text.startswith("{"):
        return _parse_value(text)
    tree: dict = {}
    for part in _split(text, ",") if text else ():
        path, equals, value = part.partition("=")
        path = path.strip()
        if not path:
            raise UsageError(f"--params_override: there is nothing before or after a comma or `=` in {text!r}.")
        if not equals or not _PATH.fullmatch(path):
            raise _not_an_assignment(part.strip(), path, equals)
        _put(tree, path, _parse_value(value.strip()), part.strip())
    return tree


def _not_an_assignment(part: str, path: str, equals: str) -> UsageError:
    if re.search(r"[\w.]\[\d+\]$", path) and equals:
        why = "single items of a list cannot be set. Write the list whole: a.b=[1,2]"
    elif equals:
        why = f"{path!r} is not a dotted path such as task.train_data.input_path"
    elif part.endswith((".yaml", ".yml", ".json")):
        why = "it has no `=`. For a file use --config_file"
    else:
        why = "it has no `=`. A value with commas must be quoted, or a list: a.b='x,y' or a.b=[x,y]"
    return UsageError(f"--params_override: cannot read {part!r}: {why}.")


def _put(tree: dict, path: str, value: Any, part: str) -> None:
    *sections, name = path.split(".")
    for section in sections:
        tree = tree.setdefault(section, {})
        if not isinstance(tree, dict):
            raise UsageError(f"--params_override: {part!r}: {section!r} has a value already, so it can have no fields.")
    if isinstance(tree.get(name), dict) != isinstance(value, dict) and name in tree:
        raise UsageError(f"--params_override: {part!r}: {path!r} is set both as a value and by its fields.")
    tree[name] = {**tree[name], **value} if isinstance(value, dict) and name in tree else value


def _parse_value(text: str) -> Any:
    if text in ("null", "~"):
        return None
    if text[:1] in ("'", '"'):
        return _unquoted(text)
    if text[:1] in _OPEN and _closes_at_end(text):
        items = _split(text[1:-1], ",") if text[1:-1].strip() else []
        if text[0] == "[":
            return [_parse_value(item.strip()) for item in items]
        pairs: dict = {}
        for item in items:
            name, colon, value = item.partition(":")
            name = name.strip().strip("'\"")
            if not colon or not name:
                raise UsageError(f"--params_override: cannot read {item.strip()!r} in {text!r}: write {{name: value}}.")
            _put(pairs, name, _parse_value(value.strip()), item.strip())
        return pairs
    return text


def _unquoted(text: str) -> str:
    pattern = r'"((?:[^"\\]|\\.)*)"' if text[0] == '"' else r"'((?:[^']|'')*)'"
    whole = re.fullmatch(pattern, text, re.DOTALL)
    if not whole:
        raise UsageError(f"--params_override: cannot read {text!r}: nothing may follow the closing {text[0]}.")
    return re.sub(r"\\(.)", r"\1", whole[1], flags=re.DOTALL) if text[0] == '"' else whole[1].replace("''", "'")


def _closes_at_end(text: str) -> bool:
    """Does the bracket that opens the text close at its last character?"""
    return text[:1] in tuple(_OPEN) and next(iter(_depth_zero(text)), None) == len(text) - 1


def _depth_zero(text: str) -> Iterator[int]:
    """Positions after which no bracket or quote is open. A quote opens only where a value may begin."""
    depth, quote, start, escaped = 0, "", True, False
    for i, char in enumerate(text):
        if escaped:
            escaped = False
        elif quote:
            escaped = (quote == '"' and char == "\\") or (quote == "'" and text[i : i + 2] == "''")
            if char == quote and not escaped:
                quote = ""
        elif char in "'\"" and start:
            quote = char
        elif char in _OPEN:
            depth += 1
        elif char in _CLOSE and depth:
            depth -= 1
        start = char in "=,[{:" or (start and char == " ")
        if not depth and not quote:
            yield i


def _split(text: str, separator: str) -> list[str]:
    """The parts between the separators that are outside quotes and brackets."""
    outside = set(_depth_zero(text))
    if text and len(text) - 1 not in outside:
        raise UsageError(f"--params_override: a quote or bracket is not closed in {_unclosed(text, outside)!r}.")
    cuts = [i for i, char in enumerate(text) if char == separator and i in outside]
    return [text[a + 1 : b] for a, b in zip([-1, *cuts], [*cuts, len(text)], strict=True)]


def _unclosed(text: str, outside: set[int]) -> str:
    last = max((i for i in outside if text[i] == ","), default=-1)
    return text[last + 1 :].strip()
