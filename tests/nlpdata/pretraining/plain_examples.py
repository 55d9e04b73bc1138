"""A plain implementation of the pretraining examples: loops over lists, one random generator, no keys, no batches.

It follows the rules of docs/differences.md (not the code of nlpdata), so that our examples can be compared with it in
distribution, in languages for which there is no output of the original tools.
"""

import random

import numpy as np


def plain_columns(
    documents, tokenizer, rng: random.Random, objective, length, predictions, dupe, starts_word, max_ngram=3
):
    """Records of documents (lists of sentences, themselves lists of ids) as columns, name -> (n, width).

    Args:
      starts_word: bool for every id.
    """
    rows = []
    for _ in range(dupe):
        for number, document in enumerate(documents):
            pairs = sop_pairs(document, length - 3, rng)
            if objective == "nsp":
                pairs = nsp_pairs(documents, number, length - 3, rng)
            for a, b, label in pairs:
                rows.append(
                    record(
                        *truncated(a, b, length - 3, rng), label, tokenizer, rng, predictions, starts_word, max_ngram
                    )
                )
    columns = {name: [] for name in rows[0]}
    for row in rows:
        for name, values in row.items():
            width = {"next_sentence_labels": 1}.get(name, predictions if name.startswith("masked_lm") else length)
            columns[name].append(values + [0] * (width - len(values)))
    return {name: np.array(values) for name, values in columns.items()}


def target_length(budget, rng):
    return rng.randint(2, budget) if rng.random() < 0.1 else budget


def join(sentences):
    return [token for sentence in sentences for token in sentence]


def sop_pairs(document, budget, rng):
    target, chunks, chunk = target_length(budget, rng), [], []
    for sentence in document:
        chunk.append(sentence)
        if len(chunk) > 1 and len(join(chunk)) >= target:
            chunks.append(chunk)
            chunk = []
    if len(chunk) == 1 and chunks:
        chunks[-1] = chunks[-1] + chunk
    elif len(chunk) > 1:
        chunks.append(chunk)
    for chunk in chunks:
        middle = rng.randint(1, len(chunk) - 1)
        a, b = join(chunk[:middle]), join(chunk[middle:])
        swap = rng.random() < 0.5
        yield (b, a, 1) if swap else (a, b, 0)


def nsp_pairs(documents, number, budget, rng):
    document = documents[number]
    target, at = target_length(budget, rng), 0
    while at < len(document):
        end = at + 1
        while end < len(document) and len(join(document[at:end])) < target:
            end += 1
        middle = at + (rng.randint(1, end - at - 1) if end - at > 1 else 1)
        if end - at > 1 and rng.random() < 0.5:
            yield join(document[at:middle]), join(document[middle:end]), 0
            at = end
            continue
        a = join(document[at:middle])
        other = rng.choice([i for i in range(len(documents)) if i != number])
        start, b = rng.randrange(len(documents[other])), []
        for sentence in documents[other][start:]:
            b += sentence
            if len(b) >= target - len(a):
                break
        yield a, b[: budget + 3], 1
        at = middle


def truncated(a, b, budget, rng):
    a, b = list(a), list(b)
    while len(a) + len(b) > budget:
        longer = a if len(a) > len(b) else b
        del longer[0 if rng.random() < 0.5 else -1]
    return a, b


def record(a, b, label, tokenizer, rng, predictions, starts_word, max_ngram):
    ids = [tokenizer.cls_id, *a, tokenizer.sep_id, *b, tokenizer.sep_id]
    words = []
    for first, segment in ((1, a), (2 + len(a), b)):
        for i, token in enumerate(segment):
            if i == 0 or starts_word[token]:
                words.append([])
            words[-1].append(first + i)
    budget = min(predictions, max(1, round(0.15 * len(ids))))
    chosen = sorted(masked_positions(words, budget, rng, max_ngram))
    labels = [ids[i] for i in chosen]
    masked = list(ids)
    for i in chosen:
        coin = rng.random()
        if coin < 0.8:
            masked[i] = tokenizer.mask_id
        elif coin >= 0.9:
            masked[i] = int(rng.choice(tokenizer.ordinary_ids))
    special = {0, 1 + len(a), len(ids) - 1}
    begin = {word[0] for word in words if starts_word[ids[word[0]]]} | special
    return {
        "input_ids": masked,
        "input_mask": [1] * len(ids),
        "segment_ids": [0] * (2 + len(a)) + [1] * (len(b) + 1),
        "token_boundary": [int(i in begin) for i in range(len(ids))],
        "masked_lm_positions": chosen,
        "masked_lm_ids": labels,
        "masked_lm_weights": [1] * len(chosen),
        "next_sentence_labels": [label],
    }


def masked_positions(words, budget, rng, max_ngram):
    chosen, left = set(), budget
    order = list(range(len(words)))
    rng.shuffle(order)
    lengths = list(range(1, max_ngram + 1))
    for start in order:
        if not left:
            break
        n = min(rng.choices(lengths, [1 / n for n in lengths])[0], len(words) - start)
        while n > 1 and sum(map(len, words[start : start + n])) > left:
            n -= 1
        span = join(words[start : start + n])
        if len(span) <= left and not chosen & set(span):
            chosen |= set(span)
            left -= len(span)
    return chosen or set(words[order[0]][:budget])
