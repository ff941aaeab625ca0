"""The structure of src/: folders include only lower ones, and files, functions and lists of parameters are short."""

import ast
import collections
import json
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
FILES = sorted(path for path in SRC.rglob("*") if path.suffix in (".c", ".h"))
LINES_MAX = 600
PARAMETERS_MAX = 6


def sees():
    """The table of meson.build: folder -> the folders whose headers it may include."""
    text = re.search(r"^sees = (\{.*?^\})", (ROOT / "meson.build").read_text(), re.M | re.S)[1]
    return ast.literal_eval(re.sub(r"#.*", "", text))


def includes(path):
    """The project's own headers, such as net/net.h."""
    return re.findall(r'^#include "([^"]+)"', path.read_text(), re.M)


def module(name):
    """src/net/conn.c and src/net/conn.h are one: net/conn."""
    return str(pathlib.PurePath(name).with_suffix(""))


def modules(files):
    """Module -> the modules that it includes."""
    edges = collections.defaultdict(set)
    for path in files:
        name = module(path.relative_to(SRC))
        edges[name] |= {module(header) for header in includes(path)} - {name}
    return edges


def reached(edges, start):
    """All that `start` leads to; itself if it is in a cycle."""
    seen, todo = set(), [start]
    while todo:
        new = edges.get(todo.pop(), set()) - seen
        seen |= new
        todo += new
    return seen


def cycles(edges):
    """The edges that lie in a cycle."""
    reach = {name: reached(edges, name) for name in edges}
    back = {name: sorted(other for other in others if name in reach.get(other, ()))
            for name, others in edges.items()}
    return {name: others for name, others in back.items() if others}


