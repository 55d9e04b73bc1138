"""Commands of other systems' documents, and what they are here: one list for docs/migration and for the test that runs it."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Step:
    """One command of a document.

    Attributes:
      heading: what it does.
      old: the command, as the document has it; "" where it has none.
      text: what a user should know about it here.
      new: the command here; None: the old one with the program's name replaced.
      stand_ins: part of the command -> what the test runs instead, because the page's would take hours or a GPU.
      prints: regular expressions that its output must match.
      writes: files that exist afterwards.
      check: (folder, output) -> None, raises AssertionError.
      imports: whether its programs run in a Python of their own, where what libraries write as they are imported shows.
    """

    heading: str
    old: str = ""
    text: str = ""
    new: str | None = None
    stand_ins: Mapping[str, str] = field(default_factory=dict)
    prints: Sequence[str] = ()
    writes: Sequence[str] = ()
    check: Callable[[Path, str], None] | None = None
    imports: bool = False


def _joined(text: str) -> str:
    """Text with the rows of its tables in one line each: their other lines are indented."""
    return re.sub(r"\n {4,}", " ", text)


@dataclass(frozen=True)
class Flags:
    """All flags of a program of another system, and what they are here.

    Attributes:
      program: its name there.
      commands: those here that have its flags.
      table: a line for each, which may continue in lines that are indented: names there with commas between them | default there |
        ours, "same" where it has the same name, "accepted" where it has no effect | our default, where it is another number | a
        remark, "by default ..." where it is not a number.
      experiment: of `pretrain run`, whose defaults these are.
    """

    program: str
    commands: Sequence[str]
    table: str
    experiment: str = ""

    def rows(self) -> Iterator[tuple[list[str], str, str, str, str]]:
        """(names there without dashes, default there, ours, our default, remark) of each line."""
        for line in filter(None, _joined(self.table).splitlines()):
            names, *cells = (cell.strip() for cell in line.split("|"))
            if len(cells) != 4:
                raise ValueError(f"{self.program}: expected five cells. Received: {line!r}")
            default, ours, own_default, remark = cells
            yield [name.strip() for name in names.split(",")], default, ours, own_default, remark

    def markdown(self) -> str:
        """The table of a page."""
        lines = [
            f"### {self.program}",
            "",
            "| there | default | here | default, if another | |",
            "|---|---|---|---|---|",
        ]
        for names, default, ours, own_default, remark in self.rows():
            there = ", ".join(f"`--{name}`" for name in names)
            lines.append(f"| {there} | {default} | {ours} | {own_default} | {remark} |")
        return "\n".join(lines)


@dataclass(frozen=True)
class System:
    """A system whose users come here.

    Attributes:
      name: of the page, docs/migration/<name>.md.
      title: its usual name.
      about: the first paragraphs of the page.
      programs: a program there -> the one here; where it is not one program, Markdown with backticks.
      steps: its document's commands, in their order; each uses what those before it wrote.
      flags: of its programs.
      give: makes what the document takes for granted in an empty folder: texts, checkpoints, small enough for a test.
      after: the last paragraphs of the page; rows of tables may continue in lines that are indented.
    """

    name: str
    title: str
    about: str
    programs: Mapping[str, str]
    steps: Sequence[Step]
    give: Callable[[Path], None]
    flags: Sequence[Flags] = ()
    after: str = ""

    def new(self, step: Step) -> str:
        """The command here."""
        if step.new is not None:
            return step.new
        command = step.old
        for there, here in self.programs.items():
            command = command.replace(there, here)
        if command == step.old and any(word in command for word in ("python", "./")):
            raise ValueError(f"{self.name}, {step.heading!r}: no program of {list(self.programs)} in its command")
        return command

    def tried(self, step: Step) -> str:
        """The command as the test runs it."""
        command = self.new(step)
        for part, stand_in in step.stand_ins.items():
            if part not in command:
                raise ValueError(f"{self.name}, {step.heading!r}: no {part!r} in its command")
            command = command.replace(part, stand_in)
        return command

    def page(self) -> str:
        """The page, Markdown."""
        parts = [f"# From {self.title}", self.about.strip(), "| there | here |\n|---|---|\n" + self._table()]
        for step in self.steps:
            parts += [f"## {step.heading}", *([step.text.strip()] if step.text else [])]
            there, here = step.old.strip(), self.new(step).strip()
            if there == here:
                parts += ["There and here:", f"```bash\n{here}\n```"]
            else:
                parts += ["There:", f"```bash\n{there}\n```"] if there else []
                parts += ["Here:", f"```bash\n{here}\n```"]
        parts += ["## All flags", *(flags.markdown() for flags in self.flags)] if self.flags else []
        parts += [_joined(self.after).strip()] if self.after else []
        return "\n\n".join(parts) + "\n"

    def _table(self) -> str:
        return "\n".join(
            f"| `{there}` | {here if '`' in here else f'`{here}`'} |" for there, here in self.programs.items()
        )
