"""Writes docs/migration: `python -m tests.migration`."""

from pathlib import Path

from tests.migration.systems import SYSTEMS, index

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "migration"

FOLDER.mkdir(exist_ok=True)
(FOLDER / "README.md").write_text(index(), encoding="utf-8")
for system in SYSTEMS:
    (FOLDER / f"{system.name}.md").write_text(system.page(), encoding="utf-8")
    print(f"written: docs/migration/{system.name}.md")
