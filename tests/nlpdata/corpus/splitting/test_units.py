"""What units of work hold in memory, and what is left out by which reason."""

import tracemalloc

import numpy as np

from nlpdata.corpus.splitting import repeats
from nlpdata.corpus.splitting.repeats import KeyWriter
from nlpdata.corpus.splitting.units import LeftOut, reasons_to_leave_out

LINES = 200_000


def test_a_file_of_equal_lines_takes_a_few_bytes_of_each(tmp_path):
    keys = KeyWriter(tmp_path, "lines")
    for _ in range(LINES):
        keys.add(bytes(16))
    repeated = LeftOut("equal_line", tuple(keys.finish()), ())
    tracemalloc.start()
    try:
        found = reasons_to_leave_out([repeated], tmp_path, 0, LINES)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == b"\0" + b"\1" * (LINES - 1)
    assert most < 20 * LINES


def test_the_first_reason_counts(tmp_path):
    left_out = []
    for reason, numbers in (("equal", [1, 3]), ("similar", [0, 3])):
        repeats.write_numbers(tmp_path / reason, *map(np.array, ([0, 0], numbers)), 1)
        left_out.append(LeftOut(reason, (), (reason,)))
    assert reasons_to_leave_out(left_out, tmp_path, 0, 5) == bytes([2, 1, 0, 1, 0])
