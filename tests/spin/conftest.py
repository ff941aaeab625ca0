"""Has spin search every order of a model's steps."""

import pathlib
import subprocess

import pytest

PATIENCE = 300  # seconds, on a busy machine


def pytest_configure(config):
    config.addinivalue_line("markers", "large: the search takes so long that optimizing its program saves time")


@pytest.fixture
def errors(tmp_path, request):
    """Of the model of the test's name: whether there is a counterexample."""
    model = pathlib.Path(request.path.parent, request.path.stem.removeprefix("test_") + ".pml")
    # tcc compiles the other programs in a twentieth of clang's time, which is most of what they take.
    compiler = ["clang", "-O1"] if request.node.get_closest_marker("large") else ["tcc"]

    def search(*defines):
        flags = [f"-D{define}" for define in defines]
        subprocess.run(["spin", *flags, "-a", model], cwd=tmp_path, check=True, timeout=PATIENCE,
                       capture_output=True)
        subprocess.run([*compiler, "-w", "-DSAFETY", "-DCOLLAPSE", "-DMEMLIM=4000", "-o", "pan",
                        "pan.c"], cwd=tmp_path, check=True, timeout=PATIENCE)
        # In a model where all but the last one die, those who died have not come to their end.
        ends = ["-E"] if "LAST" in defines else []
        done = subprocess.run(["./pan", "-m100000", *ends], cwd=tmp_path, check=True, timeout=PATIENCE,
                              capture_output=True, text=True)
        # All of it was searched, or it was ended by a counterexample.
        assert "max search depth too small" not in done.stdout
        assert "errors: 0" not in done.stdout or "Search not completed" not in done.stdout
        assert "errors: 0" in done.stdout or "assertion violated" in done.stdout
        return "errors: 0" not in done.stdout

    return search
