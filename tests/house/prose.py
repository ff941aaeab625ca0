"""Counts sentences that are hard to read in comments, pages and Python: `python3 tests/house/prose.py [KIND]` prints the places.

A sentence is hard to read if it begins with "Of", has a clause with "what" or "who" as its subject, is
shorthand such as "; NULL: none", or has more than 35 words.
"""

import ast
import collections
import inspect
import io
import itertools
import pathlib
import re
import sys
import tokenize

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LONGEST = 35  # words

VERBS = r"(?:is|are|was|were|has|have|had|does|do|comes?|came|goes|can|can't|may|must|will|would|takes?|gives?|counts?|waits?|asks?|" \
        r"follows?|needs?|wants?|stands?|makes?|holds?|says?|reads?|writes?|calls?|passes|begins?|ends?|happens|changes)"
KINDS = {
    "of": re.compile(r"^Of\b"),
    "what": re.compile(rf"^(?:What|Who|Whoever|Whatever)\b(?!.*\?$)|[;:,]? (?:and|but|or|so|that|because|where|if) (?:what|whoever) {VERBS}\b"
                       rf"|[;:,] (?:what|whoever) {VERBS}\b"),
    "shorthand": re.compile(r"[;,.(] (?:-?\d+|NULL|[Tt]rue|[Ff]alse|[A-Z_]{3,}): |^(?:NULL|True|False|-?\d+|[A-Z][A-Z_]+): |^Else\b"),
}
ABBREVIATIONS = re.compile(r"\b(?:e\.g|i\.e|etc|vs|cf|approx|No)\.$")


def items(line, text):
    """(line, text) of each item of a list in a comment, without its indented lines: code, formulas and tables."""
    text = re.sub(r"\n(?:   |\t)[^\n]*", "\n", text)
    for item in re.split(r"(?m)^(?=\s*(?:-|\d+\.) )|^(?=  +\w+  )", text):
        yield line, item
        line += item.count("\n")


# A string may contain what looks like a comment.
COMMENT_OR_LITERAL = re.compile(r"/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", re.S)


def comment_text(comment):
    """The text of a comment of C, without its stars."""
    return re.sub(r"^[ \t]*\*+ ?", "", comment[2:-2].lstrip("*"), flags=re.M)


def comments(text):
    """(line, text) of each comment of C, in items."""
    for match in COMMENT_OR_LITERAL.finditer(text):
        if match.group().startswith("/*"):
            yield from items(text.count("\n", 0, match.start()) + 1, comment_text(match.group()))


def python_comments(text):
    """(line, text) of each docstring and comment of Python, in items, and of the names of tests.

    Lines of `#` below each other are one comment.
    """
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.lineno, node.name.removeprefix("test_").replace("_", " ").capitalize() + "."
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
            docstring = node.body[0].value
            yield from items(docstring.lineno, inspect.cleandoc(docstring.value))
    alone = [(token.start, token.string) for token in tokenize.generate_tokens(io.StringIO(text).readline)
             if token.type == tokenize.COMMENT and not token.string.startswith("#!")]
    whole = {row for (row, column), _ in alone if not text.splitlines()[row - 1][:column].strip()}
    for _, block in itertools.groupby(enumerate(alone), lambda item: (item[1][0][1], item[1][0][0] - item[0])
                                      if item[1][0][0] in whole else item[0]):
        block = [comment for _, comment in block]
        yield from items(block[0][0][0], "\n".join(comment.removeprefix("#").removeprefix(" ") for _, comment in block))


def prose(text):
    """(line, text) of each paragraph, item and cell of a page; no headings."""
    line, fenced, begun, gathered = 0, False, 0, []
    rows = [*text.splitlines(), ""]
    for row in rows:
        line += 1
        if row.startswith("```"):
            fenced = not fenced
        starts = re.match(r"\s*(?:[-*|>]|\d+\.|#)|\s{4}", row)
        if fenced or not row.strip() or starts or row.startswith("```"):
            if gathered:
                yield begun, "\n".join(gathered)
            gathered = []
        if fenced or not row.strip() or row.startswith(("```", "    ", "#")) or rows[line].startswith("|--"):
            continue
        if row.startswith("|"):
            for cell in re.split(r"(?<!\\)\|", row)[1:-1]:
                yield line, cell
            continue
        if not gathered:
            begun = line
        gathered.append(re.sub(r"^\s*(?:[-*>]|\d+\.|#+) ", "", row))


def sentences(text):
    """(lines below the first, sentence)."""
    text = re.sub(r"`[^`]*`", lambda match: re.sub(r"[.;:!?]", "_", match.group()), text)
    begin = 0
    for match in [*re.finditer(r"[.!?:](?=[)\"”*]*(?:\s+[A-Z`(\"“\[*]|\s*$))|\n\s*\n", text), None]:
        end = match.end() if match else len(text)
        if match and (match.group() == ":" or ABBREVIATIONS.search(text[begin:end])):
            continue
        sentence = " ".join(text[begin:end].split())
        if re.search(r"[a-z]", sentence):
            yield text.count("\n", 0, begin + len(text[begin:end]) - len(text[begin:end].lstrip())), sentence
        begin = end


def kinds(sentence):
    found = [kind for kind, pattern in KINDS.items() if pattern.search(sentence)]
    return found + ["long"] * (len(re.findall(r"[\w'`_.<>=-]*\w[\w'`_.<>=-]*", sentence)) > LONGEST)


def files(where):
    if where == "comments":
        return [path for top in ("src", "include", "tests", "bench", "examples")
                for path in sorted((ROOT / top).rglob("*.[ch]"))]
    if where == "pages":
        return sorted((ROOT / "docs/design").glob("*.md")) + sorted((ROOT / "src").rglob("README.md"))
    return [path for top in ("tests", "bench", "examples") for path in sorted((ROOT / top).rglob("*.py"))]


READERS = {"comments": comments, "pages": prose, "tests": python_comments}


def hard(where):
    """(how many sentences, [(kind, file, line, sentence)]) of one of READERS."""
    total, found = 0, []
    for path in files(where):
        for line, part in READERS[where](path.read_text()):
            for below, sentence in sentences(part):
                total += 1
                found += [(kind, path.relative_to(ROOT), line + below, sentence) for kind in kinds(sentence)]
    return total, found


def main():
    for where in READERS:
        total, found = hard(where)
        counts = collections.Counter(kind for kind, *_ in found)
        for kind, path, line, sentence in found:
            if kind in sys.argv[1:]:
                print(f"{path}:{line}: {kind}: {sentence}")
        print(f"{where}: {total} sentences; for each thousand " + ", ".join(
            f"{kind} {counts[kind] * 1000 / total:.1f}" for kind in [*KINDS, "long"]))


if __name__ == "__main__":
    main()
