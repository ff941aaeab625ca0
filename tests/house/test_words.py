"""The words of which the names in src/ and include/ are made: English, or listed in words.txt."""

import pathlib
import re

import pytest
import test_house as house

DICTIONARY = pathlib.Path("/usr/share/dict/american-english")
LISTED = set((pathlib.Path(__file__).parent / "words.txt").read_text().split())
SHORT = 2  # letters of a word that is none: i, at, fd
HEADERS = sorted((house.ROOT / "include").rglob("*.h"))
NOT_CODE = re.compile(r"/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'|#include[^\n]*", re.S)


def words(text):
    """(word, name, line) of the names in code, each name once."""
    text = NOT_CODE.sub(lambda match: "\n" * match.group().count("\n"), text)
    seen = set()
    for match in re.finditer(r"\b[A-Za-z_]\w+", text):
        if match.group() not in seen:
            seen.add(match.group())
            for word in re.findall(r"[a-z]+|[A-Z]+(?![a-z])|[A-Z][a-z]+", match.group()):
                if len(word) > SHORT:
                    yield word.lower(), match.group(), text.count("\n", 0, match.start()) + 1


@pytest.fixture(scope="module")
def known():
    english = {word.lower() for word in DICTIONARY.read_text().split()}
    return english | LISTED


def unknown(known, text):
    return [(word, name, line) for word, name, line in words(text)
            if word not in known and word.removesuffix("s") not in known]


def test_names_are_made_of_known_words(known):
    """A word of this project's own is seen when it is born: rename it, or list the field's word."""
    found = [f"{path.relative_to(house.ROOT)}:{line}: {name}: '{word}'" for path in [*house.FILES, *HEADERS]
             for word, name, line in unknown(known, path.read_text())]
    assert found == []


def test_a_private_word_is_found(known):
    text = 'int told_gribblex; /* frobs */\nchar *frobnicateQuota = "grunk";\n'
    assert unknown(known, text) == [("gribblex", "told_gribblex", 1), ("frobnicate", "frobnicateQuota", 2)]


def test_each_listed_word_is_used(known):
    used = {word for path in [*house.FILES, *HEADERS] for word, *_ in words(path.read_text())}
    assert sorted(LISTED - used) == []
