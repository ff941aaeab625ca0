"""The library through ctypes. test_binding.py holds the layouts against weir.h."""

import ctypes
import os
import pathlib
import re

U64 = ctypes.c_uint64
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("WEIR_BUILD", ROOT / "build"))

HEADER = re.sub(r"/\*.*?\*/", "", (ROOT / "include/weir/weir.h").read_text(), flags=re.S)


def constants(enum):
    """The constants of an enumeration that counts from 0, without their prefix."""
    body = re.search(rf"^enum {enum} {{(.*?)^}};", HEADER, re.M | re.S)[1]
    return re.findall(rf"^\t{enum.upper()}_(\w+)", body, re.M)


def fields(struct, types):
    """The fields of a struct, by the types that they have."""
    body = re.search(rf"^struct {struct} {{(.*?)^}};", HEADER, re.M | re.S)[1]
    found = re.findall(r"^\t([a-z_0-9 ]+?[ *]+)(\w+)(?:\[(\d+)\])?;", body, re.M)
    return [(name, types[kind.strip()] * int(count) if count else types[kind.strip()])
            for kind, name, count in found]


# OK, ENOMEM, …, TOKEN_BUCKET, …, SECOND, …
vars().update({name: int(value) for name, value in re.findall(r"X\((\w+), (-?\d+), \"", HEADER)})
for _enum in ("weir_algorithm", "weir_unit"):
    vars().update({name: value for value, name in enumerate(constants(_enum))})
CALENDAR, FIRST_REQUEST = range(2)
NOW, ZERO = 2**64 - 1, 2**64 - 3
REASONS = ("ok", "hit_quota", "over_limit", "queue_full", "wait_too_long")

UNIT_NS = {
    NANOSECOND: 1,
    MILLISECOND: 10**6,
    SECOND: 10**9,
    MINUTE: 60 * 10**9,
    HOUR: 3600 * 10**9,
    DAY: 86400 * 10**9,
    WEEK: 7 * 86400 * 10**9,
}


class Strict(ctypes.Structure):
    """Without other attributes than its fields, so that a wrong name is an error."""
    __slots__ = ()


class Error(ctypes.Structure):
    _fields_ = [
        ("status", ctypes.c_int),
        ("line", ctypes.c_uint),
        ("column", ctypes.c_uint),
        ("message", ctypes.c_char * 240),
    ]


class Rate(ctypes.Structure):
    _fields_ = [("count", U64), ("period", U64), ("unit", ctypes.c_int)]


class BreakerOptions(Strict):
    _fields_ = fields("weir_breaker_options", {
        "uint32_t": ctypes.c_uint32, "uint64_t": U64, "enum weir_breaker_preset": ctypes.c_int})


class ThrottleOptions(Strict):
    _fields_ = fields("weir_throttle_options", {
        "uint64_t": U64, "double": ctypes.c_double, "enum weir_throttle_preset": ctypes.c_int})


class AdaptiveOptions(Strict):
    _fields_ = fields("weir_adaptive_options", {
        "uint32_t": ctypes.c_uint32, "uint64_t": U64, "enum weir_method": ctypes.c_int})


OWN_OPTIONS = {"breaker": BreakerOptions, "throttle": ThrottleOptions, "adaptive": AdaptiveOptions}


class LimitOptions(Strict):
    _fields_ = fields("weir_limit_options", {
        "const char *": ctypes.c_char_p, "uint32_t": ctypes.c_uint32, "uint64_t": U64,
        "double": ctypes.c_double, "struct weir_rate": Rate, "enum weir_algorithm": ctypes.c_int,
        "enum weir_align": ctypes.c_int, "enum weir_weekday": ctypes.c_int,
        "const struct weir_breaker_options *": ctypes.POINTER(BreakerOptions),
        "const struct weir_throttle_options *": ctypes.POINTER(ThrottleOptions),
        "const struct weir_adaptive_options *": ctypes.POINTER(AdaptiveOptions)})


class RawDecision(ctypes.Structure):
    _fields_ = [
        ("allowed", ctypes.c_bool),
        ("paced", ctypes.c_bool),
        ("reason", ctypes.c_int),
        ("quota", U64),
        ("remaining", U64),
        ("retry_after_ns", U64),
        ("reset_after_ns", U64),
        ("window_ns", U64),
        ("limit", ctypes.c_char_p),
        ("rule", ctypes.c_char_p),
        ("result", ctypes.c_char_p),
        ("wait_ns", U64),
        ("degraded", ctypes.c_bool),
        ("reserved", U64 * 1),
    ]


class TableOptions(ctypes.Structure):
    _fields_ = [
        ("capacity", U64), ("secret", ctypes.c_char_p), ("path", ctypes.c_char_p),
        ("owner", U64), ("group", U64), ("reserved", U64 * 3)]


class Key(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("len", ctypes.c_size_t)]


class Request(ctypes.Structure):
    _fields_ = [
        ("limit", ctypes.c_void_p),
        ("key", Key),
        ("cost", U64),
        ("status", ctypes.c_int),
    ]


class TableStats(ctypes.Structure):
    _fields_ = [(name, U64) for name in ("capacity", "cells", "live", "evictions", "bytes", "sample_weight")] + [
        ("reserved", U64 * 2)]


STRUCTS = {
    "weir_error": Error,
    "weir_rate": Rate,
    "weir_breaker_options": BreakerOptions,
    "weir_throttle_options": ThrottleOptions,
    "weir_adaptive_options": AdaptiveOptions,
    "weir_limit_options": LimitOptions,
    "weir_decision": RawDecision,
    "weir_table_options": TableOptions,
    "weir_key": Key,
    "weir_request": Request,
    "weir_table_stats": TableStats,
}


