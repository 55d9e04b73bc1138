"""The base of every section of the configuration, so that a section is a plain dataclass:

@dataclass
class MyConfig(TaskConfig):
    margin: float = 0.5

What is assigned to a field that holds a section, in the constructor or later, may be a dict with some of its fields; the
others keep the field's defaults. For a part of a registry it may also be the part's name; for a list of sections, a list of dicts.
"""

import copy
from collections.abc import Mapping
from typing import Any


class Config:
    """A section. Its fields may be changed; sections with equal fields are equal.

    Assigning to a field raises UsageError, with class and dotted path, for a dict that does not fit the section.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # A dataclass that can be compared would lose it, and an instance could not be a field's default value.
        cls.__hash__ = Config.__hash__  # type: ignore[method-assign]

    def __hash__(self) -> int:
        return hash(type(self))

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Mapping | str | list):
            from pretrain.settings.tree import as_section

            value = as_section(self, name, value)
        elif isinstance(value, Config) and value is getattr(type(self), name, None):
            value = copy.deepcopy(value)  # a default value that all instances would share
        object.__setattr__(self, name, value)
