"""The binding of weir.py against the header itself."""

import ctypes
import subprocess

import weir

PROBE = """
#include <stdio.h>
#include <weir/weir.h>
int main(void)
{
%s
	return 0;
}
"""


def test_every_struct_has_the_layout_of_the_header(tmp_path):
    expected = {}
    lines = []
    for name, struct in weir.STRUCTS.items():
        expected[name] = ctypes.sizeof(struct)
        lines.append(f'\tprintf("{name} %zu\\n", sizeof(struct {name}));')
        for field, *_ in struct._fields_:
            expected[f"{name}.{field}"] = getattr(struct, field).offset
            lines.append(
                f'\tprintf("{name}.{field} %zu\\n", offsetof(struct {name}, {field}));')
    source = tmp_path / "probe.c"
    source.write_text(PROBE % "\n".join(lines))
    subprocess.run(["cc", "-I", weir.ROOT / "include", source, "-o", tmp_path / "probe"],
                   check=True, env={"PATH": "/usr/bin:/bin"})
    output = subprocess.run([tmp_path / "probe"], check=True, capture_output=True, text=True).stdout
    found = {name: int(value) for name, value in (line.split() for line in output.splitlines())}
    assert found == expected


def test_the_constants_of_the_header_are_found():
    assert weir.TOKEN_BUCKET == weir.SECOND == weir.OK == 0
    assert (weir.CONCURRENCY, weir.YEAR, weir.ENOMEM, weir.EPERM) == (11, 8, -1, -13)


def test_every_reason_has_its_text():
    assert [weir.lib.weir_reason_text(i).decode() for i in range(12)] == [
        "ok", "hit_quota", "over_limit", "queue_full", "wait_too_long", "shed", "breaker_open",
        "listed", "store_failure", "no_room", "store_open", "store_local"]


def test_reserved_fields_are_refused_going_in_and_zero_coming_out():
    for kind, make, reserved in (
            ("limiter", lambda: weir.options(weir.BREAKER, **weir.own("breaker")),
             lambda opts: opts.breaker[0].reserved),
            ("limiter", lambda: weir.options(weir.THROTTLE, **weir.own("throttle")),
             lambda opts: opts.throttle[0].reserved),
            ("limiter", lambda: weir.options(weir.ADAPTIVE, **weir.own("adaptive")),
             lambda opts: opts.adaptive[0].reserved),
            ("limiter", lambda: weir.options(weir.TOKEN_BUCKET, 5), lambda opts: opts.reserved),
            ("table", weir.TableOptions, lambda opts: opts.reserved)):
        for place in range(len(reserved(make()))):
            opts = make()
            reserved(opts)[place] = 1
            handle, error = ctypes.c_void_p(), weir.Error()
            assert getattr(weir.lib, f"weir_{kind}_open")(
                ctypes.byref(opts), ctypes.byref(handle), ctypes.byref(error)) == weir.EINVAL
            assert not handle
            assert error.message == b"reserved: expected 0, found 1"
    limiter, table = weir.Limiter(weir.options(weir.TOKEN_BUCKET, 5)), weir.Table(1)
    decision, stats = weir.RawDecision(), weir.TableStats()
    for out in (decision, stats):
        ctypes.memset(ctypes.byref(out), 0xFF, ctypes.sizeof(out))
    weir.lib.weir_limiter_acquire(limiter.handle, 1, 1, ctypes.byref(decision))
    weir.lib.weir_table_stats(table.handle, 1, ctypes.byref(stats))
    assert not any(decision.reserved) and not any(stats.reserved)
