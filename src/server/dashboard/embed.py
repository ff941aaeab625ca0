"""embed.py OUT HTML CSS SCRIPT…: puts the page of the server together, as C, with the policy that admits its script."""

import base64
import hashlib
import pathlib
import sys

MARK = "@MAY@"


def source(text):
    """How a Content-Security-Policy names an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def array(name, text):
    numbers = text.encode()
    lines = [",".join(map(str, numbers[i:i + 24])) for i in range(0, len(numbers), 24)]
    return f"static const unsigned char {name}[] = {{\n" + ",\n".join(lines) + "};\n"


def main(out, html, css, *scripts):
    page, style = pathlib.Path(html).read_text(), pathlib.Path(css).read_text()
    script = '"use strict";\n' + "".join(pathlib.Path(path).read_text() for path in scripts)
    policy = "; ".join((
        "default-src 'none'", f"script-src {source(script)}", f"style-src {source(style)}", "connect-src 'self'",
        "img-src data:", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"))
    page = page.replace("@STYLE@", style).replace("@SCRIPT@", script)
    before, behind = page.split(MARK)
    pathlib.Path(out).write_text(f'#define PAGE_POLICY "{policy}"\n\n'
                                 + array("page_before", before) + array("page_behind", behind))


main(*sys.argv[1:])
