"""Reports of corpora and records: facts to a page (`page`, with `charts`), as HTML and as Markdown."""
