"""Few sentences of comments, pages and Python are hard to read, counted for each thousand; prose.py prints where they are."""

import collections

import prose
import pytest

# From what good C packages have. A number above its goal is what stands today, and is only ever lowered.
MOST = {
    "comments": {"of": 1, "what": 2, "shorthand": 2, "long": 1},
    "pages": {"of": 1, "what": 1, "shorthand": 1, "long": 1},
    "tests": {"of": 3.2, "what": 13.5, "shorthand": 0.4, "long": 1.8},
}


@pytest.mark.parametrize("where", MOST)
def test_few_sentences_are_hard_to_read(where):
    total, found = prose.hard(where)
    assert total > 3000
    counts = collections.Counter(kind for kind, *_ in found)
    above = {kind: [f"{path}:{line}: {sentence}" for at, path, line, sentence in found if at == kind]
             for kind, most in MOST[where].items() if counts[kind] * 1000 > most * total}
    assert above == {}


@pytest.mark.parametrize("kind, sentence", [
    ("of", "Of a key that is idle nothing is stored."), ("what", "What is denied is counted."),
    ("what", "It is over, and what comes later waits."), ("what", "Whoever holds it has to give it back."),
    ("shorthand", "a limit; NULL: none"), ("shorthand", "False: it has ended."), ("shorthand", "Else it waits."),
    ("long", "a " * 36 + "b."), (None, "A client that asks for what it has already got is told so."),
    (None, "the limit, or NULL"), (None, "What is it?")])
def test_a_hard_sentence_is_found(kind, sentence):
    assert prose.kinds(sentence) == ([kind] if kind else [])


def test_comments_and_pages_are_cut_into_sentences():
    code = '/* One of them. Another\n * one, see a.c. */\n/*\n * A sum:\n *     a + b\n */\nchar *x = "/* no */"; /** third */\n'
    assert [(line + below, sentence) for line, part in prose.comments(code) for below, sentence in prose.sentences(part)] == [
        (1, "One of them."), (1, "Another one, see a.c."), (4, "A sum:"), (7, "third")]
    page = "# Head\n\nFirst `a. B` is. Second\nis.\n\n- an item\n\n```\nNo text.\n```\n\n| Head | |\n|---|---|\n| a cell | Another. One |\n"
    assert [(line + below, sentence) for line, part in prose.prose(page) for below, sentence in prose.sentences(part)] == [
        (3, "First `a_ B` is."), (3, "Second is."), (6, "an item"), (14, "a cell"), (14, "Another."), (14, "One")]


def test_comments_docstrings_and_names_of_tests_are_cut_into_sentences():
    code = '"""A file.\n\nWith items:\n    a + b\n"""\n\n# One of them. Another\n# one.\nX = "# no"  # beside\nY = 1  # besides\n\n\n' \
           'def test_it_holds():\n    """That."""\n'
    found = sorted((line + below, sentence) for line, part in prose.python_comments(code) for below, sentence in prose.sentences(part))
    assert found == [(1, "A file."), (3, "With items:"), (7, "Another one."), (7, "One of them."), (9, "beside"), (10, "besides"),
                     (13, "It holds."), (14, "That.")]
