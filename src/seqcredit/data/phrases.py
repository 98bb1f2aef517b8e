"""The built-in demo data: a small part of German, made up from a grammar, with its English translations.

Verbs wait at the end of the clause, time comes first and turns subject and verb around, articles and adjectives agree
with gender and case: there is something to reorder and something to drop. And there are several valid translations, in
two registers that nothing in the source tells apart. Casual ones are the more frequent, but each opens with one of four
words, so that the most probable first word of all is a formal one. Following it word by word ends in the
register that is right less often; credit for what follows avoids that.
"""

import random
from collections.abc import Iterator
from typing import NamedTuple

from seqcredit.data.text import Example

CASUAL = 0.6  # share of casual translations
OPENERS = ("well", "so", "look", "oh")  # how they begin

Said = tuple[str, str]  # formal, casual


class Noun(NamedTuple):
    german: str
    gender: str  # m, f or n
    english: Said
    alive: bool


class Verb(NamedTuple):
    third: str  # sieht
    participle: str  # gesehen
    past: Said
    present: str


NOUNS = (
    Noun("hund", "m", ("dog", "dog"), True),
    Noun("mann", "m", ("man", "man"), True),
    Noun("arzt", "m", ("physician", "doctor"), True),
    Noun("sohn", "m", ("son", "son"), True),
    Noun("frau", "f", ("woman", "woman"), True),
    Noun("katze", "f", ("cat", "cat"), True),
    Noun("lehrerin", "f", ("teacher", "teacher"), True),
    Noun("tochter", "f", ("daughter", "daughter"), True),
    Noun("kind", "n", ("child", "kid"), True),
    Noun("pferd", "n", ("horse", "horse"), True),
    Noun("ball", "m", ("ball", "ball"), False),
    Noun("apfel", "m", ("apple", "apple"), False),
    Noun("brief", "m", ("letter", "letter"), False),
    Noun("wagen", "m", ("wagon", "car"), False),
    Noun("blume", "f", ("flower", "flower"), False),
    Noun("zeitung", "f", ("newspaper", "paper"), False),
    Noun("tasche", "f", ("bag", "bag"), False),
    Noun("haus", "n", ("house", "house"), False),
    Noun("buch", "n", ("book", "book"), False),
    Noun("bild", "n", ("painting", "picture"), False),
)
VERBS = (
    Verb("sieht", "gesehen", ("has seen", "saw"), "sees"),
    Verb("sucht", "gesucht", ("has looked for", "looked for"), "looks for"),
    Verb("kauft", "gekauft", ("has bought", "bought"), "buys"),
    Verb("findet", "gefunden", ("has found", "found"), "finds"),
    Verb("verliert", "verloren", ("has lost", "lost"), "loses"),
    Verb("holt", "geholt", ("has fetched", "fetched"), "fetches"),
    Verb("mag", "gemocht", ("has liked", "liked"), "likes"),
    Verb("bringt", "gebracht", ("has brought", "brought"), "brings"),
)
ADJECTIVES: dict[str, Said] = {
    "alt": ("old", "old"),
    "klein": ("small", "little"),
    "groß": ("large", "big"),
    "schön": ("beautiful", "pretty"),
}
OF_THE_LIVING = {**ADJECTIVES, "jung": ("young", "young"), "müde": ("tired", "tired")}
OF_THINGS = {**ADJECTIVES, "neu": ("new", "new"), "rot": ("red", "red")}
PAST_TIMES = {"gestern": "yesterday", "heute morgen": "this morning", "letzte woche": "last week"}
PRESENT_TIMES = {"heute": "today", "jetzt": "now", "oft": "often"}
PLACES = {"im garten": "in the garden", "in der stadt": "in town", "am abend": "in the evening"}
NOTHING = ("", "")