def code(text):
    """Without comments, strings and attributes; lines stay where they are."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match[0])
    text = re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S)
    return re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", blank, text)


def parameters(arguments):
    depth = 0
    count = 1
    for character in arguments:
        depth += (character == "(") - (character == ")")
        count += character == "," and depth == 0
    return 0 if arguments.strip() in ("", "void") else count


# The text before a function's name, the name, and the text between the parentheses.
DEFINITION = re.compile(r"^ *([a-zA-Z_][\w\s*]*?)\b(\w+)\(((?:[^(){};]|\([^(){};]*\))*)\)\s*\{", re.M)


def functions(text):
    """(name, number of parameters, line) of each function that is defined."""
    text = code(text)
    for match in DEFINITION.finditer(text):
        yield match[2], parameters(match[3]), text.count("\n", 0, match.start(2)) + 1


def called(text):
    return set(re.findall(r"\b(\w+)\s*\(", text))


def inline_calls(headers):
    """Inline function -> what it calls, of the texts of headers."""
    found = {}
    for text in map(code, headers):
        for match in DEFINITION.finditer(text):
            end = text.find("\n}\n", match.end())
            found[match[2]] = called(text[match.end():end])
    return found


def followed(names, inline):
    """The functions, and those that inline functions among them call."""
    found, left = set(), set(names)
    while left:
        found |= left
        left = set().union(*(inline.get(name, set()) for name in left)) - found
    return found


def calls(sources, headers=()):
    """
    File -> the files whose functions it calls, of the text of each; also by inline functions of headers.
    Calls through pointers, such as those of tables of commands, are not counted.
    """
    texts, inline = {name: code(text) for name, text in sources.items()}, inline_calls(headers)
    defined = {name: {match[2]: "static" in match[1].split() for match in DEFINITION.finditer(text)}
               for name, text in texts.items()}
    owner = {function: name for name, own in defined.items()
             for function, is_static in own.items() if not is_static}
    return {name: {owner[one] for one in followed(called(text), inline)
                   if one in owner and one not in defined[name]}
            for name, text in texts.items()}


def where(path):
    return str(path.relative_to(ROOT))


def test_files_form_no_cycle():
    assert cycles(modules(FILES)) == {}


def test_a_cycle_is_found_and_what_leads_to_it_is_not():
    edges = {"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": {"b", "e"}, "e": {"out"}}
    assert cycles(edges) == {"b": ["c"], "c": ["d"], "d": ["b"]}


def test_files_call_in_no_circle():
    sources = {where(path).removeprefix("src/"): path.read_text() for path in FILES if path.suffix == ".c"}
    assert not cycles(calls(sources, [path.read_text() for path in FILES if path.suffix == ".h"]))


def test_calls_are_found():
    sources = {"a.c": "int a(void)\n{\n\treturn b() + help(1);\n}\nstatic int help(int x)\n{\n\treturn x;\n}\n",
               "b.c": "int b(void)\n{\n\treturn help(2); /* a() */\n}\n",
               "help.c": "int help(int x)\n{\n\treturn x ? a() : 0;\n}\n"}
    assert calls(sources) == {"a.c": {"b.c"}, "b.c": {"help.c"}, "help.c": {"a.c"}}
    header = "static inline int b_twice(void)\n{\n\treturn b_once() + b_once();\n}\n" \
             "static inline int b_once(void)\n{\n\treturn help(1);\n}\nint a(void);\n"
    assert calls({"c.c": "int c(void)\n{\n\treturn b_twice();\n}\n", **sources}, [header])["c.c"] == {"help.c"}


def test_the_table_of_folders_is_complete_and_in_layers():
    table = sees()
    assert {path.name for path in SRC.iterdir() if path.is_dir()} == table.keys()
    assert cycles({folder: set(others) for folder, others in table.items()}) == {}


def test_the_table_of_subfolders_is_complete():
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| .* \|$", (ROOT / "docs/design/architecture.md").read_text(), re.M)
    table = {folder: set(re.findall(r"`(\w+)`", text)) for folder, text in rows}
    for folder in SRC.iterdir():
        subfolders = {path.name for path in folder.iterdir() if path.is_dir()} if folder.is_dir() else set()
        assert table.get(folder.name, set()) >= subfolders, folder


@pytest.mark.parametrize("folder", sorted(sees()))
def test_a_folder_includes_what_it_sees(folder):
    allowed = {folder, *sees()[folder]}
    # A header without a folder is the folder's own, made by the build.
    bad = [f"{where(path)}: {header}" for path in FILES if path.relative_to(SRC).parts[0] == folder
           for header in includes(path) if "/" in header and header.split("/")[0] not in allowed]
    assert bad == []


@pytest.mark.parametrize("folder", sorted(sees()))
def test_a_folder_has_a_readme(folder):
    lines = (SRC / folder / "README.md").read_text().splitlines()
    assert lines[0] == f"# {folder}"
    assert any(line.startswith("Tests: ") for line in lines)


FOLDER_MAX = 25


def test_folders_are_small():
    """The files of algorithms don't count: their number is that of the algorithms."""
    algorithms = re.search(r"^algorithms = \[(.*?)\]", (SRC / "algo/meson.build").read_text(), re.S | re.M)
    names = set(re.findall(r"'(\w+)'", algorithms[1]))
    count = collections.Counter(str(path.parent.relative_to(SRC)) for path in FILES
                                if path.parent != SRC / "algo" or path.stem not in names)
    large = {folder: n for folder, n in count.items() if n > FOLDER_MAX}
    assert not large, f"more than {FOLDER_MAX} files: make subfolders, each for one concern"


def test_files_are_short():
    long = {where(path): lines for path in FILES
            if (lines := len(path.read_text().splitlines())) >= LINES_MAX}
    assert long == {}


# Callbacks, as libraries want them.
CALLBACKS = {"on_header", "read_unsent"}


def test_lists_of_parameters_fit_in_a_hand():
    long = {f"{where(path)}:{line}: {name}": count for path in FILES
            for name, count, line in functions(path.read_text())
            if count > PARAMETERS_MAX and name not in CALLBACKS}
    assert long == {}


