"""Reports of corpora, records and runs: facts to a page (`page`, with `charts`), as HTML and as Markdown."""
