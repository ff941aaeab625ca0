"""Archives whose bytes depend on nothing but names, modes and contents of their files."""

import hashlib
import io
import json
import pathlib
import tarfile


def mode_of(path):
    return 0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644


def entry(path, name, epoch, owner=0):
    info = tarfile.TarInfo(name)
    info.mtime, info.uid, info.gid = epoch, owner, owner
    if path.is_symlink():
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, str(path.readlink()), 0o777
    else:
        info.mode = mode_of(path)
        info.type = tarfile.DIRTYPE if path.is_dir() else tarfile.REGTYPE
        info.size = 0 if path.is_dir() else path.stat().st_size
    return info


def add(tar, path, name, epoch):
    info = entry(path, name, epoch)
    if info.isreg():
        with path.open("rb") as file:
            tar.addfile(info, file)
    else:
        tar.addfile(info)


def write(out, top, prefix, epoch, files=None):
    """A tar file of `files` below `top` (or all), below `prefix`."""
    paths = sorted(top.rglob("*") if files is None else [top / name for name in files])
    with tarfile.open(out, "w", format=tarfile.GNU_FORMAT) as tar:
        for path in paths:
            add(tar, path, str(pathlib.PurePosixPath(prefix) / path.relative_to(top)), epoch)


def rewrite_image(path, epoch):
    """Makes the bytes of an image's archive depend on the image alone: buildah writes random names of the container that
    built it into the image's settings, whose digest is the image's name."""
    with tarfile.open(path) as old:
        files = {info.name: old.extractfile(info).read() for info in old.getmembers() if info.isreg()}
    [manifest] = json.loads(files["manifest.json"])
    settings = json.loads(files[manifest["Config"]])
    settings.pop("container", None)
    for part in ("config", "container_config"):
        settings.get(part, {}).pop("Hostname", None)
    text = json.dumps(settings, sort_keys=True).encode()
    manifest["Config"] = f"{hashlib.sha256(text).hexdigest()}.json"
    contents = {name: files[name] for name in manifest["Layers"]}
    contents |= {"manifest.json": json.dumps([manifest], sort_keys=True).encode(), manifest["Config"]: text}
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as new:
        for name, data in sorted(contents.items()):
            info = tarfile.TarInfo(name)
            info.mtime, info.size = epoch, len(data)
            new.addfile(info, io.BytesIO(data))
