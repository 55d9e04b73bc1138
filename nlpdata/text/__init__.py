"""Text: the normalisations of ALBERT and BERT, the check for UTF-8, and how much text a command loses."""