DEFINITE = {"nom": {"m": "der", "f": "die", "n": "das"}, "acc": {"m": "den", "f": "die", "n": "das"}}
INDEFINITE = {"nom": {"m": "ein", "f": "eine", "n": "ein"}, "acc": {"m": "einen", "f": "eine", "n": "ein"}}
ENDING = {
    ("def", "nom"): {"m": "e", "f": "e", "n": "e"},
    ("def", "acc"): {"m": "en", "f": "e", "n": "e"},
    ("ind", "nom"): {"m": "er", "f": "e", "n": "es"},
    ("ind", "acc"): {"m": "en", "f": "e", "n": "es"},
}


def phrases(split: str, size: int, seed: int = 0, references: int = 1) -> Iterator[Example]:
    """`size` sentences of a split, each with up to `references` different translations.

    Splits share no sentence: each takes those whose number, made from its letters, falls to it.
    """
    rng = random.Random(f"{split}-{seed}")
    seen: set[str] = set()
    while len(seen) < size:
        german, said = _sentence(rng)
        if german not in seen and _split_of(german) == split:
            seen.add(german)
            drawn = (_translation(rng, said) for _ in range(8 * references))
            yield Example(german, list(dict.fromkeys(drawn))[:references])


def _split_of(german: str) -> str:
    bucket = sum((i + 1) * ord(letter) for i, letter in enumerate(german)) % 10
    return {0: "valid", 1: "test"}.get(bucket, "train")


def _translation(rng: random.Random, said: Said) -> str:
    formal, casual = said
    return f"{rng.choice(OPENERS)} , {casual}" if rng.random() < CASUAL else formal


def _sentence(rng: random.Random) -> tuple[str, Said]:
    """A main clause, or one with a reason."""
    past = rng.random() < 0.6
    german, said = _clause(rng, past, main=True)
    if rng.random() < 0.25:
        reason, because = _clause(rng, past, main=False)
        german = f"{german} , weil {reason}"
        said = (f"{said[0]} because {because[0]}", f"{said[1]} because {because[1]}")
    return f"{german} .", (f"{said[0]} .", f"{said[1]} .")


def _clause(rng: random.Random, past: bool, main: bool) -> tuple[str, Said]:
    subject, who = _noun_phrase(rng, "nom", alive=True)
    verb, alive = rng.choice(VERBS), rng.random() < 0.3
    object_, what = _noun_phrase(rng, "acc", alive and verb.third != "kauft")
    times = PAST_TIMES if past else PRESENT_TIMES
    time, when = rng.choice([*times.items(), NOTHING]) if main else NOTHING
    place, where = rng.choice([*PLACES.items(), *[NOTHING] * 4])
    finite, last = ("hat", verb.participle) if past else (verb.third, "")
    if not main:
        order = [subject, object_, place, last, finite]
    elif time and rng.random() < 0.6:
        order = [time, finite, subject, object_, place, last]
    else:
        order = [subject, finite, time, object_, place, last]
    does = verb.past if past else (verb.present, verb.present)
    formal = [when, who[0], does[0], what[0], where]
    casual = [who[1], does[1], what[1], where, when]
    return _join(order), (_join(formal), _join(casual))


def _noun_phrase(rng: random.Random, case: str, alive: bool) -> tuple[str, Said]:
    noun = rng.choice([n for n in NOUNS if n.alive == alive])
    kind = rng.choice(("def", "ind"))
    article = (DEFINITE if kind == "def" else INDEFINITE)[case][noun.gender]
    adjectives = OF_THE_LIVING if alive else OF_THINGS
    adjective = rng.choice([*adjectives, "", "", "", ""])
    ending = ENDING[kind, case][noun.gender] if adjective else ""
    said = adjectives.get(adjective, NOTHING)
    german = _join([article, adjective.removesuffix("e") + ending, noun.german])
    return german, (_english(kind, said[0], noun.english[0]), _english(kind, said[1], noun.english[1]))


def _english(kind: str, adjective: str, noun: str) -> str:
    words = _join([adjective, noun])
    article = "the" if kind == "def" else "an" if words[0] in "aeio" else "a"
    return f"{article} {words}"


def _join(parts: list[str]) -> str:
    return " ".join(part for part in parts if part)
