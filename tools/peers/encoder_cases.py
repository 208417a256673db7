"""The cases in which encoders are compared: texts as token ids, the same for every program.

Lengths count special tokens and come from a formula, so that `gristmill bench` measures the same ones. The ids are random, from a
seed: what a token is costs no time.
"""

import math
import random

MIX = "mix-5-512"
QUERY = "query-16"
CASES = ["uniform-128", "uniform-512", MIX, QUERY]

# Texts of the mix, and its shortest and longest.
MIXED = 256
SHORTEST, LONGEST = 5, 512
# Coprime to MIXED: the order in which the mix has its lengths.
STRIDE = 97
# Tokens of a case of texts of one length.
UNIFORM_TOKENS = 16384
# Ids of words in every vocabulary of the table.
WORDS = range(1000, 28000)


def lengths(case):
    """Tokens of each text: one text for the case of a query."""
    kind, *numbers = case.split("-")
    if case == QUERY:
        return [int(numbers[0])]
    if case == MIX:
        ranks = [STRIDE * i % MIXED for i in range(MIXED)]
        return [math.floor(SHORTEST * (LONGEST / SHORTEST) ** ((rank + 0.5) / MIXED) + 0.5) for rank in ranks]
    if kind == "uniform":
        length = int(numbers[0])
        return [length] * (UNIFORM_TOKENS // length)
    raise SystemExit(f"`{case}` is none of {', '.join(CASES)}")


def texts(case, config, repeat=0):
    """Token ids of each text, for a model with this config.json: a first and a last special token, and words between."""
    first, last = specials(config)
    rng = random.Random(f"{case} {repeat}")
    words = lambda count: [rng.choice(WORDS) for _ in range(count)]
    return [[first, *words(length - 2), last] for length in lengths(case)]


def specials(config):
    """The ids that begin and end a text: those of BERT's published vocabularies if the configuration names none."""
    if config["model_type"] == "bert":
        return 101, 102
    return config["bos_token_id"], config["eos_token_id"]


def batches(texts, size, by_length):
    """Indexes of the texts of each batch. Of texts by length, neighbours in length are together, which wastes the least padding."""
    order = list(range(len(texts)))
    if by_length:
        order.sort(key=lambda i: -len(texts[i]))
    return [order[i : i + size] for i in range(0, len(order), size)]
