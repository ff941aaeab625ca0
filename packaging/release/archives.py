"""Archives whose bytes depend on nothing but names, modes and contents of their files."""

import io
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


def rewrite(path, epoch):
    """Makes the bytes of a tar file of another program depend on its contents alone."""
    with tarfile.open(path) as old:
        entries = [(info, old.extractfile(info).read() if info.isreg() else None)
                   for info in sorted(old.getmembers(), key=lambda info: info.name)]
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as new:
        for info, data in entries:
            info.mtime, info.uid, info.gid, info.uname, info.gname = epoch, 0, 0, "", ""
            new.addfile(info, None if data is None else io.BytesIO(data))
