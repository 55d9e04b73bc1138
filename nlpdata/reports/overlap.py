"""The section of a report about evaluation sets that a corpus overlaps with, and the list of all contaminated rows."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence

from nlpdata.reports.contamination import Contamination, Index, Place, RowMatch
from nlpdata.reports.page import Item, Notes, Section, Table, percent

LIST_HEAD = "evaluation_set\trow\tfirst_in_corpus\tngrams_found\tngrams\n"

_SHOWN = 10  # contaminated rows of a set


def overlap_section(
    index: Index, found: Sequence[Contamination], place_of: Mapping[Place, str], listed: str
) -> Section:
    """A row for each evaluation set, and the first contaminated rows of each.

    Args:
      index: of the evaluation sets.
      found: what was found of each.
      place_of: where in the corpus a match is, in words.
      listed: the file that lists all of them.
    """
    text = (
        f"A row is contaminated where the corpus has {index.size} of its words in a row ({index.short} in texts that have fewer), "
        "without punctuation, whatever their case. Rows of fewer words cannot be told from chance."
    )
    rows = tuple(
        (
            each.name,
            each.rows,
            each.rows - each.told,
            len(each.matches),
            percent(len(each.matches), each.told),
            percent(sum(match.found == match.total for match in each.matches), each.told),
        )
        for each in found
    )
    columns = ("evaluation set", "rows", "too short", "contaminated", "share of the others", "found whole")
    items: list[Item] = [Table(columns, rows)]
    bad = [
        f"{each.name}: {count:,} rows cannot be read ({reason.replace('_', ' ')})."
        for each in found
        for reason, count in sorted(each.bad.items())
    ]
    if bad:
        items.append(Notes(tuple(bad)))
    for each in found:
        if each.matches:
            more = (
                f", the first {_SHOWN} of {len(each.matches):,}; {listed} has all" if len(each.matches) > _SHOWN else ""
            )
            matches = tuple(_row(index, match, place_of) for match in each.matches[:_SHOWN])
            items.append(
                Table(
                    ("row", "first in the corpus", "n-grams found", "text"),
                    matches,
                    f"{each.name}: contaminated rows{more}",
                )
            )
    return Section("Overlap with evaluation sets", text, tuple(items))


def _row(index: Index, match: RowMatch, place_of: Mapping[Place, str]) -> tuple[str, str, str, str]:
    return index.wheres[match.row], place_of[match.first], f"{match.found} of {match.total}", index.texts[match.row]


def match_list(index: Index, found: Sequence[Contamination], place_of: Mapping[Place, str]) -> str:
    """All contaminated rows as tab-separated values with a header."""
    made = io.StringIO()
    writer = csv.writer(made, delimiter="\t", lineterminator="\n")
    for each in found:
        for match in each.matches:
            writer.writerow((each.name, index.wheres[match.row], place_of[match.first], match.found, match.total))
    return LIST_HEAD + made.getvalue()


def places_in_words(
    found: Sequence[Contamination], place: Callable[[int, Sequence[Place]], Sequence[str]]
) -> dict[Place, str]:
    """Where each first match is, in words; place: (number of a file, places in it in their order) -> the words."""
    by_file: dict[int, set[Place]] = {}
    for match in (match for each in found for match in each.matches):
        by_file.setdefault(match.first.file, set()).add(match.first)
    made: dict[Place, str] = {}
    for file, places in sorted(by_file.items()):
        ordered = sorted(places)
        made |= zip(ordered, place(file, ordered), strict=True)
    return made
