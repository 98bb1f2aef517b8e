"""The built-in demo data: a small part of German, made up from a grammar, with every valid English translation.

Verbs wait at the end of the clause, time comes first and turns subject and verb around, articles and adjectives agree
with gender and case, and much can be said in two ways in English. So there is something to reorder, something to drop,
and something to choose: which of the valid translations is the reference is drawn at random.
"""

import itertools
import random
from collections.abc import Iterator
from typing import NamedTuple

from seqcredit.data.text import Example


class Noun(NamedTuple):
    german: str
    gender: str  # m, f or n
    english: tuple[str, ...]
    alive: bool


class Verb(NamedTuple):
    third: str  # sieht
    participle: str  # gesehen
    past: tuple[str, ...]  # saw
    perfect: tuple[str, ...]  # has seen
    present: tuple[str, ...]  # sees


NOUNS = (
    Noun("hund", "m", ("dog",), True),
    Noun("mann", "m", ("man",), True),
    Noun("arzt", "m", ("doctor", "physician"), True),
    Noun("sohn", "m", ("son",), True),
    Noun("frau", "f", ("woman",), True),
    Noun("katze", "f", ("cat",), True),
    Noun("lehrerin", "f", ("teacher",), True),
    Noun("tochter", "f", ("daughter",), True),
    Noun("kind", "n", ("child", "kid"), True),
    Noun("pferd", "n", ("horse",), True),
    Noun("ball", "m", ("ball",), False),
    Noun("apfel", "m", ("apple",), False),
    Noun("brief", "m", ("letter",), False),
    Noun("wagen", "m", ("car", "wagon"), False),
    Noun("blume", "f", ("flower",), False),
    Noun("zeitung", "f", ("newspaper", "paper"), False),
    Noun("tasche", "f", ("bag",), False),
    Noun("haus", "n", ("house",), False),
    Noun("buch", "n", ("book",), False),
    Noun("bild", "n", ("picture", "painting"), False),
)
VERBS = (
    Verb("sieht", "gesehen", ("saw",), ("has", "seen"), ("sees",)),
    Verb("sucht", "gesucht", ("looked", "for"), ("has", "looked", "for"), ("looks", "for")),
    Verb("kauft", "gekauft", ("bought",), ("has", "bought"), ("buys",)),
    Verb("findet", "gefunden", ("found",), ("has", "found"), ("finds",)),
    Verb("verliert", "verloren", ("lost",), ("has", "lost"), ("loses",)),
    Verb("holt", "geholt", ("fetched",), ("has", "fetched"), ("fetches",)),
    Verb("mag", "gemocht", ("liked",), ("has", "liked"), ("likes",)),
    Verb("bringt", "gebracht", ("brought",), ("has", "brought"), ("brings",)),
)
ADJECTIVES = {
    "alt": ("old",),
    "klein": ("small", "little"),
    "groß": ("big", "large"),
    "schön": ("beautiful", "pretty"),
}
OF_THE_LIVING = {**ADJECTIVES, "jung": ("young",), "müde": ("tired",)}
OF_THINGS = {**ADJECTIVES, "neu": ("new",), "rot": ("red",)}
PAST_TIMES = {"gestern": ("yesterday",), "heute morgen": ("this", "morning"), "letzte woche": ("last", "week")}
PRESENT_TIMES = {"heute": ("today",), "jetzt": ("now",), "oft": ("often",)}
PLACES = {"im garten": ("in", "the", "garden"), "in der stadt": ("in", "town"), "am abend": ("in", "the", "evening")}

DEFINITE = {"nom": {"m": "der", "f": "die", "n": "das"}, "acc": {"m": "den", "f": "die", "n": "das"}}
INDEFINITE = {"nom": {"m": "ein", "f": "eine", "n": "ein"}, "acc": {"m": "einen", "f": "eine", "n": "ein"}}
ENDING = {
    ("def", "nom"): {"m": "e", "f": "e", "n": "e"},
    ("def", "acc"): {"m": "en", "f": "e", "n": "e"},
    ("ind", "nom"): {"m": "er", "f": "e", "n": "es"},
    ("ind", "acc"): {"m": "en", "f": "e", "n": "es"},
}
Choices = list[tuple[str, ...]]  # the ways to say a part of the sentence
Said = tuple[str, tuple[str, ...]]  # in German, and in English
NOTHING: Said = ("", ())


def phrases(split: str, size: int, seed: int = 0, references: int = 1) -> Iterator[Example]:
    """`size` sentences of a split, each with up to `references` of its valid translations.

    Splits share no sentence: each takes those whose number, a hash of its words, falls to it.
    """
    rng = random.Random(f"{split}-{seed}")
    seen: set[str] = set()
    while len(seen) < size:
        german, ways = _sentence(rng)
        if german not in seen and _split_of(german) == split:
            seen.add(german)
            chosen = rng.sample(ways, min(references, len(ways)))
            yield Example(german, [" ".join(words) for words in chosen])


def _split_of(german: str) -> str:
    bucket = sum((i + 1) * ord(letter) for i, letter in enumerate(german)) % 10
    return {0: "valid", 1: "test"}.get(bucket, "train")


def _sentence(rng: random.Random) -> tuple[str, Choices]:
    """A main clause, or one with a reason."""
    past = rng.random() < 0.6
    german, english = _clause(rng, past, main=True)
    if rng.random() < 0.25:
        reason, because = _clause(rng, past, main=False)
        german, english = f"{german} , weil {reason}", [(*a, "because", *b) for a in english for b in because]
    return f"{german} .", [(*words, ".") for words in english]


def _clause(rng: random.Random, past: bool, main: bool) -> tuple[str, Choices]:
    subject, who = _noun_phrase(rng, "nom", alive=True)
    verb, alive = rng.choice(VERBS), rng.random() < 0.3
    object_, what = _noun_phrase(rng, "acc", alive and verb.third != "kauft")
    times: list[Said] = [*(PAST_TIMES if past else PRESENT_TIMES).items(), NOTHING]
    time, when = rng.choice(times) if main else NOTHING
    place, where = rng.choice([*PLACES.items(), *[NOTHING] * 4])
    finite, last = ("hat", verb.participle) if past else (verb.third, "")
    if not main:
        order = [subject, object_, place, last, finite]
    elif time and rng.random() < 0.6:
        order = [time, finite, subject, object_, place, last]
    else:
        order = [subject, finite, time, object_, place, last]
    said = [verb.past, verb.perfect] if past else [verb.present]
    english: Choices = []
    for w, v, o in itertools.product(who, said, what):
        body = (*w, *v, *o, *where)
        english += [(*when, *body), (*body, *when)] if when else [body]
    return " ".join(part for part in order if part), english


def _noun_phrase(rng: random.Random, case: str, alive: bool) -> tuple[str, Choices]:
    noun = rng.choice([n for n in NOUNS if n.alive == alive])
    kind = rng.choice(("def", "ind"))
    article = (DEFINITE if kind == "def" else INDEFINITE)[case][noun.gender]
    adjectives = OF_THE_LIVING if alive else OF_THINGS
    adjective = rng.choice([*adjectives, "", "", "", ""])
    if not adjective:
        return f"{article} {noun.german}", [(_article(kind, word), word) for word in noun.english]
    stem = adjective.removesuffix("e")
    german = f"{article} {stem}{ENDING[kind, case][noun.gender]} {noun.german}"
    pairs = itertools.product(adjectives[adjective], noun.english)
    return german, [(_article(kind, first), first, second) for first, second in pairs]


def _article(kind: str, following: str) -> str:
    return "the" if kind == "def" else "an" if following[0] in "aeio" else "a"
