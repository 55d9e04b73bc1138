"""Damaged and odd input for every parser and option: `python -m tests.fuzz --minutes 60`.

`mutations.py` damages bytes, JSON and texts; `targets/` has one function for each parser, format or kind of option;
`runner.py` calls them in a process of their own and counts what happens. A case is known by its target, seed and number,
and can be repeated: `python -m tests.fuzz --case tables/csv:1:173`.

What may happen is that the product accepts the input, or refuses it with one line for the user. Everything else is a fault:
another exception, exit code 70, a message of several lines, a process that dies, a case that takes too long.
"""
