#!/usr/bin/env python3
"""Makes the manual pages of the library, section 3, from the headers.

    docs/library_pages.py DIRECTORY include/weir/*.h

A header makes one page, and so does each part of weir.h. Its head comment makes `libweir`, whose
conventions hold in all of them. The name of each function, struct and enum is a link to its page.
"""

import pathlib
import re
import sys

from manual import quoted

MADE = "Made by docs/library_pages.py."
PART = re.compile(r"^/\* -+ \*/\n/\* (\w+): (.*?) +\*/\n", re.M)
ITEM = re.compile(r"^  (\w+) {2,}(?=\S)")


class Declaration:
    """What stands between two empty lines of a header: its comment and its text in C."""

    def __init__(self, chunk):
        comment, self.code = re.fullmatch(r"(?:/\*\*(.*?)\*/\n)?(.*)", chunk.strip("\n"), re.S).groups()
        self.comment = uncommented(comment or "")
        kinds = [(kind, re.match(pattern, self.code, re.S)) for kind, pattern in (
            ("function", r"WEIR_API [^(]*?(\w+)\("), ("struct", r"struct (\w+) \{"),
            ("enum", r"enum (\w+) \{"), ("list", r"#define (WEIR_\w+_LIST)\(X\)"),
            ("macro", r"#define (WEIR_\w+) [^_\n]"), ("type", r"typedef [^;]*?(\w+)(?:\([^;]*)?;"))]
        self.kind, match = next(((kind, match) for kind, match in kinds if match), (None, None))
        self.name = match[1] if match else None

    def prototype(self):
        return " ".join(self.code.removeprefix("WEIR_API ").split())


def uncommented(comment):
    """The lines of a comment, without its stars."""
    return re.sub(r"^ ?\* ?", "", comment.strip(), flags=re.M).strip("\n")


class Writer:
    """Text of comments as troff."""

    def __init__(self, functions, statuses):
        self.functions = functions
        self.status = re.compile(rf"(?<![_\w\"])({'|'.join(statuses)})\b")

    def inline(self, text):
        text = self.status.sub(r"WEIR_\1", quoted(" ".join(text.split())))
        text = re.sub(r"`(.+?)`", r"\\fI\1\\fR", text)
        text = re.sub(r"\b(weir_\w+)(\(\))?", lambda name: rf"\fB{name[1]}\fR" + "(3)" * (name[1] in self.functions), text)
        return re.sub(r"^([.'])", r"\\&\1", text)

    def paragraphs(self, text):
        """Paragraphs, lists of items, and code, which is indented by four columns."""
        out = []
        blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+|(?:^(?!    ).+\n)(?:^(?!\n).+\n)*",
                            text + "\n", re.M)
        for block in blocks:
            if block.strip("\n").startswith("    "):
                code = re.sub(r"^    ", "", block.strip("\n"), flags=re.M)
                out += [".PP", ".EX", *(quoted(line) for line in code.split("\n")), ".EE"]
            elif ITEM.match(block):
                for item in re.split(r"\n(?=  \w)", block.strip("\n")):
                    out += [".TP", f".B {ITEM.match(item)[1]}", self.inline(ITEM.sub("", item))]
            else:
                out += [".PP", self.inline(block)]
        return out

    def fields(self, code):
        """The members of a struct or enum, each with its comment."""
        body = code[code.index("{") + 1:code.rindex("}")]
        before = re.findall(r"^\t/\*\*(.*?)\*/\n\t([^/]*?),?$", body, re.M | re.S)
        after = re.findall(r"^\t([^/#\n]+?)[;,]?[ \t]*(?:/\*\*<(.*?)\*/)?$", body, re.M | re.S)
        out = []
        for member, comment in [(member, comment) for comment, member in before] or after:
            out += [".TP", f".B {quoted(member.strip())}", self.inline(comment) or r"\&"]
        return out


def listed(list_code, enum_code):
    """The members of an enum that an X macro makes: (name, text)."""
    prefix = re.search(r"(WEIR_\w*?)##name", enum_code)[1]
    rows = re.findall(r'X\((\w+), (?:(-?\d+), )?"(.*?)"\)', list_code)
    return [(prefix + name + (f" = {value}" if value else ""), text) for name, value, text in rows]


