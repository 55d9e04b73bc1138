"""Where the shared material (real data, oracle outputs) is, and the skip for a clone that has none."""

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[1].parent / "shared"


def shared(*parts: str) -> Path:
    """The path of a shared file; skips the calling test, with the reason, where it is absent."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"needs {'/'.join(('shared', *parts))}, which a plain clone does not have")
    return path
