"""The list of parts of the static program, in SPDX 2.3: what the linker took, its versions and licences."""

import datetime
import json
import pathlib
import re
from urllib.parse import quote

# The licence of the parts of each Debian source package that are linked in, as SPDX spells it.
# debian/copyright of each is shipped beside the program, with all texts.
LICENCES = {
    "gcc": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "glibc": "LGPL-2.1-or-later",
    "hiredis": "BSD-3-Clause",
    "libuv1": "MIT",
    "libxcrypt": "LGPL-2.1-or-later",
    "libyaml": "MIT",
    "llhttp": "MIT",
    "nghttp2": "MIT",
    "openssl": "Apache-2.0",
    "zlib": "Zlib",
    "libzstd": "BSD-3-Clause",
}
# Debian builds llhttp as a part of another library of Node.js.
CONTAINED_IN = {"node-undici": "llhttp"}
DATA_LICENCES = {"tzdata": "LicenseRef-public-domain", "ca-certificates": "MPL-2.0"}


class Part:
    """A Debian package of which the program has something."""

    def __init__(self, root, binary):
        self.binary = binary
        self.source, self.source_version, self.version = root.run(
            "dpkg-query", "-W", "-f", "${source:Package} ${source:Version} ${Version}", binary).split()
        self.name = re.sub(r"^gcc-\d+$", "gcc", CONTAINED_IN.get(self.source, self.source))


def linked_packages(root, linked):
    """{name: its Part} of the files that the linker reports."""
    found = {}
    outside = {line for line in map(str.strip, linked) if line.startswith("/usr/lib")}
    paths = sorted({re.sub(r"\(.*", "", line) for line in outside})
    for path in paths:
        real = root.run("realpath", path).strip()
        package = root.run("sh", "-c", f"dpkg -S {real} 2>/dev/null || dpkg -S {path} || dpkg -S {real.removeprefix('/usr')}")
        part = Part(root, package.split(":")[0])
        found[part.name] = part
    return found


def identifier(name):
    return "SPDXRef-Package-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


def package(name, version, licence, copyright_text="NOASSERTION"):
    return {
        "SPDXID": identifier(name), "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False, "licenseConcluded": licence, "licenseDeclared": licence,
        "copyrightText": copyright_text,
    }


def debian_package(part, licence, suite):
    return {**package(part.name, part.version, licence), "supplier": "Organization: Debian", "externalRefs": [{
        "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
        "referenceLocator": f"pkg:deb/debian/{part.source}@{quote(part.source_version)}?arch=source&distro={suite}"}]}


def document(version, epoch, suite, linked, data, digest):
    """The SPDX document. `linked`, `data`: {name: its Part}; `digest`: SHA-256 of the program."""
    created = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    weir = {**package("weir", version, "Apache-2.0", "2026 the Weir authors"),
            "checksums": [{"algorithm": "SHA256", "checksumValue": digest}], "primaryPackagePurpose": "APPLICATION"}
    parts = [debian_package(linked[name], LICENCES[name], suite) for name in sorted(linked)]
    images = [debian_package(data[name], DATA_LICENCES[name], suite) for name in sorted(data)]
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", identifier("weir"))]
    relations += [(identifier("weir"), "STATIC_LINK", part["SPDXID"]) for part in parts]
    relations += [(part["SPDXID"], "RUNTIME_DEPENDENCY_OF", identifier("weir")) for part in images]
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"weir-{version}", "documentNamespace": f"urn:sha256:{digest}",
        "creationInfo": {"created": created, "creators": ["Organization: Weir", "Tool: packaging/release/parts.py"]},
        "packages": [weir, *parts, *images],
        "relationships": [{"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b}
                          for a, kind, b in relations],
        "hasExtractedLicensingInfos": [{
            "licenseId": "LicenseRef-public-domain", "name": "public domain",
            "extractedText": "The time zone database is in the public domain."}],
    }


def write(path, parts):
    pathlib.Path(path).write_text(json.dumps(parts, indent=1, sort_keys=True) + "\n")