def _load():
    lib = ctypes.CDLL(str(BUILD / "src" / "libweir.so"))
    handle, out = ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)
    error, decision = ctypes.POINTER(Error), ctypes.POINTER(RawDecision)
    signatures = {
        "weir_limit_open": [ctypes.POINTER(LimitOptions), out, error],
        "weir_limiter_open": [ctypes.POINTER(LimitOptions), out, error],
        "weir_table_open": [ctypes.POINTER(TableOptions), out, error],
        "weir_limiter_acquire": [handle, U64, U64, decision],
        "weir_limiter_peek": [handle, U64, U64, decision],
        "weir_limiter_refund": [handle, U64, U64, decision],
        "weir_limiter_reset": [handle, U64, decision],
        "weir_acquire": [handle, handle, Key, U64, U64, decision],
        "weir_peek": [handle, handle, Key, U64, U64, decision],
        "weir_refund": [handle, handle, Key, U64, U64, decision],
        "weir_reset": [handle, handle, Key, U64, decision],
        "weir_acquire_batch": [handle, ctypes.POINTER(Request), ctypes.c_size_t, U64, decision],
        "weir_limit_shed": [handle, ctypes.c_double],
        "weir_limiter_shed": [handle, ctypes.c_double],
        "weir_limiter_force": [handle, ctypes.c_int, U64, U64],
        "weir_force": [handle, handle, Key, ctypes.c_int, U64, U64],
        "weir_seed": [U64],
        "weir_limit_close": [handle],
        "weir_limiter_close": [handle],
        "weir_table_close": [handle],
        "weir_table_stats": [handle, U64, ctypes.POINTER(TableStats)],
    }
    for name, arguments in signatures.items():
        function = getattr(lib, name)
        function.argtypes = arguments
        function.restype = None if name.endswith(("_close", "_stats", "_seed")) else ctypes.c_int
    lib.weir_strerror.restype = lib.weir_reason_text.restype = ctypes.c_char_p
    return lib


lib = _load()


class WeirError(Exception):
    def __init__(self, status, message=""):
        super().__init__(f"{lib.weir_strerror(status).decode()}: {message}")
        self.status = status
        self.message = message


def _check(status, message=""):
    if status != OK:
        raise WeirError(status, message)


def options(algorithm, count=0, period=0, unit=SECOND, burst=0, **others):
    return LimitOptions(algorithm=algorithm, rate=Rate(count, period, unit), burst=burst, **others)


def own(algorithm, **given):
    """The field of LimitOptions for what the algorithm alone has."""
    return {algorithm: ctypes.pointer(OWN_OPTIONS[algorithm](**given))}


def _plain(raw):
    return {
        "allowed": raw.allowed,
        "reason": lib.weir_reason_text(raw.reason).decode(),
        "quota": raw.quota,
        "remaining": raw.remaining,
        "retry_after_ns": raw.retry_after_ns,
        "reset_after_ns": raw.reset_after_ns,
        "wait_ns": raw.wait_ns,
    }


class _Handle:
    """Owns what *_open made."""

    def __init__(self, kind, opts):
        self.handle = ctypes.c_void_p()
        self._close = getattr(lib, f"weir_{kind}_close")
        error = Error()
        status = getattr(lib, f"weir_{kind}_open")(
            ctypes.byref(opts) if opts is not None else None, ctypes.byref(self.handle),
            ctypes.byref(error))
        if status != OK:
            assert not self.handle, "on error *out is NULL"
            assert error.status == status
        _check(status, error.message.decode())

    def __del__(self):
        if self.handle:
            self._close(self.handle)


class Limit(_Handle):
    def __init__(self, opts):
        super().__init__("limit", opts)


class Limiter(_Handle):
    """One limit without keys. Operations: acquire, peek, refund, reset."""

    def __init__(self, opts):
        super().__init__("limiter", opts)

    def call(self, operation, now, cost=1):
        raw = RawDecision()
        cost = [] if operation == "reset" else [cost]
        _check(getattr(lib, f"weir_limiter_{operation}")(
            self.handle, *cost, now, ctypes.byref(raw)))
        return _plain(raw)

    def shed(self, deny):
        _check(lib.weir_limiter_shed(self.handle, deny))

    def force(self, how, until, now):
        _check(lib.weir_limiter_force(self.handle, how, until, now))


class Table(_Handle):
    """Of one secret, so that a trace that fails fails again; or as the file has it."""

    def __init__(self, capacity=0, path=None):
        secret = None if path else b"sixteen bytes ok"
        super().__init__("table", TableOptions(capacity=capacity, secret=secret, path=path))

    def call(self, limit, key, operation, now, cost=1):
        raw = RawDecision()
        cost = [] if operation == "reset" else [cost]
        _check(getattr(lib, f"weir_{operation}")(
            self.handle, limit.handle, Key(key, len(key)), *cost, now, ctypes.byref(raw)))
        return _plain(raw)

    def batch(self, now, requests):
        """`requests` are (limit, key, cost); returns a list of (status, decision)."""
        array = (Request * len(requests))(
            *(Request(limit.handle, Key(key, len(key)), cost) for limit, key, cost in requests))
        raws = (RawDecision * len(requests))()
        lib.weir_acquire_batch(self.handle, array, len(requests), now, raws)
        return [(request.status, _plain(raw)) for request, raw in zip(array, raws)]

    def stats(self, now):
        stats = TableStats()
        lib.weir_table_stats(self.handle, now, ctypes.byref(stats))
        return stats


class Keyed:
    """One key of one limit in a table, with the face of a Limiter."""

    def __init__(self, table, limit, key):
        self.table, self.limit, self.key = table, limit, key

    def call(self, operation, now, cost=1):
        return self.table.call(self.limit, self.key, operation, now, cost)
