"""Names: those that comments and pages use exist, and functions of several files do not share one."""

import collections
import re

import prose
import pytest
import test_house as house

CODE = (".c", ".h", ".lua", ".py", ".pml", ".go", ".js", ".sh", ".yaml", ".json", ".conf", ".in", ".build")
NAME = re.compile(r"(?<![\w.<-])[a-z][a-z0-9]*(?:_[a-z0-9]+)+(?![\w>*-])")
OF_OTHERS = re.compile(r"uv_|localtime_r$|timespec_get$|set_real_ip_from$|vectors_sip128$|unix_ns$")  # of libraries and programs that only comments name

# The most names of static functions that three files or more may share. It is only ever lowered.
SHARED_MOST = 5


def paths(*endings):
    return [path for top in ("src", "include", "tests", "bench", "examples", "docs")
            for path in sorted((house.ROOT / top).rglob("*")) if path.suffix in endings and path.is_file()]


def used_names(text, is_page):
    """The names with an underscore in a file's comments, or in the backticks of a page."""
    if is_page:
        texts = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M))
    else:
        texts = [part for part in prose.COMMENT_OR_LITERAL.findall(text) if part.startswith("/*")]
    return {name for part in texts for name in NAME.findall(part)}


@pytest.fixture(scope="module")
def names_of_code():
    names = {path.stem for path in paths(*CODE)}
    for path in paths(*CODE):
        text = path.read_text(errors="replace")
        if path.suffix in (".c", ".h"):
            text = prose.COMMENT_OR_LITERAL.sub(lambda match: "" if match[0].startswith("/*") else match[0], text)
        names |= set(re.findall(r"\w+", text))
    return names


def test_names_that_comments_and_pages_use_are_there(names_of_code):
    pages = sorted((house.ROOT / "docs/design").glob("*.md"))
    gone = {(house.where(path), name) for path in [*paths(".c", ".h"), *pages]
            for name in used_names(path.read_text(), path in pages) - names_of_code if not OF_OTHERS.match(name)}
    assert gone == set()


def test_used_names_are_found():
    assert used_names("/* see old_name(), a.c and new_name */ int x_y;\n", False) == {"old_name", "new_name"}
    assert used_names("A `page_name` and page_text.\n```\nx_y\n```\n", True) == {"page_name"}


def shared_names(sources):
    """Name -> the files that have a static function of that name."""
    files = collections.defaultdict(set)
    for path, text in sources.items():
        for match in house.DEFINITION.finditer(house.code(text)):
            if "static" in match[1].split():
                files[match[2]].add(path)
    return {name: sorted(where) for name, where in files.items() if len(where) > 2}


def test_few_static_functions_share_a_name():
    """A search or a backtrace names the function: `take_number`, not `take`."""
    shared = shared_names({house.where(path): path.read_text() for path in house.FILES if path.suffix == ".c"})
    assert len(shared) <= SHARED_MOST, shared


def test_a_shared_name_is_found():
    own = "static int take(void)\n{\n\treturn 1;\n}\n"
    assert shared_names({"a.c": own, "b.c": own, "c.c": own, "d.c": own.replace("take", "take_one")}) == {
        "take": ["a.c", "b.c", "c.c"]}


def head(text):
    """The first sentence of the comment that a file begins with."""
    match = re.match(r"\s*(/\*.*?\*/)", text, re.S)
    words = " ".join(prose.comment_text(match[1]).split()) if match else ""
    return re.split(r"(?<=[.:;])\s(?=[A-Z])", re.sub(r"^[\w.]+: ", "", words))[0]


def test_each_file_says_what_it_is_for():
    """A header, and a .c file without a header of its own, begins with a sentence about the file."""
    silent = [house.where(path) for path in house.FILES
              if (path.suffix == ".h" or not path.with_suffix(".h").exists())
              and len(head(path.read_text()).split()) < 3]
    assert silent == []


def test_a_head_is_found():
    assert head("/*\n * a.h: reads it all. Then some.\n */\n") == "reads it all."
    assert head("#ifndef A_H\n/* no head */\n") == ""