def test_the_first_header_is_small():
    """A reader of <weir/weir.h> finds its way; what fewer programs need has headers of its own."""
    functions_of_weir_h = re.findall(r"^WEIR_API [^;]*?\bweir_\w+\(", code((ROOT / "include/weir/weir.h").read_text()), re.M)
    assert 20 <= len(functions_of_weir_h) <= 35


def test_parameters_are_counted():
    text = """
static const struct algo *
first(struct a *a, int (*b)(int, char), /* c, d */ char e[2])
{
}
int none(void) { return call(1, 2, 3); }
int declared(int a, int b);
"""
    assert list(functions(text)) == [("first", 3, 3), ("none", 0, 6)]


def test_functions_are_seen():
    found = [name for path in FILES for name, _, _ in functions(path.read_text())]
    assert len(found) > 1500
    assert {"net_loop_run", "weir_acquire", "buffer_reserve", "main"} <= set(found)


def test_unit_tests_that_start_threads_run_with_the_thread_sanitizer():
    build = os.environ.get("WEIR_BUILD", ROOT / "build")
    listed = json.loads(subprocess.check_output(["meson", "introspect", "--tests", build]))
    sanitized = {test["name"] for test in listed if "weir:threads" in test["suite"]}
    starting = {f"{path.parent.name}/{path.stem.removeprefix('test_')}"
                for path in (ROOT / "tests/unit").glob("*/test_*.c")
                if "pthread_create(" in path.read_text()}
    assert starting and starting <= sanitized


def objects_of_symbols(listing):
    """Symbol: the objects that define it, of a listing by `nm -A`. A weak definition may stand in several."""
    found = collections.defaultdict(set)
    for line in listing.splitlines():
        words = line.split()
        if len(words) > 2 and words[-2] in ("T", "D", "B", "R", "C"):
            found[words[-1]].add(words[0].rpartition(":")[0])
    return found


def test_symbols_of_two_objects_are_found():
    listing = "a.o:0000000000000000 T one\na.o:0000000000000010 T two\nb.a:c.o:0000000000000000 D two\nb.a:c.o:0000000000000000 W one\n"
    assert objects_of_symbols(listing) == {"one": {"a.o"}, "two": {"a.o", "b.a:c.o"}}


def test_no_two_objects_define_the_same_symbol():
    """A linker takes the first of two definitions in libraries, and says nothing."""
    build = pathlib.Path(os.environ.get("WEIR_BUILD", ROOT / "build"))
    files = [*build.glob("src/*/lib*.a"), *build.glob("weir.p/*.o")]
    listing = subprocess.check_output(["gcc-nm", "-A", "--defined-only", "--extern-only", *files], text=True,
                                      stderr=subprocess.DEVNULL)
    found = objects_of_symbols(listing)
    assert len(found) > 1000 and "main" in found
    assert {symbol: sorted(objects) for symbol, objects in found.items() if len(objects) > 1} == {}


def named_files(text, folders):
    """The files of src/ and tests/ that a text names by their path."""
    found = re.findall(rf"\b(?:src/)?((?:{'|'.join(folders)})/[\w/]+\.(?:c|h|lua))\b", text)
    return {f"src/{name}" for name in found} | set(re.findall(r"\btests/[\w/]+\.(?:c|h|py|pml)\b", text))


def test_named_files_are_found():
    text = "see store/wide/find.c (`src/base/map.h`), tests/spin/leases.pml; not https://a/store.c or x/y.c"
    assert named_files(text, ["base", "store"]) == {"src/store/wide/find.c", "src/base/map.h", "tests/spin/leases.pml"}


def test_files_that_comments_and_pages_name_are_there():
    pages = [*(ROOT / "docs").rglob("*.md"), *SRC.rglob("*.md"), *(ROOT / "tests").rglob("*.md"), ROOT / "CONTRIBUTING.md"]
    gone = {(str(path.relative_to(ROOT)), name) for path in [*pages, *FILES, *SRC.rglob("*.lua")]
            for name in named_files(path.read_text(), sees())
            if not re.search("NAME", name) and not (ROOT / name).exists() and not (ROOT / "tests/unit" / name[4:]).exists()}
    assert not gone
