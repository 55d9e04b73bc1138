"""How the console command `pretrain` starts, and `python -m pretrain`."""

from nlpdata.cli.start import end_at_once_if_signalled


def main() -> int:
    """Runs the command line, and exits."""
    end_at_once_if_signalled("pretrain")
    from pretrain.commands import main as run

    return run()


if __name__ == "__main__":
    main()
