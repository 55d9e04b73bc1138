"""The command line: commands, older spellings of options, parsing, and what is printed."""