class Page:
    def __init__(self, name, summary, header, introduction, chunks):
        self.name, self.summary, self.header, self.introduction = name, summary, header, introduction
        self.declarations = [each for each in map(Declaration, chunks) if each.kind]

    def of(self, *kinds):
        return [each for each in self.declarations if each.kind in kinds]

    def functions(self):
        return [each.name for each in self.of("function")]

    def names(self):
        """Of its links; struct weir_x_stats and weir_x_stats() share one."""
        return {each.name for each in self.of("function", "struct", "enum", "type")} - {self.name}

    def types(self, writer):
        out = []
        lists = {each.name: each for each in self.of("list")}
        for each in self.of("macro", "enum", "struct", "type"):
            title = {"struct": f"struct {each.name}", "enum": f"enum {each.name}"}.get(each.kind, each.name)
            out += [f".SS {quoted(title)}"]
            found = re.search(r"WEIR_\w+_LIST(?=\()", each.code)
            if found:
                each.comment = lists[found[0]].comment
            out += writer.paragraphs(each.comment)
            if found:
                for name, text in listed(lists[found[0]].code, each.code):
                    out += [".TP", f".B {quoted(name)}", quoted(text)]
            elif each.kind in ("struct", "enum"):
                out += writer.fields(each.code)
            else:
                out += [".PP", ".EX", *quoted(each.code).split("\n"), ".EE"]
        return out

    def text(self, writer, conventions, others):
        names = [self.name, *sorted(self.names())]
        out = [*head(self.name, names, self.summary), f"\\fB#include <{self.header}>\\fR"]
        for each in self.of("function"):
            out += [".HP 4n", re.sub(r"(\w+)(?=[,)])(?!\(\))", r"\\fI\1\\fR", each.prototype())
                    .replace(each.name, rf"\fB{each.name}\fR", 1)]
        if self.introduction:
            out += [".SH DESCRIPTION", *writer.paragraphs(self.introduction)]
        errors = []
        if self.functions():
            out += [".SH FUNCTIONS"]
        for each in self.of("function"):
            text, _, failures = each.comment.partition("\n\nErrors: ")
            out += [f".SS {each.name}()", *writer.paragraphs(text)]
            if failures:
                errors += [".TP", f".BR {each.name} ()", writer.inline(failures[0].upper() + failures[1:])]
        types = self.types(writer)
        if types:
            out += [".SH TYPES AND CONSTANTS", *types]
        out += [".SH RETURN VALUE", writer.inline(conventions["errors"])]
        if errors:
            out += [".SH ERRORS", *errors]
        out += [".SH THREADS", writer.inline(conventions["threads"])]
        return "\n".join([*out, *see_also(others)]) + "\n"


def head(name, names, summary):
    return [f'.\\" {MADE}', f'.TH {name.upper()} 3 "" "" "Weir"', ".ad l", ".nh", ".SH NAME",
            f"{quoted(', '.join(names))} \\- {quoted(summary)}", ".SH SYNOPSIS"]


def see_also(names):
    return [".SH SEE ALSO", *(f".BR {name} (3){',' * (name != names[-1])}" for name in names)]


def head_of(text):
    """The head comment of a header: its summary and the rest."""
    lines = uncommented(re.match(r"/\*\n(.*?)\*/", text, re.S)[1])
    summary, _, rest = lines.partition("\n\n")
    return " ".join(summary.partition(": ")[2].split()), rest


def pages_of(path, text):
    """The pages of a header."""
    header = f"weir/{path.name}"
    body = text[text.index('extern "C" {\n#endif') + 20:text.rindex("#ifdef __cplusplus")]
    summary, introduction = head_of(text)
    parts = PART.split(body)
    if len(parts) == 1:
        introduction = introduction.partition("Conventions as in weir.h.")[2] or \
            introduction.partition("Conventions as in weir.h, and:")[2]
        return [Page(f"weir_{path.stem}", summary.rstrip("."), header, introduction.strip("\n"),
                     body.split("\n\n"))]
    return [Page(f"weir_{name.lower()}", summary, header, "", chunks.split("\n\n"))
            for name, summary, chunks in zip(parts[1::3], parts[2::3], parts[3::3])]


def main():
    directory = pathlib.Path(sys.argv[1])
    texts = {path: path.read_text() for path in map(pathlib.Path, sys.argv[2:])}
    pages = [page for path, text in texts.items() for page in pages_of(path, text)]
    [first] = [text for path, text in texts.items() if path.name == "weir.h"]
    writer = Writer({name for page in pages for name in page.functions()},
                    re.findall(r"^\tX\((\w+), -", first, re.M))
    summary, introduction = head_of(first)
    conventions = {ITEM.match(item)[1]: ITEM.sub("", item) for item in
                   re.findall(r"^  \w+ {2,}\S.*(?:\n {4,}.*)*", introduction, re.M)}
    names = [page.name for page in pages]
    made = {page.name: page.text(writer, conventions, ["libweir", *(name for name in names if name != page.name)])
            for page in pages}
    made["libweir"] = "\n".join([
        *head("libweir", ["libweir"], summary.rstrip(".")), ".B #include <weir/weir.h>", ".PP", r"Link with what \fIpkg\-config \-\-libs weir\fR prints.",
        ".SH DESCRIPTION", *writer.paragraphs(introduction), *see_also(names)]) + "\n"
    made |= {link: f".so man3/{page.name}.3\n" for page in pages for link in page.names() - set(names)}
    directory.mkdir(parents=True, exist_ok=True)
    for page in directory.iterdir():
        page.unlink()
    for name, text in made.items():
        (directory / f"{name}.3").write_text(text)


if __name__ == "__main__":
    main()
