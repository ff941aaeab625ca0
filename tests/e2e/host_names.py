"""Names of hosts that only some programs see. Needs root."""

import pathlib


class Names:
    """Files that stand in the place of /etc/hosts and resolv.conf for programs started behind `words`."""

    def __init__(self, directory):
        self._file = pathlib.Path(directory) / "hosts"
        self._resolver = pathlib.Path(directory) / "resolv.conf"
        self.set()
        self.ask_dns("127.0.0.1")

    def set(self, **addresses):
        """The addresses of each name, from now on."""
        lines = [f"{address} {name}\n" for name, all_of_it in addresses.items() for address in all_of_it]
        # Written in place: another file would not be seen where this one is mounted.
        self._file.write_text("".join(["127.0.0.1 localhost\n", *lines]))

    def ask_dns(self, address):
        """Which server is asked for other names, for many minutes."""
        self._resolver.write_text(f"nameserver {address}\noptions timeout:30 attempts:5\n")

    @property
    def words(self):
        script = ('mount --bind "$0" /etc/hosts && mount --bind "$1" "$(realpath /etc/resolv.conf)" && '
                  'shift && exec "$@"')
        return "unshare", "--mount", "sh", "-c", script, str(self._file), str(self._resolver)
