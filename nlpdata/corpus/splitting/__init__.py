"""Raw documents to a corpus: one sentence a line, a blank line between documents.

    nlpdata.split_sentences("raw/*.txt", "data/corpus.txt", language="de")

`formats.py` has the kinds of files, and who reads them: `passages.py` (text, JSON lines), `markdown.py`, `html.py`, `rows.py`.
`sentences.py` makes sentences of a paragraph, `documents.py` documents of sentences, with the filters of `filters.py` and the
languages of `languages.py`. `repeats.py` finds equal documents and lines, `similar.py` similar documents. `units.py` has the
units of work, `stages.py` their order, `run.py` the command on this machine; pipelines/splitting.py runs the same units on Beam.
"""
