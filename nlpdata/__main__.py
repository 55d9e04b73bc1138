"""How the console command `nlpdata` starts, and `python -m nlpdata`."""

from nlpdata.cli.start import end_at_once_if_signalled


def main() -> int:
    """Runs the command line, and exits."""
    end_at_once_if_signalled("nlpdata")
    from nlpdata.cli.commands import main as run

    return run()


if __name__ == "__main__":
    main()
